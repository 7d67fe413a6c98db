import { randomBytes } from "node:crypto";
import { copyFileSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, test } from "vitest";
import { loadConfig, parseConfig } from "../../src/config/parse.ts";
import { ConfigError } from "../../src/config/problem.ts";
import { tlsFolder } from "../support/redis.ts";

const folder = mkdtempSync(join(tmpdir(), "gateway-config-"));
afterAll(() => rmSync(folder, { recursive: true }));
writeFileSync(join(folder, "empty"), "\n");
writeFileSync(join(folder, "secret"), "s3cret\n");
writeFileSync(join(folder, "two-lines"), "s3\ncret\n");
const SEAL_KEY = randomBytes(32).toString("base64");
for (const [name, lines] of Object.entries({
  "seal-short": [SEAL_KEY, "c2hvcnQ="],
  "seal-twice": [SEAL_KEY, SEAL_KEY],
  "seal-three": [1, 2, 3].map(() => randomBytes(32).toString("base64")),
  "seal-zeros": [Buffer.alloc(32).toString("base64")],
  "seal-hex": [randomBytes(32).toString("hex")],
  "seal-gap": [SEAL_KEY, "", randomBytes(32).toString("base64")],
})) {
  writeFileSync(join(folder, name), `${lines.join("\n")}\n`);
}
writeFileSync(join(folder, "nul"), "s3\0cret\n");
writeFileSync(join(folder, "umlaut"), "sécret\n");
for (const name of ["client.pem", "client-key.pem", "server-key.pem"]) {
  copyFileSync(join(tlsFolder, name), join(folder, name));
}
writeFileSync(join(folder, "half.pem"), readFileSync(join(tlsFolder, "ca.pem")).subarray(0, 300));

/** Ends each configuration that is bad elsewhere. */
const GOOD = "\nupstreams: [{ name: a, urls: ['https://a.example'] }]\n";
const A = "upstreams:\n- name: a\n  urls: ['https://a.example']\n";

function listProblems(text: string, env: Record<string, string> = {}): string[] {
  const { config, problems } = parseConfig({ text, file: join(folder, "gateway.yaml"), env });
  expect(config === undefined).toBe(problems.length > 0);
  return problems.map(({ line, column, path, message }) => `${line}:${column} ${path}: ${message}`);
}

