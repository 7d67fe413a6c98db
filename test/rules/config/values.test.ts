import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, test } from "vitest";
import { loadConfig } from "../../../src/config/load.ts";
import { UNREADABLE } from "../../../src/config/reader.ts";

const folder = mkdtempSync(join(tmpdir(), "gateway-config-"));
afterAll(() => rmSync(folder, { recursive: true }));
writeFileSync(join(folder, "token"), "\n  a token of ${NAME} \r\n");
writeFileSync(join(folder, "digits"), "1234567890123456\n");
mkdirSync(join(folder, "sub"));

const ENV = {
  PORT: "8443",
  NO: "false",
  YES: "true",
  OFF: "off",
  EMPTY: "",
  HOST: "127.0.0.1",
  DIGITS: "0042",
  NAME: "${HOST}",
};
const A = "upstreams:\n- name: a\n  urls: ['https://a.example', 'https://b.example']\n";

// oxlint-disable-next-line no-explicit-any
function load(text: string, env: Readonly<Record<string, string>> = ENV): any {
  const file = join(folder, "gateway.yaml");
  writeFileSync(file, text);
  return loadConfig({ file }, env).config;
}

/** What follows the first upstream, and what that upstream then has. */
const UPSTREAM: Record<string, [text: string, expected: object]> = {
  "durations become milliseconds": [
    "timeout: 250ms\n  hedgeAfter: 0s\n  proofEvery: 1h",
    { timeout: 250, hedgeAfter: 0, proofEvery: 3_600_000 },
  ],
  "rates become requests and a window": [
    "rateLimit: { requests: 120/1m, burst: 10/500ms }",
    { rateLimit: { requests: { requests: 120, per: 60_000 }, burst: { requests: 10, per: 500 } } },
  ],
  "off leaves a key out that has a default": ["pageSize: off", { pageSize: undefined }],
  "false is off": [
    "pageSize: false\n  rateLimit: false\n  tls: false",
    { pageSize: undefined, rateLimit: undefined, tls: undefined },
  ],
  "off and false are a word where the key has it": ["forwardAuthorization: false", { forwardAuthorization: "off" }],
  "a key without a value has its default": [
    "timeout:\n  pageSize: null\n  auth: ~",
    { timeout: 15_000, pageSize: 1_000, auth: undefined },
  ],
  "a field's name is in lower case": [
    "auth: { header: { name: X-Key, value: V } }",
    { auth: { header: { name: "x-key", value: "V" } } },
  ],
  "paths stay as they are written": [
    "extraPaths: [/a/*, 'POST /b']\n  basePaths: [/api/scan-proxy]",
    { extraPaths: ["/a/*", "POST /b"], basePaths: ["/api/scan-proxy"] },
  ],
  "a secret from a file is trimmed, and not looked at again": [
    'auth: { bearer: "${file:token}" }',
    { auth: { bearer: "a token of ${NAME}" } },
  ],
  "a secret of digits stays text": ['auth: { bearer: "${file:digits}" }', { auth: { bearer: "1234567890123456" } }],
  "a file is relative to the configuration": [
    'auth: { bearer: "${file:sub/../token}" }',
    { auth: { bearer: "a token of ${NAME}" } },
  ],
  "a secret from elsewhere may be a word": ['auth: { bearer: "${OFF}" }', { auth: { bearer: "off" } }],
  "a secret may be false": ['auth: { bearer: "${NO}" }', { auth: { bearer: "false" } }],
  "references stand within text": [
    'auth: { header: { name: x-k, value: "a ${HOST}/${PORT}" } }',
    { auth: { header: { name: "x-k", value: "a 127.0.0.1/8443" } } },
  ],
  "references become numbers": ['retries: "${N:-3}"\n  timeout: "${N:-3}s"', { retries: 3, timeout: 3_000 }],
  "references become booleans": [
    'enabled: "${YES}"\n  forwardClientAddress: "${NO}"',
    { enabled: true, forwardClientAddress: false },
  ],
  "references switch a key off": ['pageSize: "${OFF}"\n  auth: "${NO}"', { pageSize: undefined, auth: undefined }],
  "an alias stands for its anchor": [
    "basePaths: &paths [/x]\n- { name: b, urls: ['https://b'], extraPaths: *paths }",
    { basePaths: ["/x"] },
  ],
};

test.each(Object.entries(UPSTREAM))("%s", (_name, [text, expected]) => {
  const [upstream] = load(`${A}  ${text}\n`).upstreams;
  for (const [key, value] of Object.entries(expected)) expect(upstream[key], key).toEqual(value);
  for (const key of Object.keys(upstream)) expect(upstream[key], key).not.toBeUndefined();
});

