import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { afterAll, expect, test } from "vitest";
import { loadConfig } from "../../../src/config/load.ts";
import { ConfigError } from "../../../src/config/problem.ts";

const folder = mkdtempSync(join(tmpdir(), "gateway-config-"));
afterAll(() => rmSync(folder, { recursive: true }));
const TLS = resolve(import.meta.dirname, "../../fixtures/tls");
const write = (name: string, text: string): void => writeFileSync(join(folder, name), text);

write("secret", "s3cret of more than sixteen\n");
write("large", "x".repeat(64 * 1_024 + 1));
write("half.pem", "-----BEGIN CERTIFICATE-----\nMIIB\n");
write("keys.jsonl", '\n{"name":"a","tier":"wallet","digest":"short"}\n');

/** Ends each configuration that is bad elsewhere. */
const GOOD = "\nupstreams: [{ name: a, urls: ['https://a.example'] }]\n";
/** Begins each upstream that is bad: what follows is line 4. */
const A = "upstreams:\n- name: a\n  urls: ['https://a.example', 'https://a2.example']\n";
const ADMIN = "  admin: 'x::1'\n";

function problemsOf(text: string, env: Record<string, string> = {}): string[] {
  write("gateway.yaml", text);
  try {
    loadConfig({ file: join(folder, "gateway.yaml") }, env);
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error;
    return error.problems.map(({ line, column, path, message }) => `${line}:${column} ${path}: ${message}`);
  }
  return [];
}

/** The file, and what each problem begins with: `line:column path: message`. */
const SYNTAX: Record<string, [text: string, ...problems: string[]]> = {
  "an empty file": ["", "1:1 upstreams: is missing: it must be a list of upstreams"],
  "a file that is a list": ["- a\n", "1:1 : must be a group of keys"],
  "a file that is a word": ["gateway\n", "1:1 : must be a group of keys"],
  "two documents": [`${A}---\n${A}`, "4:1 : not valid YAML"],
  "a bracket left open": ["listen: { port: 1\nupstreams: []\n", "2:1 : not valid YAML"],
  "a tab as indentation": ["listen:\n\tport: 1\n", "2:1 : not valid YAML"],
  "an unknown tag": [`log: !secret x${GOOD}`, "1:6 : not valid YAML"],
  "an unquoted reference in braces": [
    `listen: { port: \${PORT}, host: a }\noperations: { port: \${B} }${GOOD}`,
    '1:17 : a reference in braces or brackets stands in quotes: "${…}"',
  ],
  "an unquoted reference in brackets": [`cors: { origins: [\${A}] }${GOOD}`, "1:19 : a reference in braces"],
  "an alias without anchor": [`log: *nothing${GOOD}`, "1:6 log: there is no such anchor before this"],
  "an unknown key": [`lisen: {}${GOOD}`, '1:1 lisen: unknown key; did you mean "listen"?'],
  "an unknown key like no other": [`zzzzzz: {}${GOOD}`, "1:1 zzzzzz: unknown key"],
  "an unknown key deep down": [
    `cache: { ttl: { infos: 1s } }${GOOD}`,
    '1:17 cache.ttl.infos: unknown key; did you mean "info"?',
  ],
  "a key of an earlier edition": [`discovery: {}${GOOD}`, "1:1 discovery: unknown key"],
  "the prototype as a key": [`__proto__: { a: 1 }${GOOD}`, "1:1 __proto__: unknown key"],
  "a number as a key": [`1: 2${GOOD}`, "1:1 1: unknown key"],
  "a merge key": [`listen: { <<: { port: 1 } }${GOOD}`, "1:11 listen.<<: unknown key"],
  "a key given twice": [`cache:\n  ttl:\n    info: 1s\n    info: 2s${GOOD}`, "4:5 cache.ttl.info: is given twice"],
  "a key without a colon": [`log: { level, addresses: true }${GOOD}`, "1:8 log: this is no key"],
};