/** What the row is about, the file, and what each problem begins with: `line:column path: message`. */
const rows: [about: string, text: string, problems: string[]][] = [
  ["an empty file", "", ["1:1 : the file is empty"]],
  ["a file of comments", "# nothing\n", ["1:1 : the file is empty"]],
  ["a file that is a list", "- a\n", ["1:1 : must be a group of keys"]],
  ["a file that is a word", "gateway\n", ["1:1 : must be a group of keys"]],
  ["two documents", `${A}---\n${A}`, ["4:1 : not valid YAML"]],
  ["a bracket left open", "listen: { port: 1\nupstreams: []\n", ["2:1 : not valid YAML"]],
  ["a tab as indentation", "listen:\n\tport: 1\n", ["2:1 : not valid YAML"]],
  ["an unknown tag", `docs: !secret x${GOOD}`, ["1:7 : not valid YAML"]],
  ["an alias without anchor", `docs: *nothing${GOOD}`, ["1:7 docs: there is no such anchor before this"]],
  ["a whole list without anchor", "upstreams: *all\n", ["1:12 upstreams: there is no such anchor before this"]],
  ["no upstreams", "docs: true\n", ["1:1 upstreams: is missing"]],
  ["upstreams without value", "docs: true\nupstreams:\n", ["2:1 upstreams: is missing"]],
  ["an empty list of upstreams", "upstreams: []\n", ["1:12 upstreams: is empty"]],
  ["upstreams as a map", "upstreams:\n  a: 1\n", ["2:3 upstreams: must be a list of upstreams"]],
  ["an upstream that is a word", "upstreams: [a]\n", ["1:13 upstreams[0]: must be a group of keys"]],
  [
    "an upstream without name and urls",
    "upstreams:\n  - enabled: true\n",
    ["2:5 upstreams[0].name: is missing", "2:5 upstreams[0].urls: is missing"],
  ],
  [
    "only disabled upstreams",
    "upstreams:\n- { name: a, enabled: false, urls: ['https://a.example'] }\n",
    ["2:1 upstreams: every upstream is disabled"],
  ],
  ["an unknown key", `lisen: {}${GOOD}`, ['1:1 lisen: unknown key; did you mean "listen"?']],
  ["an unknown key like no other", `zzzzzz: {}${GOOD}`, ["1:1 zzzzzz: unknown key"]],
  ["a key with its hump wrong", `listen: { Port: 1 }${GOOD}`, ['1:11 listen.Port: unknown key; did you mean "port"?']],
  ["the prototype as a key", `__proto__: { a: 1 }${GOOD}`, ["1:1 __proto__: unknown key"]],
  [
    "a key that is gone",
    "upstreams:\n- { name: a, urls: ['https://a.example'], compare: 0.1 }\n",
    ["2:43 upstreams[0].compare: is gone; agreement.observe takes its place"],
  ],
  [
    "a number of workers",
    `workers: 2${GOOD}`,
    [
      "1:1 workers: is gone: start more replicas at one Redis; listen.reusePort: true lets them share a port on one machine",
    ],
  ],
  ["a number as a key", `1: 2${GOOD}`, ["1:1 1: unknown key"]],
  ["a merge key", `listen: { <<: { port: 1 } }${GOOD}`, ["1:11 listen.<<: unknown key"]],
  ["a key given twice", `docs: true\ndocs: false${GOOD}`, ["2:1 docs: is given twice, first on line 1"]],
  [
    "a key given twice deep down",
    `cache:\n  ttl:\n    info: 1s\n    info: 2s${GOOD}`,
    ["4:5 cache.ttl.info: is given twice, first on line 3"],
  ],
  ["a group as a word", `listen: 8080${GOOD}`, ["1:1 listen: must be a group of keys"]],
  ["a word as a group", `docs: { a: 1 }${GOOD}`, ["1:7 docs: must be true or false"]],
  ["a list where one value belongs", `listen: { port: [1] }${GOOD}`, ["1:17 listen.port: must be a whole number"]],
  ["a boolean of old YAML", `docs: yes${GOOD}`, ['1:7 docs: must be true or false, not "yes"']],
  ["a quoted boolean", `docs: "true"${GOOD}`, ['1:7 docs: must be true or false, not "true"']],
  [
    "a quoted number",
    `listen: { port: "80" }${GOOD}`,
    ['1:17 listen.port: must be a whole number from 0 to 65535, not "80"'],
  ],
  [
    "a number as text",
    `upstreams: [{ name: 12, urls: ['https://a.example'] }]`,
    ["1:21 upstreams[0].name: must be text: put it in quotes"],
  ],
  [
    "a port too high",
    `listen: { port: 65536 }${GOOD}`,
    ["1:17 listen.port: must be a whole number from 0 to 65535, not 65536"],
  ],
  ["a negative port", `operations: { port: -1 }${GOOD}`, ["1:21 operations.port: must be a whole number"]],
  ["half a port", `listen: { port: 80.5 }${GOOD}`, ["1:17 listen.port: must be a whole number"]],
  ["an empty host", `listen: { host: "" }${GOOD}`, ['1:17 listen.host: must be text, not ""']],
  [
    "both listeners on one port",
    `listen: { port: 9090 }${GOOD}`,
    ["1:1 operations.port: is the port of the public listener too (9090)"],
  ],
  [
    "a number as a duration",
    `shutdown: { grace: 5 }${GOOD}`,
    ["1:20 shutdown.grace: 5 is not a duration such as 250ms"],
  ],
  [
    "a duration in words",
    `shutdown: { grace: 5 seconds }${GOOD}`,
    ['1:20 shutdown.grace: "5 seconds" is not a duration'],
  ],
  ["a negative duration", `shutdown: { grace: -5s }${GOOD}`, ['1:20 shutdown.grace: "-5s" is not a duration']],
  ["a duration of another unit", `shutdown: { grace: 5d }${GOOD}`, ['1:20 shutdown.grace: "5d" is not a duration']],
  [
    "a duration of nothing where time is needed",
    `listen: { headersTimeout: 0s }${GOOD}`,
    ["1:27 listen.headersTimeout: must be at least 1ms"],
  ],
  ["a size of another unit", `limits: { uri: 8KB }${GOOD}`, ['1:16 limits.uri: "8KB" is not a size such as 512B']],
  ["a size too small", `limits: { uri: 1B }${GOOD}`, ["1:16 limits.uri: must be at least 256B"]],
  ["a size too large", `limits: { requestBody: 2GiB }${GOOD}`, ["1:24 limits.requestBody: must be at most 1GiB"]],
  ["a share above one", `log: { hits: 1.5 }${GOOD}`, ["1:14 log.hits: must be a number from 0 to 1, not 1.5"]],
  [
    "a level that is none",
    `log: { level: warm }${GOOD}`,
    [
      '1:15 log.level: must be fatal or error or warn or info or debug or trace or silent, not "warm"; did you mean "warn"?',
    ],
  ],
  [
    "an origin with a path",
    `cors: { origins: [https://a.example/x] }${GOOD}`,
    ['1:19 cors.origins[0]: "https://a.example/x" is not an origin'],
  ],
  ["an origins word", `cors: { origins: "*" }${GOOD}`, ["1:18 cors.origins: must be a list of origins"]],
  [
    "a header name with a space",
    `routing: { adminHeader: x admin }${GOOD}`,
    ['1:25 routing.adminHeader: "x admin" is not the name of a header field'],
  ],
  ["a prefix without slash", `routing: { prefix: registrars }${GOOD}`, ["1:20 routing.prefix: must be a path"]],
  [
    "a prefix that ends with a slash",
    `routing: { prefix: /registrars/ }${GOOD}`,
    ["1:20 routing.prefix: must be a path"],
  ],
  ["the root as prefix", `routing: { prefix: / }${GOOD}`, ["1:20 routing.prefix: must be a path"]],
  [
    "a prefix at /registry",
    `routing: { prefix: /registry }${GOOD}`,
    ["1:20 routing.prefix: must not be below /registry"],
  ],
  [
    "a prefix below /registry",
    `routing: { prefix: /registry/of }${GOOD}`,
    ["1:20 routing.prefix: must not be below /registry"],
  ],
  [
    "a prefix with dots",
    `routing: { prefix: /a/../b }${GOOD}`,
    ["1:20 routing.prefix: must not have segments . or .."],
  ],
  [
    "plain that names no upstream",
    `routing: { plain: amulett }\nupstreams: [{ name: amulet, urls: ['https://a.example'] }]\n`,
    ['1:19 routing.plain: "amulett" is no upstream: it must be aggregate, off or a name; did you mean "amulet"?'],
  ],
  [
    "a name with a colon",
    `upstreams: [{ name: "a::b", urls: ['https://a.example'] }]`,
    ["1:21 upstreams[0].name: must be 1 to 64 letters"],
  ],
  [
    "a name with a slash",
    `upstreams: [{ name: a/b, urls: ['https://a.example'] }]`,
    ["1:21 upstreams[0].name: must be 1 to 64 letters"],
  ],
  [
    "a name that begins with a dot",
    `upstreams: [{ name: ..a, urls: ['https://a.example'] }]`,
    ["1:21 upstreams[0].name: must be 1 to 64 letters"],
  ],
  [
    "a name of 65 letters",
    `upstreams: [{ name: ${"a".repeat(65)}, urls: ['https://a.example'] }]`,
    ["1:21 upstreams[0].name: must be 1 to 64 letters"],
  ],
  [
    "a name that routing.plain gives a meaning",
    `upstreams: [{ name: aggregate, urls: ['https://a.example'] }]`,
    ['1:21 upstreams[0].name: "aggregate" has a meaning of its own'],
  ],
  [
    "a name given twice",
    `${A}- name: a\n  urls: ['https://b.example']\n`,
    ["4:9 upstreams[1].name: the same name is given at upstreams[0].name"],
  ],
  [
    "scans that are no URLs",
    `discovery: { sources: [{ cns: [bad, alsobad], admins: ['DSO::1220'] }] }${GOOD}`,
    ["1:32 discovery.sources[0].cns[0]: ", "1:37 discovery.sources[0].cns[1]: "],
  ],
  [
    "an admin given twice, in another hex case",
    `upstreams:\n- { name: a, admin: "x::12AB", urls: ['https://a.example'] }\n- { name: b, admin: "x::12ab", urls: ['https://b.example'] }\n`,
    ["3:21 upstreams[1].admin: the same admin is given at upstreams[0].admin"],
  ],
  [
    "an admin that is another upstream's name",
    `upstreams:\n- { name: a, admin: "b", urls: ['https://a.example'] }\n- { name: b, urls: ['https://b.example'] }\n`,
    ["2:21 upstreams[0].admin: is the name at upstreams[1].name"],
  ],
  [
    "an admin with a line break",
    `upstreams: [{ name: a, admin: "x::1\\n", urls: ['https://a.example'] }]`,
    ["1:31 upstreams[0].admin: must be a party id"],
  ],
  ["no urls", "upstreams: [{ name: a, urls: [] }]", ["1:30 upstreams[0].urls: is empty"]],
  [
    "a url outside of a list",
    "upstreams: [{ name: a, urls: 'https://a.example' }]",
    ["1:30 upstreams[0].urls: must be a list of URLs"],
  ],
  [
    "a url of another scheme",
    "upstreams: [{ name: a, urls: ['ftp://a.example'] }]",
    ["1:31 upstreams[0].urls[0]: must begin with http:// or https://"],
  ],
  [
    "a url without scheme",
    "upstreams: [{ name: a, urls: [a.example] }]",
    ["1:31 upstreams[0].urls[0]: is not a URL: write it in full"],
  ],
  [
    "a url with credentials",
    "upstreams: [{ name: a, urls: ['https://u:pw@a.example'] }]",
    ["1:31 upstreams[0].urls[0]: must hold no user or password"],
  ],
  [
    "a url with a query",
    "upstreams: [{ name: a, urls: ['https://a.example/?x=1'] }]",
    ["1:31 upstreams[0].urls[0]: must have no query"],
  ],
  [
    "a url with an empty query",
    "upstreams: [{ name: a, urls: ['https://a.example/?'] }]",
    ["1:31 upstreams[0].urls[0]: must have no query"],
  ],
  [
    "a url with a fragment",
    "upstreams: [{ name: a, urls: ['https://a.example/#x'] }]",
    ["1:31 upstreams[0].urls[0]: must have no fragment"],
  ],
  [
    "a node given twice, written differently",
    "upstreams: [{ name: a, urls: ['https://a.example/registry/', 'https://A.example:443'] }]",
    ["1:62 upstreams[0].urls[1]: the same node is given at upstreams[0].urls[0]"],
  ],
  ["a url without value", "upstreams:\n- name: a\n  urls:\n  -\n", ["4:4 upstreams[0].urls[0]: is empty"]],
  [
    "an attempt longer than all of them",
    `${A}  timeout: 1s\n  attemptTimeout: 2s\n`,
    ["5:19 upstreams[0].attemptTimeout: must not be longer than timeout (1s)"],
  ],
  [
    "more nodes that have to agree than there are",
    `${A}  agreement: { admin: 2 }\n`,
    ["4:23 upstreams[0].agreement.admin: must not be more than the number of urls (1)"],
  ],
  [
    "more nodes that have to give the same context than there are",
    `${A}  agreement: { metadata: 2, contexts: 3 }\n`,
    [
      "4:26 upstreams[0].agreement.metadata: must not be more than the number of urls (1)",
      "4:39 upstreams[0].agreement.contexts: must not be more than the number of urls (1)",
    ],
  ],
  [
    "the key that agreement.admin took the place of",
    `${A}  agree: 2\n`,
    ["4:3 upstreams[0].agree: is gone; agreement.admin takes its place"],
  ],
  ["a timeout of nothing", `${A}  timeout: 0s\n`, ["4:12 upstreams[0].timeout: must be at least 1ms"]],
  [
    "a retry budget above one",
    `${A}  retry: { budget: 2 }\n`,
    ["4:20 upstreams[0].retry.budget: must be a number from 0 to 1, not 2"],
  ],
  [
    "no attempts",
    `${A}  retry: { attempts: 0 }\n`,
    ["4:22 upstreams[0].retry.attempts: must be a whole number from 1 to 10"],
  ],
  ["memory for one upstream", `${A}  cache: { memory: {} }\n`, ["4:12 upstreams[0].cache.memory: unknown key"]],
  [
    "a bad ttl for one upstream",
    `${A}  cache:\n    ttl: { info: x }\n`,
    ['5:18 upstreams[0].cache.ttl.info: "x" is not a duration'],
  ],
  [
    "a largest object above the memory",
    `cache: { memory: { maxBytes: 1MiB, maxObject: 2MiB } }${GOOD}`,
    ["1:47 cache.memory.maxObject: must not be larger than maxBytes (1MiB)"],
  ],
  [
    "the client's authorization by name",
    `cache: { forwardRequestHeaders: [Authorization] }${GOOD}`,
    ["1:34 cache.forwardRequestHeaders[0]: authorization cannot be forwarded by name"],
  ],
  [
    "an answer field that never passes",
    `cache: { forwardResponseHeaders: [Set-Cookie, X-Accel-Redirect, x-mine] }${GOOD}`,
    [
      "1:35 cache.forwardResponseHeaders[0]: set-cookie is never sent on",
      "1:47 cache.forwardResponseHeaders[1]: x-accel-redirect is never sent on",
    ],
  ],
  [
    "all headers among others",
    `cache: { forwardRequestHeaders: [x-a, "*"] }${GOOD}`,
    ['1:39 cache.forwardRequestHeaders[1]: "*" stands alone'],
  ],
  [
    "headers as a word",
    `cache: { forwardRequestHeaders: x-a }${GOOD}`,
    ["1:33 cache.forwardRequestHeaders: must be a list of header names"],
  ],
  [
    "a seal key file that holds something short",
    "redis: { url: 'redis://r', sealKeyFile: seal-short }" + GOOD,
    [`1:41 redis.sealKeyFile: ${folder}/seal-short has on line 2 what is not 32 bytes in base64`],
  ],
  [
    "a seal key file that holds a key twice",
    "redis: { url: 'redis://r', sealKeyFile: seal-twice }" + GOOD,
    [`1:41 redis.sealKeyFile: ${folder}/seal-twice has on line 2 the key of line 1 again`],
  ],
  [
    "a seal key file that holds three keys",
    "redis: { url: 'redis://r', sealKeyFile: seal-three }" + GOOD,
    [`1:41 redis.sealKeyFile: ${folder}/seal-three has 3 keys: give one, or two while it changes`],
  ],
  [
    "a seal key file that holds zeros",
    "redis: { url: 'redis://r', sealKeyFile: seal-zeros }" + GOOD,
    [`1:41 redis.sealKeyFile: ${folder}/seal-zeros has on line 1 a key that is not random`],
  ],
  [
    "a seal key file that holds hex",
    "redis: { url: 'redis://r', sealKeyFile: seal-hex }" + GOOD,
    [`1:41 redis.sealKeyFile: ${folder}/seal-hex has on line 1 what is not 32 bytes in base64`],
  ],
  [
    "a seal key file that has a gap",
    "redis: { url: 'redis://r', sealKeyFile: seal-gap }" + GOOD,
    [`1:41 redis.sealKeyFile: ${folder}/seal-gap has on line 2 what is not 32 bytes in base64`],
  ],
  [
    "members of a group with other limits",
    `${A}  rateLimit: { group: host }\n- name: b\n  urls: ['https://b.example']\n  rateLimit: { group: host, requests: 60, per: 1m }\n`,
    [
      '7:39 upstreams[1].rateLimit.requests: is not what upstreams[0].rateLimit.requests says: "a" and "b" share the group "host"',
    ],
  ],
  [
    "a group with another limit for what is found",
    `${A}  rateLimit: { group: host }\ndiscovery:\n  sources: [{ url: 'https://l.example' }]\n  defaults: { rateLimit: { group: host, requests: 60, per: 1m } }\n`,
    [
      '7:51 discovery.defaults.rateLimit.requests: is not what upstreams[0].rateLimit.requests says: "a" and what is found share the group "host"',
    ],
  ],
  [
    "a group that is no name",
    `${A}  rateLimit: { group: "a b" }\n`,
    ["4:23 upstreams[0].rateLimit.group: must be 1 to 64 letters"],
  ],
  [
    "a rate limit of nothing",
    `${A}  rateLimit: { requests: 0 }\n`,
    ["4:26 upstreams[0].rateLimit.requests: must be a whole number from 1"],
  ],
  [
    "auth of no kind",
    `${A}  auth: {}\n`,
    ["4:3 upstreams[0].auth: exactly one of bearerToken, bearerTokenFile, header, oauth2"],
  ],
  [
    "auth of two kinds",
    `${A}  auth: { bearerToken: a, header: { name: x-key, value: b } }\n`,
    ["4:27 upstreams[0].auth.header: exactly one of bearerToken, bearerTokenFile, header, oauth2"],
  ],
  [
    "an oauth2 that lacks most",
    `${A}  auth: { oauth2: { clientId: x } }\n`,
    [
      "4:11 upstreams[0].auth.oauth2.tokenUrl: is missing",
      "4:11 upstreams[0].auth.oauth2: exactly one of clientSecret, clientSecretFile",
    ],
  ],
  [
    "a secret of two lines",
    `${A}  auth: { bearerToken: "a\\nb" }\n`,
    ["4:24 upstreams[0].auth.bearerToken: is not one line of text"],
  ],
  [
    "a missing secret file",
    `${A}  auth: { bearerTokenFile: nothing }\n`,
    ["4:28 upstreams[0].auth.bearerTokenFile: there is no file"],
  ],
  ["an empty secret file", `${A}  auth: { bearerTokenFile: empty }\n`, ["4:28 upstreams[0].auth.bearerTokenFile: "]],
  ["a folder as a secret file", `${A}  auth: { bearerTokenFile: . }\n`, ["4:28 upstreams[0].auth.bearerTokenFile: "]],
  [
    "own credentials and the client's",
    `${A}  auth: { bearerToken: a }\n  forwardAuthorization: true\n`,
    ["5:25 upstreams[0].forwardAuthorization: cannot go with auth"],
  ],
  [
    "a certificate without key",
    `${A}  tls: { certFile: client.pem }\n`,
    ["4:20 upstreams[0].tls.certFile: needs keyFile"],
  ],
  [
    "a key without certificate",
    `${A}  tls: { keyFile: client-key.pem }\n`,
    ["4:19 upstreams[0].tls.keyFile: needs certFile"],
  ],
  [
    "a bearer token of two lines",
    `${A}  auth: { bearerTokenFile: two-lines }\n`,
    [`4:28 upstreams[0].auth.bearerTokenFile: ${folder}/two-lines is not one line of text without control characters`],
  ],
  [
    "a bearer token with NUL in it",
    `${A}  auth: { bearerTokenFile: nul }\n`,
    [`4:28 upstreams[0].auth.bearerTokenFile: ${folder}/nul is not one line of text without control characters`],
  ],
  [
    "a header value that no header can hold",
    `${A}  auth: { header: { name: x-key, valueFile: umlaut } }\n`,
    [`4:45 upstreams[0].auth.header.valueFile: ${folder}/umlaut holds other than ASCII characters`],
  ],
  [
    "a client secret of two lines",
    `${A}  auth: { oauth2: { tokenUrl: "https://l.example", clientId: i, clientSecretFile: two-lines } }\n`,
    [`4:83 upstreams[0].auth.oauth2.clientSecretFile: ${folder}/two-lines is not one line of text`],
  ],
  [
    "an operations token of two lines",
    `operations: { tokenFile: two-lines }${GOOD}`,
    [`1:26 operations.tokenFile: ${folder}/two-lines is not one line of text`],
  ],
  [
    "a redis URL file that holds none",
    `redis: { urlFile: secret }${GOOD}`,
    [`1:19 redis.urlFile: ${folder}/secret is not a URL`],
  ],
  [
    "a key that is another certificate's",
    `${A}  tls: { certFile: client.pem, keyFile: server-key.pem }\n`,
    [`4:41 upstreams[0].tls.keyFile: ${folder}/server-key.pem is not the key of the certificate`],
  ],
  [
    "a key of redis that is another certificate's",
    `redis: { url: "rediss://r", tls: { certFile: client.pem, keyFile: server-key.pem } }${GOOD}`,
    [`1:67 redis.tls.keyFile: ${folder}/server-key.pem is not the key of the certificate`],
  ],
  [
    "files of tls that hold something else",
    `${A}  tls: { caFile: secret, certFile: client-key.pem, keyFile: client.pem }\n`,
    [
      `4:18 upstreams[0].tls.caFile: ${folder}/secret holds no certificate`,
      `4:36 upstreams[0].tls.certFile: ${folder}/client-key.pem holds no certificate`,
      `4:61 upstreams[0].tls.keyFile: ${folder}/client.pem holds no private key`,
    ],
  ],
  [
    "an authority that was written by half",
    `${A}  tls: { caFile: half.pem }\n`,
    [`4:18 upstreams[0].tls.caFile: ${folder}/half.pem ends within a certificate`],
  ],
  ...["Host", "content-length", "Connection", "te", "transfer-encoding", "expect", "proxy-authorization"].map(
    (name): [string, string, string[]] => [
      `credentials in the header ${name}`,
      `${A}  auth: { header: { name: ${name}, value: v } }\n`,
      [`4:27 upstreams[0].auth.header.name: ${name.toLowerCase()} has a meaning of its own in HTTP`],
    ],
  ),
  [
    "an admin header that means something else",
    `routing: { adminHeader: Host }${GOOD}`,
    ["1:25 routing.adminHeader: host has a meaning of its own in HTTP"],
  ],
  ["a missing authority", `${A}  tls: { caFile: ca.pem }\n`, ["4:18 upstreams[0].tls.caFile: there is no file"]],
  [
    "a proxy with a path",
    `${A}  httpProxy: http://p.example/x\n`,
    ["4:14 upstreams[0].httpProxy: must be scheme, host and port only"],
  ],
  [
    "a validation of another kind",
    `${A}  validation: loose\n`,
    ['4:15 upstreams[0].validation: must be lenient or strict, not "loose"'],
  ],
  ["redis of no kind", `redis: {}${GOOD}`, ["1:1 redis: exactly one of url, urlFile, cluster, sentinel"]],
  [
    "redis of two kinds",
    `redis: { url: "redis://a", cluster: { nodes: ["redis://b"] } }${GOOD}`,
    ["1:28 redis.cluster: exactly one of url, urlFile, cluster, sentinel"],
  ],
  ["redis over http", `redis: { url: "http://a" }${GOOD}`, ["1:15 redis.url: must begin with redis:// or rediss://"]],
  ["a missing redis url file", `redis: { urlFile: nothing }${GOOD}`, ["1:19 redis.urlFile: there is no file"]],
  [
    "a cluster with TLS on some nodes",
    `redis: { cluster: { nodes: ["redis://:pw@a", "rediss://:pw@b"] } }${GOOD}`,
    ["1:46 redis.cluster.nodes[1]: mixes redis:// and rediss:// with redis.cluster.nodes[0]"],
  ],
  [
    "a cluster with another login on each node",
    `redis: { cluster: { nodes: ["redis://:one@a", "redis://:two@b"] } }${GOOD}`,
    ["1:47 redis.cluster.nodes[1]: has another login than redis.cluster.nodes[0]"],
  ],
  [
    "a cluster whose first node is none",
    `redis: { cluster: { nodes: ["a", "rediss://b"] }, password: p }${GOOD}`,
    ["1:29 redis.cluster.nodes[0]: is not a URL"],
  ],
  [
    "a password that breaks the URL",
    `redis: { url: "redis://:pass#word@r.example" }${GOOD}`,
    ["1:15 redis.url: is not a URL: write it in full, such as rediss://host; in a password, percent-encode # as %23"],
  ],
  [
    "a password that makes another URL",
    `redis: { url: "redis://user:12/34@r.example" }${GOOD}`,
    ["1:15 redis.url: must be scheme, host and port only; in a password, percent-encode # as %23"],
  ],
  [
    "a password with a fragment in it",
    `redis: { url: "redis://user:12#34@r.example" }${GOOD}`,
    ["1:15 redis.url: must have no fragment (#…); in a password, percent-encode # as %23"],
  ],
  [
    "a password that decodes to nothing",
    `redis: { url: "redis://:100%@r.example" }${GOOD}`,
    ["1:15 redis.url: has a % that encodes nothing; in a password, percent-encode # as %23"],
  ],
  [
    "a redis URL with a query, which could switch TLS off",
    `redis: { url: "rediss://r.example?tls=" }${GOOD}`,
    ["1:15 redis.url: must have no query (?…)"],
  ],
  [
    "two passwords for redis",
    `redis: { url: "redis://a", password: one, passwordFile: secret }${GOOD}`,
    ["1:57 redis.passwordFile: give password or passwordFile, not both"],
  ],
  [
    "a user without password",
    `redis: { url: "redis://a", username: u }${GOOD}`,
    ["1:38 redis.username: needs password or passwordFile"],
  ],
  [
    "a login beside that of the URL",
    `redis: { url: "redis://:pw@a", passwordFile: secret }${GOOD}`,
    ["1:46 redis.passwordFile: the URL holds a login already"],
  ],
  [
    "the login to the master among the keys of the sentinels",
    `redis: { sentinel: { name: m, nodes: ["s:1"], auth: { password: p } } }${GOOD}`,
    [
      "1:47 redis.sentinel.auth: is gone: the login to the master is redis.username and redis.password or redis.passwordFile",
    ],
  ],
  [
    "a page that is fetched ahead",
    "cache: { prefetch: true }\nupstreams:\n- { name: a, urls: ['https://a.example'], cache: { prefetch: true }, publicOnly: true }\n",
    [
      "1:10 cache.prefetch: is gone: the next page is fetched when a client asks for it",
      "3:52 upstreams[0].cache.prefetch: is gone: the next page is fetched when a client asks for it",
      "3:70 upstreams[0].publicOnly: is gone: written upstreams are where their urls say",
    ],
  ],
  ["a cluster of nobody", `redis: { cluster: { nodes: [] } }${GOOD}`, ["1:28 redis.cluster.nodes: is empty"]],
  [
    "a sentinel without port",
    `redis: { sentinel: { name: m, nodes: [s] } }${GOOD}`,
    ["1:39 redis.sentinel.nodes[0]: is not of the form host:port"],
  ],
  [
    "a sentinel at a port that there is not",
    `redis: { sentinel: { name: m, nodes: ["s:70000"] } }${GOOD}`,
    ["1:39 redis.sentinel.nodes[0]: is not of the form host:port"],
  ],
  ["no time for idle connections", `listen: { keepAliveTimeout: 0s }${GOOD}`, ["1:29 listen.keepAliveTimeout"]],
  [
    "a login without a password",
    `redis: { sentinel: { name: m, nodes: ["s:1"], sentinelAuth: { username: u } } }${GOOD}`,
    ["1:47 redis.sentinel.sentinelAuth: exactly one of password, passwordFile"],
  ],
  [
    "a login with two passwords",
    `redis: { sentinel: { name: m, nodes: ["s:1"], sentinelAuth: { password: p, passwordFile: secret } } }${GOOD}`,
    ["1:90 redis.sentinel.sentinelAuth.passwordFile: exactly one of password, passwordFile"],
  ],
  [
    "an empty key prefix",
    `redis: { url: "redis://a", keyPrefix: "" }${GOOD}`,
    ["1:39 redis.keyPrefix: must be 1 to 64 characters"],
  ],
  [
    "a key prefix with a hash tag",
    `redis: { url: "redis://a", keyPrefix: "{a}" }${GOOD}`,
    ["1:39 redis.keyPrefix: must be 1 to 64 characters"],
  ],
  [
    "two operations tokens",
    `operations: { token: a, tokenFile: secret }${GOOD}`,
    ["1:36 operations.tokenFile: give token or tokenFile, not both"],
  ],
  [
    "an unset variable",
    `listen: { port: "\${PORT}" }${GOOD}`,
    ["1:17 listen.port: the environment variable PORT is not set"],
  ],
  [
    "two unset variables in a secret",
    `${A}  auth: { bearerToken: "\${A}\${B}" }\n`,
    [
      "4:24 upstreams[0].auth.bearerToken: the environment variable A",
      "4:24 upstreams[0].auth.bearerToken: the environment variable B",
    ],
  ],
  ["a reference left open", `listen: { host: "\${HOST" }${GOOD}`, ['1:17 listen.host: "${" is not closed by "}"']],
  ["a reference that is none", `listen: { host: "\${1A}" }${GOOD}`, ['1:17 listen.host: "${1A}" is not of the form']],
];