/** A value of `listen.host`, and what it becomes. */
test.each([
  ["${HOST}", "127.0.0.1"],
  ["${HOST:-a}", "127.0.0.1"],
  ["${NOTHING:-a}", "a"],
  ["${EMPTY:-a}", "a"],
  ["${NOTHING:-a:-b}", "a:-b"],
  ["$${HOST}", "${HOST}"],
  ["$${file:token}", "${file:token}"],
  ["$$${HOST}", "$${HOST}"],
  ["$HOST", "$HOST"],
  ["${NAME}", "${HOST}"],
  ["${DIGITS}", "0042"],
  ["${toString:-a}", "a"],
])("%s becomes %s", (text, expected) => {
  expect(load(`listen: { host: "${text}" }\n${A}`).listen.host).toBe(expected);
});

test.each([
  ["https://a.example/", "https://a.example"],
  ["https://A.example:443/registry", "https://a.example"],
  ["https://a.example/registry/", "https://a.example"],
  ["https://a.example/x/registry///", "https://a.example/x"],
  ["http://a.example:8080/x//", "http://a.example:8080/x"],
  ["https://a.example/registry/amulet", "https://a.example/registry/amulet"],
  ["https://a.example/my-registry", "https://a.example/my-registry"],
])("the node %s is %s", (written, url) => {
  expect(load(`upstreams: [{ name: a, urls: ["${written}"] }]`).upstreams[0].urls).toEqual([url]);
});

test.each([
  ["anonymous: off", false],
  ["anonymous: false", false],
  ["anonymous: free", "free"],
])("the anonymous tier of %s", (text, expected) => {
  expect(load(`clients: { ${text}, jwt: [], tiers: { free: {} } }\n${A}`).clients.anonymous).toBe(expected);
});

test("routing.plain takes off, false, and the name of an upstream", () => {
  for (const [written, plain] of [
    ["off", "off"],
    ["false", "off"],
    ["a", "a"],
  ]) {
    expect(load(`routing: { plain: ${written} }\n${A}`).routing.plain).toBe(plain);
  }
});

test("an upstream's cache is the global one with its own keys on top, also within ttl", () => {
  const { cache, upstreams } = load(`cache: { ttl: { info: 1h, notFound: 1s }, staleIfError: 1m, memory: 1MiB }
${A}  cache: { ttl: { info: 2h }, clientTtl: 3s, forwardResponseHeaders: [X-A] }
- { name: b, urls: ["https://b"] }\n`);
  const { memory, ...shared } = cache;
  expect(memory).toBe(2 ** 20);
  expect(upstreams[1].cache).toEqual(shared);
  expect(upstreams[0].cache).toEqual({
    ...shared,
    ttl: { ...shared.ttl, info: 7_200_000 },
    clientTtl: 3_000,
    forwardResponseHeaders: ["x-a"],
  });
});

test("a tier has each part by itself", () => {
  expect(
    load(`clients: { tiers: { anonymous: {}, a: { concurrency: 1 }, b: { requests: 5/1s, upstreams: [a] } } }\n${A}`)
      .clients.tiers,
  ).toEqual({
    anonymous: { upstreams: ["*"] },
    a: { concurrency: 1, upstreams: ["*"] },
    b: { requests: { requests: 5, per: 1_000 }, upstreams: ["a"] },
  });
});

test("one admin may stand at two upstreams of which one is not enabled", () => {
  expect(
    load(`${A}  admin: x::1\n- { name: b, admin: x::1, enabled: false, urls: ["https://b"] }\n`).upstreams,
  ).toHaveLength(2);
});

test("commands that need no secret tolerate those that cannot be read, and nothing else", () => {
  const file = join(folder, "secrets.yaml");
  const values = `operations: { tokens: [{ name: o, token: "\${file:gone}" }] }
redis: { url: "\${REDIS}" }
clients: { keysFile: gone.jsonl, tiers: { anonymous: {} } }
${A}  auth: { oauth2: { tokenUrl: "https://t", clientId: c, clientSecret: "\${SECRET}" } }
  tls: { certFile: gone.pem, keyFile: gone.pem }\n`;
  writeFileSync(file, values);
  const { config, keys, texts } = loadConfig({ file }, {}, { isTolerant: true });
  expect(config.operations.tokens).toEqual([{ name: "o", token: UNREADABLE, readonly: false }]);
  expect(config.redis?.url).toBe(`redis://${UNREADABLE}`);
  expect(config.upstreams[0]!.auth?.oauth2?.clientSecret).toBe(UNREADABLE);
  expect([keys, texts.size]).toEqual([[], 0]);
  expect(() => loadConfig({ file }, {})).toThrow(/gone is not there[^]*REDIS[^]*gone.jsonl[^]*SECRET[^]*gone.pem/);

  writeFileSync(file, `listen: { port: "\${PORT}" }\n${values}`);
  expect(() => loadConfig({ file }, {}, { isTolerant: true })).toThrow(
    "listen.port: the environment variable PORT is not set",
  );
});