const VALUES: typeof SYNTAX = {
  "a group as a word": [`listen: 8080${GOOD}`, "1:9 listen: must be a group of keys"],
  "a word as a group": [`log: { addresses: { a: 1 } }${GOOD}`, "1:19 log.addresses: must be true or false"],
  "a list where one value belongs": [`listen: { port: [1] }${GOOD}`, "1:17 listen.port: must be a whole number from 0"],
  "one value where a list belongs": [`cors: { origins: "*" }${GOOD}`, "1:18 cors.origins: must be a list of origins"],
  "a boolean of old YAML": [`log: { addresses: yes }${GOOD}`, "1:19 log.addresses: must be true or false"],
  "a quoted boolean": [`log: { addresses: "true" }${GOOD}`, "1:19 log.addresses: must be true or false"],
  "a quoted number": [`listen: { port: "80" }${GOOD}`, "1:17 listen.port: must be a whole number from 0 to 65535"],
  "a number as text": [
    "upstreams: [{ name: 12, urls: ['https://a'] }]",
    "1:21 upstreams[0].name: must be text: put it in quotes",
  ],
  "a port too high": [`listen: { port: 65536 }${GOOD}`, "1:17 listen.port: must be a whole number from 0 to 65535"],
  "half a port": [`operations: { port: 80.5 }${GOOD}`, "1:21 operations.port: must be a whole number"],
  "an empty host": [`listen: { host: "" }${GOOD}`, "1:17 listen.host: must be text"],
  "a number as a duration": [`shutdown: { grace: 5 }${GOOD}`, "1:20 shutdown.grace: must be a duration such as 250ms"],
  "a duration in words": [`shutdown: { grace: 5 seconds }${GOOD}`, "1:20 shutdown.grace: must be a duration"],
  "a negative duration": [`shutdown: { grace: -5s }${GOOD}`, "1:20 shutdown.grace: must be a duration"],
  "no time where some is needed": [
    `${A}  timeout: 0s\n`,
    "4:12 upstreams[0].timeout: must be a duration such as 250ms, 30s or 10m, at least 1ms",
  ],
  "a proof too often": [
    `${A}  proofEvery: 10ms\n`,
    "4:15 upstreams[0].proofEvery: must be a duration such as 250ms, 30s or 10m, at least 1s",
  ],
  "a size of another unit": [
    `limits: { requestBody: 8KB }${GOOD}`,
    "1:24 limits.requestBody: must be a size such as 64KiB",
  ],
  "no memory": [`cache: { memory: 0B }${GOOD}`, "1:18 cache.memory: must be a size such as 64KiB or 1MiB, at least 1B"],
  "a rate without a window": [
    `${A}  rateLimit: { requests: 120 }\n`,
    "4:26 upstreams[0].rateLimit.requests: must be a rate such as 120/1m",
  ],
  "a rate of nothing": [`${A}  rateLimit: { burst: 0/1s }\n`, "4:23 upstreams[0].rateLimit.burst: must be a rate"],
  "a rate over two days": [
    `${A}  rateLimit: { requests: 9/48h }\n`,
    "4:26 upstreams[0].rateLimit.requests: must be a rate",
  ],
  "a share above one": [`log: { hits: 1.5 }${GOOD}`, "1:14 log.hits: must be a number from 0 to 1"],
  "a level that is none": [
    `log: { level: warm }${GOOD}`,
    '1:15 log.level: must be fatal or error or warn or info or debug or trace or silent; did you mean "warn"?',
  ],
  "an origin with a path": [
    `cors: { origins: [https://a.example/x] }${GOOD}`,
    "1:19 cors.origins[0]: is not an origin such as",
  ],
  "a bad range of addresses": [
    `listen: { trustedProxies: [10.0.0.0/33] }${GOOD}`,
    "1:28 listen.trustedProxies[0]: is not an address or a range",
  ],
  "a bad range of IPv6": [
    `listen: { trustedProxies: ["fd00::/129"] }${GOOD}`,
    "1:28 listen.trustedProxies[0]: is not an address",
  ],
  "half an address": [
    `listen: { trustedProxies: ["10.1"] }${GOOD}`,
    "1:28 listen.trustedProxies[0]: is not an address",
  ],
  "a host with a port": [
    `operations: { hosts: ["a:90"] }${GOOD}`,
    "1:23 operations.hosts[0]: must be a host name without port",
  ],
  "a header name with a space": [
    `routing: { adminHeader: x admin }${GOOD}`,
    "1:25 routing.adminHeader: must be the name of a header field",
  ],
  "a prefix without a slash": [`routing: { prefix: registrars }${GOOD}`, "1:20 routing.prefix: is not a path such as"],
  "a prefix that ends with one": [
    `routing: { prefix: /registrars/ }${GOOD}`,
    "1:20 routing.prefix: is not a path such as",
  ],
  "the root as prefix": [`routing: { prefix: / }${GOOD}`, "1:20 routing.prefix: is not a path such as"],
  "a prefix below /registry": [
    `routing: { prefix: /registry/of }${GOOD}`,
    "1:20 routing.prefix: is a path of the gateway's own: /registry",
  ],
  "a prefix with dots": [`routing: { prefix: /a/../b }${GOOD}`, "1:20 routing.prefix: is not a path such as"],
  "a key prefix with a hash tag": [
    `redis: { url: "redis://a", keyPrefix: "{a}" }${GOOD}`,
    "1:39 redis.keyPrefix: must be 1 to 64 characters",
  ],
  "redis over http": [`redis: { url: "http://a" }${GOOD}`, "1:15 redis.url: must begin with redis:// or rediss://"],
  "a redis URL with a query": [
    `redis: { url: "redis://a?tls=" }${GOOD}`,
    "1:15 redis.url: must be scheme, host and port only",
  ],
  "a password that breaks the URL": [
    `redis: { url: "redis://u:12#34@r" }${GOOD}`,
    "1:15 redis.url: must have no fragment (#…); in a password, write # as %23",
  ],
  "a password that decodes to nothing": [
    `redis: { url: "redis://:100%@r" }${GOOD}`,
    "1:15 redis.url: has a % that encodes nothing",
  ],
  "a cluster of nobody": [`redis: { cluster: [] }${GOOD}`, "1:19 redis.cluster: is empty"],
  "a sentinel without port": [
    `redis: { sentinel: { name: m, nodes: [s] } }${GOOD}`,
    "1:39 redis.sentinel.nodes[0]: is not of the form host:port",
  ],
  "a sentinel at a port that there is not": [
    `redis: { sentinel: { name: m, nodes: ["s:70000"] } }${GOOD}`,
    "1:39 redis.sentinel.nodes[0]: is not",
  ],
  "an issuer without most": [
    `clients: { jwt: [{ issuer: i }] }${GOOD}`,
    "1:18 clients.jwt[0].jwksUrl: is missing: it must be a URL",
    "1:18 clients.jwt[0].audience: is missing: it must be text",
  ],
  "keys of an issuer in the clear": [
    `clients: { jwt: [{ issuer: i, audience: b, jwksUrl: "http://i.example/k" }] }${GOOD}`,
    "1:53 clients.jwt[0].jwksUrl: must begin with https://",
  ],
  "a tier with a dot": [`clients: { tiers: { a.b: {} } }${GOOD}`, "1:21 clients.tiers.a.b: must be the name of a tier"],
  "a token of 15 characters": [
    `operations: { tokens: [{ name: o, token: 123456789012345 }] }${GOOD}`,
    "1:42 operations.tokens[0].token: must be one line of ASCII text of 16",
  ],
  "an operator with a colon": [
    `operations: { tokens: [{ name: "a:b", token: 0123456789abcdef }] }${GOOD}`,
    "1:32 operations.tokens[0].name: must be a name of letters",
  ],
  "no tokens": [`operations: { tokens: [] }${GOOD}`, "1:23 operations.tokens: is empty: give at least one"],
};