test.each(rows)("%s is reported at its place", (_about, text, expected) => {
  const problems = listProblems(text);
  expect(problems).toHaveLength(expected.length);
  for (const [index, begin] of expected.entries())
    expect(problems[index]!.startsWith(begin), problems[index]).toBe(true);
});

test("every problem of a file is reported at once, in the order of the file", () => {
  const problems = listProblems(`lisen: {}
listen: { port: "\${PORT}", keepAliveTimeout: 5 }
cache: { ttl: { info: abc } }
upstreams:
  - name: a::b
    urls: ["ftp://x", "http://u:p@x"]
  - { name: b, urls: [], hedge: { enabled: yes } }
routing: { plain: c }
`);
  expect(problems.map((problem) => problem.split(": ")[0])).toEqual([
    "1:1 lisen",
    "2:17 listen.port",
    "2:46 listen.keepAliveTimeout",
    "3:23 cache.ttl.info",
    "5:11 upstreams[0].name",
    "6:12 upstreams[0].urls[0]",
    "6:23 upstreams[0].urls[1]",
    "7:22 upstreams[1].urls",
    "7:44 upstreams[1].hedge.enabled",
    "8:19 routing.plain",
  ]);
});

test("what the environment supplies is never repeated, though it got into the wrong key", () => {
  const secret = "redis-user:hunter2";
  for (const text of [
    `redis: { url: "http://\${SECRET}@h" }${GOOD}`,
    `upstreams: [{ name: a, urls: ["https://\${SECRET}@a.example"] }]`,
    `${A}  httpProxy: "ftp://\${SECRET}@h"\n`,
    `${A}  auth: { bearerToken: "\${SECRET}\\n" }\n`,
    `listen: { port: "\${SECRET}" }${GOOD}`,
    `docs: "\${SECRET}"${GOOD}`,
    `log: { level: "\${SECRET}" }${GOOD}`,
    `shutdown: { grace: "\${SECRET}" }${GOOD}`,
    `limits: { uri: "\${SECRET}" }${GOOD}`,
    `cors: { origins: ["\${SECRET}"] }${GOOD}`,
    `operations: { tokenFile: "\${SECRET}" }${GOOD}`,
    `routing: { plain: "\${SECRET}" }${GOOD}`,
    `routing: { plain: "\${SECRET:hunter2}" }${GOOD}`,
    `redis: { sentinel: { name: m, nodes: ["\${SECRET}"] } }${GOOD}`,
    `redis: { sentinel: { name: m, nodes: ["redis://${secret}@s:26379"] } }${GOOD}`,
    `log: { level: "https://${secret}@h" }${GOOD}`,
  ]) {
    const problems = listProblems(text, { SECRET: secret });
    expect(problems).toHaveLength(1);
    expect(problems[0]).not.toContain("hunter2");
  }
});