const UPSTREAM_VALUES: typeof SYNTAX = {
  "no upstreams": ["listen:\nupstreams:\n", "2:1 upstreams: is missing"],
  "an empty list of upstreams": ["upstreams: []\n", "1:12 upstreams: is empty: give at least one"],
  "upstreams as a map": ["upstreams:\n  a: 1\n", "2:3 upstreams: must be a list of upstreams"],
  "an upstream that is a word": ["upstreams: [a]\n", "1:13 upstreams[0]: must be a group of keys"],
  "an upstream without name and urls": [
    "upstreams:\n  - enabled: true\n",
    "2:5 upstreams[0].name: is missing",
    "2:5 upstreams[0].urls: is missing",
  ],
  "a name with colons": [
    'upstreams: [{ name: "a::b", urls: ["https://a"] }]',
    "1:21 upstreams[0].name: must be 1 to 64 letters",
  ],
  "a name of 65 letters": [
    `upstreams: [{ name: ${"a".repeat(65)}, urls: ["https://a"] }]`,
    "1:21 upstreams[0].name: must be 1 to 64",
  ],
  "an admin with a line break": [`${A}  admin: "x::1\\n"\n`, "4:10 upstreams[0].admin: must be a party id"],
  "no urls": ["upstreams: [{ name: a, urls: [] }]", "1:30 upstreams[0].urls: is empty"],
  "a url without value": ["upstreams:\n- name: a\n  urls:\n  -\n", "4:4 upstreams[0].urls[0]: is missing: it must be"],
  "a url of another scheme": [
    "upstreams: [{ name: a, urls: ['ftp://a'] }]",
    "1:31 upstreams[0].urls[0]: must begin with http:// or https://",
  ],
  "a url without scheme": [
    "upstreams: [{ name: a, urls: [a.example] }]",
    "1:31 upstreams[0].urls[0]: is not a URL: write it in full",
  ],
  "a url with a login": [
    "upstreams: [{ name: a, urls: ['https://u:pw@a'] }]",
    "1:31 upstreams[0].urls[0]: must hold no user and no password",
  ],
  "a url with a query": [
    "upstreams: [{ name: a, urls: ['https://a/?x'] }]",
    "1:31 upstreams[0].urls[0]: must have no query",
  ],
  "a url with a fragment": [
    "upstreams: [{ name: a, urls: ['https://a/#x'] }]",
    "1:31 upstreams[0].urls[0]: must have no fragment",
  ],
  "the url of an endpoint": [
    "upstreams: [{ name: a, urls: ['https://a/registry/metadata/v1/info'] }]",
    "1:31 upstreams[0].urls[0]: ends in a path of the standard",
  ],
  "the url of an API": [
    "upstreams: [{ name: a, urls: ['https://a/x/registry/allocation-instruction/v2/'] }]",
    "1:31 upstreams[0].urls[0]: ends in a path of",
  ],
  "a mode that is none": [`${A}  mode: cache\n`, "4:9 upstreams[0].mode: must be normal or cache-only"],
  "a validation that is none": [`${A}  validation: loose\n`, "4:15 upstreams[0].validation: must be lenient or strict"],
  "authorization with all": [
    `${A}  forwardAuthorization: true\n`,
    "4:25 upstreams[0].forwardAuthorization: must be off or calls",
  ],
  "a page of nothing": [`${A}  pageSize: 0\n`, "4:13 upstreams[0].pageSize: must be a whole number from 1 to 100000"],
  "too many retries": [`${A}  retries: 11\n`, "4:12 upstreams[0].retries: must be a whole number from 0 to 10"],
  "memory for one upstream": [`${A}  cache: { memory: 1MiB }\n`, "4:12 upstreams[0].cache.memory: unknown key"],
  "a bad ttl for one upstream": [
    `${A}  cache:\n    ttl: { info: x }\n`,
    "5:18 upstreams[0].cache.ttl.info: must be a duration",
  ],
  "a proxy with a path": [
    `${A}  httpProxy: http://p/x\n`,
    "4:14 upstreams[0].httpProxy: must be scheme, host and port only",
  ],
  "a base path without a slash": [`${A}  basePaths: [api]\n`, "4:15 upstreams[0].basePaths[0]: is not a path"],
  "a base path that ends in /registry": [
    `${A}  basePaths: [/api/registry]\n`,
    "4:15 upstreams[0].basePaths[0]: must end before /registry",
  ],
  "a base path of ours": [
    `${A}  basePaths: [/docs]\n`,
    "4:15 upstreams[0].basePaths[0]: is a path of the gateway's own: /docs",
  ],
  "an extra path of ours": [
    `${A}  extraPaths: [/catalog/v1/*]\n`,
    "4:16 upstreams[0].extraPaths[0]: is a path of the gateway's own",
  ],
  "an extra path for all": [`${A}  extraPaths: ["/*"]\n`, "4:16 upstreams[0].extraPaths[0]: is not a path"],
  "an extra path with a star inside": [
    `${A}  extraPaths: ["/a/*/b"]\n`,
    "4:16 upstreams[0].extraPaths[0]: is not a path",
  ],
  "an extra path with another method": [
    `${A}  extraPaths: ["PUT /a"]\n`,
    "4:16 upstreams[0].extraPaths[0]: is not a path",
  ],
  "an oauth2 that lacks most": [
    `${A}  auth: { oauth2: { clientId: x } }\n`,
    "4:11 upstreams[0].auth.oauth2.tokenUrl: is missing",
    "4:11 upstreams[0].auth.oauth2.clientSecret: is missing",
  ],
  "a token of two lines": [
    `${A}  auth: { bearer: "a\\nb" }\n`,
    "4:19 upstreams[0].auth.bearer: must be one line of ASCII text",
  ],
  "a header value that no header can hold": [
    `${A}  auth: { header: { name: x-key, value: é } }\n`,
    "4:41 upstreams[0].auth.header.value: must be one line of ASCII",
  ],
};

const REFERENCES: typeof SYNTAX = {
  "an unset variable": [
    `listen: { port: "\${PORT}" }${GOOD}`,
    "1:17 listen.port: the environment variable PORT is not set",
  ],
  "two unset variables": [
    `${A}  auth: { bearer: "\${A}\${B}" }\n`,
    "4:19 upstreams[0].auth.bearer: the environment variable A",
    "4:19 upstreams[0].auth.bearer: the environment variable B",
  ],
  "a reference left open": [`listen: { host: "\${HOST" }${GOOD}`, '1:17 listen.host: "${" is not closed'],
  "a reference that is none": [`listen: { host: "\${1A}" }${GOOD}`, "1:17 listen.host: a reference has the form"],
  "a reference within another": [
    `listen: { host: "\${A:-\${B}}" }${GOOD}`,
    "1:17 listen.host: a reference stands within another",
  ],
  "a secret that is not there": [
    `${A}  auth: { bearer: "\${file:nothing}" }\n`,
    `4:19 upstreams[0].auth.bearer: the file ${folder}/nothing is not there`,
  ],
  "a folder as a secret": [
    `${A}  auth: { bearer: "\${file:.}" }\n`,
    `4:19 upstreams[0].auth.bearer: the file ${folder} is not a file`,
  ],
  "a secret too large": [
    `${A}  auth: { bearer: "\${file:large}" }\n`,
    `4:19 upstreams[0].auth.bearer: the file ${folder}/large is larger than 64KiB`,
  ],
  "a secret as a number": [`listen: { port: "\${file:secret}" }${GOOD}`, "1:17 listen.port: must be a whole number"],
};