/** Secrets that begin or go on with what means something in YAML; the rest of each is one word. */
const UNQUOTED = [
  ..."!*>|@`%{[]},&'\"".split("").map((sign) => `${sign}Tr0ub4dor3`),
  "!Tr0ub4dor3&3",
  "!!Tr0ub4dor3",
  "!e!Tr0ub4dor3",
  "!<Tr0ub4dor3",
  "!Tr0ub4dor3 {}",
  "!!%Tr0ub4dor3",
  "!a !Tr0ub4dor3",
  "{Tr0ub4dor3}",
  "[Tr0ub4dor3]",
  ">-xTr0ub4dor3",
  "|2 Tr0ub4dor3",
  "- Tr0ub4dor3",
  "Tr0ub4dor3: x",
  "x: Tr0ub4dor3",
  '"a" Tr0ub4dor3',
  '"\\UTr0ub4dor3"',
  "\n%Tr0ub4dor3",
];

test("no secret without quotes is repeated, nor passed over, where YAML takes it for something else", () => {
  for (const secret of UNQUOTED) {
    for (const text of [
      `operations:\n  token: ${secret}${GOOD}`,
      `operations: { token: ${secret} }${GOOD}`,
      `%${secret}${GOOD}`,
    ]) {
      const problems = listProblems(text);
      expect(problems, text).not.toEqual([]);
      expect(problems.join("\n"), text).not.toContain("Tr0ub4do");
    }
  }
  expect(listProblems(`operations: { token: !Tr0ub4dor3 }${GOOD}`)).toEqual([
    "1:22 : not valid YAML: there is no such tag (!); a value with special signs belongs in single quotes",
  ]);
  expect(listProblems(`operations: { token: a,Tr0ub4dor3 }${GOOD}`)).toEqual([
    "1:24 operations: this is no key; a value with special signs belongs in single quotes",
  ]);
});

test("a file that does not load says each problem as file:line:column path: message", () => {
  const file = join(folder, "bad.yaml");
  writeFileSync(file, "docs: 1\nlog: { hits: 2 }\n");
  expect(() => loadConfig(file, {})).toThrow(ConfigError);
  expect(() => loadConfig(file, {})).toThrow(
    [
      `${file}:1:1 upstreams: is missing: it must be a list of upstreams`,
      `${file}:1:7 docs: must be true or false, not 1`,
      `${file}:2:14 log.hits: must be a number from 0 to 1, not 2`,
    ].join("\n"),
  );
});

test("a missing file, and a folder in its place, are bad configurations", () => {
  const file = join(folder, "nothing.yaml");
  expect(() => loadConfig(file, {})).toThrow(
    new ConfigError(file, [{ line: 0, column: 0, path: "", message: "there is no such file" }]),
  );
  expect(() => loadConfig(file, {})).toThrow(`${file}: there is no such file`);
  expect(() => loadConfig(folder, {})).toThrow(/is not a file/);
});