const RULES: typeof SYNTAX = {
  "a name given twice": [
    `${A}- { name: a, urls: ["https://b"] }\n`,
    "4:11 upstreams[1].name: the same name is given at upstreams[0].name",
  ],
  "a name that routing.plain gives a meaning": [
    'upstreams: [{ name: aggregate, urls: ["https://a"] }]',
    "1:21 upstreams[0].name: has a meaning of its own",
  ],
  "an admin given twice, in another hex case": [
    `upstreams:\n- { name: a, admin: "x::12AB", urls: ["https://a"] }\n- { name: b, admin: "x::12ab", urls: ["https://b"] }\n`,
    "3:21 upstreams[1].admin: the same admin is given at upstreams[0].admin",
  ],
  "an admin that is another upstream's name": [
    `upstreams:\n- { name: a, admin: "b", urls: ["https://a"] }\n- { name: b, urls: ["https://b"] }\n`,
    "2:21 upstreams[0].admin: is the name at upstreams[1].name",
  ],
  "a node given twice, written differently": [
    "upstreams: [{ name: a, urls: ['https://a/registry/', 'https://A:443'] }]",
    "1:54 upstreams[0].urls[1]: the same node is given at upstreams[0].urls[0]",
  ],
  "plain that names no upstream": [
    `routing: { plain: amulett }\nupstreams: [{ name: amulet, urls: ["https://a"] }]`,
    '1:19 routing.plain: must be aggregate, off, or the name of an upstream; did you mean "amulet"?',
  ],
  "an admin header of HTTP's own": [
    `routing: { adminHeader: Host }${GOOD}`,
    "1:25 routing.adminHeader: has another meaning",
  ],
  "an admin header of credentials": [
    `routing: { adminHeader: X-API-Key }${GOOD}`,
    "1:25 routing.adminHeader: has another meaning",
  ],
  "cache-only without admin": [`${A}  mode: cache-only\n`, "4:9 upstreams[0].mode: needs admin"],
  "more agreement than nodes": [
    `${A}${ADMIN}  agreement: 3\n`,
    "5:14 upstreams[0].agreement: must be at most the number of urls (2)",
  ],
  "agreement without admin": [`${A}  agreement: 2\n`, "4:14 upstreams[0].agreement: needs admin"],
  "auth of no kind": [`${A}  auth: {}\n`, "4:3 upstreams[0].auth: exactly one of bearer, header, oauth2"],
  "auth of two kinds": [
    `${A}  auth: { bearer: a, header: { name: x-key, value: b } }\n`,
    "4:22 upstreams[0].auth.header: exactly one of bearer, header, oauth2",
  ],
  "credentials in a header of HTTP's own": [
    `${A}  auth: { header: { name: Host, value: v } }\n`,
    "4:27 upstreams[0].auth.header.name: has a meaning of its own in HTTP",
  ],
  "own credentials and the client's": [
    `${A}  auth: { bearer: a }\n  forwardAuthorization: calls\n`,
    "5:25 upstreams[0].forwardAuthorization: cannot go with auth",
  ],
  "a group with other numbers": [
    `${A}  rateLimit: { requests: 9/1m, group: g }\n- name: b\n  urls: ["https://b"]\n  rateLimit: { requests: 8/1m, burst: 1/1s, group: g }\n`,
    "7:26 upstreams[1].rateLimit.requests: is not what upstreams[0].rateLimit.requests says",
    "7:39 upstreams[1].rateLimit.burst: is not what",
  ],
  "redis of no kind": [`redis: {}${GOOD}`, "1:1 redis: exactly one of url, cluster, sentinel"],
  "redis of two kinds": [
    `redis: { url: "redis://a", cluster: ["redis://b"] }${GOOD}`,
    "1:37 redis.cluster: exactly one of url, cluster, sentinel",
  ],
  "an operator given twice": [
    `operations: { tokens: [{ name: o, token: 0123456789abcdef }, { name: o, token: fedcba9876543210 }] }${GOOD}`,
    "1:70 operations.tokens[1].name: the same name is given at operations.tokens[0].name",
  ],
  "an anonymous tier that there is not": [
    `clients: { anonymous: free, tiers: { fred: {} } }${GOOD}`,
    "1:23 clients.anonymous: there is no such tier: clients.tiers has fred",
  ],
  "no tier for the anonymous": [
    `clients: { tiers: { wallet: {} } }${GOOD}`,
    "1:1 clients.anonymous: there is no such tier: clients.tiers has wallet",
  ],
  "an issuer's tier that there is not": [
    `clients: { jwt: [{ issuer: i, audience: b, tier: x, jwksUrl: "https://i/k" }] }${GOOD}`,
    "1:50 clients.jwt[0].tier: there is no such tier",
  ],
  "an issuer given twice": [
    `clients:\n  jwt:\n  - { issuer: i, audience: b, jwksUrl: "https://i/k" }\n  - { issuer: i, audience: c, jwksUrl: "https://i/k" }${GOOD}`,
    "4:15 clients.jwt[1].issuer: the same issuer is given at clients.jwt[0].issuer",
  ],
  "a tier with an unknown upstream": [
    `clients: { tiers: { anonymous: { upstreams: [a, b] } } }${GOOD}`,
    "1:49 clients.tiers.anonymous.upstreams[1]: is the name of no upstream",
  ],
  "a bad keys file": [
    `clients: { keysFile: keys.jsonl, tiers: { anonymous: {}, wallet: {} } }${GOOD}`,
    `1:22 clients.keysFile: the file ${folder}/keys.jsonl line 2: digest must be the 43 characters`,
  ],
  "a base path given twice": [
    `${A}  basePaths: [/x]\n- { name: b, urls: ["https://b"], basePaths: [/y, /x] }\n`,
    "5:51 upstreams[1].basePaths[1]: the same base path is given at upstreams[0].basePaths[0]",
  ],
  "an extra path given twice": [
    `${A}  extraPaths: [/x, "POST /x"]\n- { name: b, urls: ["https://b"], extraPaths: ["POST /x"] }\n`,
    "5:48 upstreams[1].extraPaths[0]: the same extra path is given at upstreams[0].extraPaths[1]",
  ],
  "an extra path below the prefix": [
    `${A}  extraPaths: [/api/token-standard/v0/registrars/x]\n`,
    "4:16 upstreams[0].extraPaths[0]: must not be below routing.prefix",
  ],
  "an extra path below a base path": [
    `${A}  basePaths: [/x]\n  extraPaths: [/x/registry/y]\n`,
    "5:16 upstreams[0].extraPaths[0]: is below the base path at upstreams[0].basePaths[0]",
  ],
};

const FILES: typeof SYNTAX = {
  "a certificate without key": [
    `${A}  tls: { certFile: ${TLS}/client.pem }\n`,
    "4:20 upstreams[0].tls.certFile: needs keyFile",
  ],
  "a key without certificate": [
    `redis: { url: "rediss://r", tls: { keyFile: ${TLS}/client-key.pem } }${GOOD}`,
    "1:45 redis.tls.keyFile: needs certFile",
  ],
  "a listener's certificate without key": [
    `listen: { tls: { certFile: ${TLS}/server.pem } }${GOOD}`,
    "1:11 listen.tls.keyFile: is missing",
  ],
  "a key that is another certificate's": [
    `${A}  tls: { certFile: ${TLS}/client.pem, keyFile: ${TLS}/server-key.pem }\n`,
    `4:${TLS.length + 42} upstreams[0].tls.keyFile: the file ${TLS}/server-key.pem is not the key of the certificate`,
  ],
  "an authority that is not there": [
    `${A}  tls: { caFile: ca.pem }\n`,
    `4:18 upstreams[0].tls.caFile: the file ${folder}/ca.pem is not there`,
  ],
  "an authority that is none": [
    `${A}  tls: { caFile: secret }\n`,
    `4:18 upstreams[0].tls.caFile: the file ${folder}/secret holds no certificate`,
  ],
  "an authority that was written by half": [
    `${A}  tls: { caFile: half.pem }\n`,
    `4:18 upstreams[0].tls.caFile: the file ${folder}/half.pem holds a certificate that cannot be read`,
  ],
  "a certificate in the place of a key": [
    `listen: { tls: { certFile: ${TLS}/server.pem, keyFile: ${TLS}/server.pem } }${GOOD}`,
    `1:${TLS.length + 50} listen.tls.keyFile: the file ${TLS}/server.pem holds no private key`,
  ],
  "a keys file that is not there": [
    `clients: { keysFile: nothing }${GOOD}`,
    `1:22 clients.keysFile: the file ${folder}/nothing is not there`,
  ],
};

const ALL = Object.entries({ ...SYNTAX, ...VALUES, ...UPSTREAM_VALUES, ...REFERENCES, ...RULES, ...FILES });

test.each(ALL)("%s is reported at its place", (_about, [text, ...expected]) => {
  const problems = problemsOf(text);
  const begun = problems.map((problem, i) => problem.slice(0, expected[i]?.length));
  expect(begun, problems.join("\n")).toEqual(expected);
});

test("every problem of the schema is reported at once, in the order of the file, and rules wait for that", () => {
  const problems = problemsOf(`lisen: {}
listen: { port: "\${PORT}", keepAliveTimeout: 5 }
cache: { ttl: { info: abc } }
upstreams:
  - name: a::b
    urls: ["ftp://x", "http://u:p@x"]
  - { name: b, urls: [], forwardClientAddress: yes }
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
    "7:48 upstreams[1].forwardClientAddress",
  ]);
});

test("a configuration from options has problems without a place", () => {
  const load = () => loadConfig({ values: { listen: { port: -1 }, upstreams: [] }, folder }, {});
  expect(load).toThrow("listen.port: must be a whole number from 0 to 65535\nupstreams: is empty: give at least one");
});

test("a file that does not load says each problem as file:line:column: path: message, and names the files to watch", () => {
  const file = join(folder, "bad.yaml");
  writeFileSync(file, `log: { level: "\${file:secret}", hits: 2 }${GOOD}`);
  const load = (): unknown => loadConfig({ file }, {});
  expect(load).toThrow(`${file}:1:15: log.level: must be`);
  expect(load).toThrow(`${file}:1:39: log.hits: must be a number from 0 to 1`);
  expect(load).toThrow(expect.objectContaining({ files: [file, join(folder, "secret")] }));
});

test("a missing file, a folder and a file above 1 MiB are bad configurations", () => {
  const at = (name: string) => () => loadConfig({ file: join(folder, name) }, {});
  write("huge.yaml", `${GOOD}#${"x".repeat(2 ** 20)}`);
  expect(at("nothing.yaml")).toThrow(`the file ${folder}/nothing.yaml is not there`);
  expect(at("")).toThrow("is not a file");
  expect(at("huge.yaml")).toThrow("is larger than 1MiB");
});

test("no value is repeated, whether the file, the environment or another file gives it to a wrong key", () => {
  const secret = "redis-user:hunter2";
  for (const value of [secret, `https://${secret}@h`, "${SECRET}", "redis://${SECRET}@h", "${SECRET}\\n"]) {
    for (const text of [
      `redis: { url: "${value}#" }${GOOD}`,
      `upstreams: [{ name: a, urls: ["${value}"] }]`,
      `${A}  httpProxy: "${value}/x"\n`,
      `${A}  auth: { bearer: "${value}é" }\n`,
      `listen: { port: "${value}" }${GOOD}`,
      `log: { level: "${value}" }${GOOD}`,
      `shutdown: { grace: "${value}" }${GOOD}`,
      `routing: { plain: "${value}" }${GOOD}`,
      `redis: { sentinel: { name: m, nodes: ["${value}"] } }${GOOD}`,
    ]) {
      const problems = problemsOf(text, { SECRET: secret });
      expect(problems, text).toHaveLength(1);
      expect(problems[0]).not.toContain("hunter2");
    }
  }
});

/** Secrets that begin or go on with what means something in YAML; the rest of each is one word. */
const UNQUOTED = [
  ..."!*>|@`%{[]},&'\"".split("").map((sign) => `${sign}Tr0ub4dor3`),
  ..."!Tr0ub4dor3&3 !!Tr0ub4dor3 !e!Tr0ub4dor3 !<Tr0ub4dor3 {Tr0ub4dor3} [Tr0ub4dor3] >-xTr0ub4dor3".split(" "),
  "|2 Tr0ub4dor3",
  "- Tr0ub4dor3",
  "Tr0ub4dor3: x",
  "x: Tr0ub4dor3",
  '"a" Tr0ub4dor3',
  '"\\UTr0ub4dor3"',
  "a, Tr0ub4dor3",
];

test.each(UNQUOTED)("the unquoted secret %s is neither repeated nor passed over", (secret) => {
  for (const tokens of [`\n    token: ${secret}`, `{ name: ops, token: ${secret} }`]) {
    const problems = problemsOf(
      `operations:\n  tokens:\n  - name: ops${tokens.replace("{ name: ops,", "\n  - {")}${GOOD}`,
    );
    expect(problems).not.toEqual([]);
    expect(problems.join("\n")).not.toContain("Tr0ub4do");
  }
});

test("a file that is no configuration has a thousand problems at most, and brackets without end have one", () => {
  expect(problemsOf(Array.from({ length: 1_500 }, (_, i) => `k${i}: 1\n`).join(""))).toHaveLength(1_000);
  expect(problemsOf("[".repeat(10_000))).toHaveLength(1);
});

test("a file of aliases that grow out of each other is read in a moment", () => {
  const urls = `urls: &u [${Array.from({ length: 32 }, (_, i) => `'https://n${i}'`).join(", ")}]`;
  const rest = Array.from({ length: 99 }, (_, i) => `- { name: b${i}, urls: *u }`).join("\n");
  const started = performance.now();
  expect(problemsOf(`upstreams:\n- name: a\n  ${urls}\n${rest}\n`)).toEqual([]);
  expect(
    problemsOf("log: &l { level: &a [*l, *l, *l], hits: *l }\nupstreams: &b [*b, *b, *b, *b]\n").length,
  ).toBeLessThan(100);
  expect(performance.now() - started).toBeLessThan(10_000);
});
