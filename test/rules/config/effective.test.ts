import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { afterAll, expect, test } from "vitest";
import { parse, stringify } from "yaml";
import { changesOf, effectiveConfig } from "../../../src/config/effective.ts";
import { loadConfig } from "../../../src/config/load.ts";
import type { LoadedConfig } from "../../../src/config/loaded.ts";

const folder = mkdtempSync(join(tmpdir(), "gateway-config-"));
afterAll(() => rmSync(folder, { recursive: true }));
const TLS = resolve(import.meta.dirname, "../../fixtures/tls");

const A = { name: "a", urls: ["https://a.example"] };
const B = { name: "b", urls: ["https://b.example"] };

function load(values: object): LoadedConfig {
  return loadConfig({ values: { upstreams: [A], ...values }, folder }, {});
}

const SECRETS = {
  operations: { tokens: [{ name: "ops", token: "hunter2-hunter2-hunter2" }] },
  redis: { url: "rediss://user:hunter2@redis.example/1", sentinel: undefined },
  upstreams: [
    { ...A, auth: { bearer: "hunter2" }, httpProxy: "http://user:hunter2@proxy.example" },
    { ...B, auth: { header: { name: "X-Key", value: "hunter2" } } },
    {
      name: "c",
      urls: ["https://c.example"],
      auth: { oauth2: { tokenUrl: "https://t.example", clientId: "id", clientSecret: "hunter2" } },
    },
  ],
};

test("the effective configuration is written as in the file, without a secret", () => {
  const shown = JSON.stringify(effectiveConfig(load(SECRETS).config));
  expect(shown).not.toContain("hunter2");
  for (const text of [
    '"token":"…"',
    '"url":"rediss://…@redis.example/1"',
    '"bearer":"…"',
    '"value":"…"',
    '"clientSecret":"…"',
  ]) {
    expect(shown).toContain(text);
  }
  expect(shown).toContain('"httpProxy":"http://…@proxy.example"');
});

test("what is printed loads again, and means the same", () => {
  const loaded = load({
    clients: {
      anonymous: false,
      jwt: [{ issuer: "i", jwksUrl: "https://i.example", audience: "a" }],
      tiers: { t: { requests: "5/1s" } },
    },
    routing: { plain: "off" },
    cache: { memory: "96KiB", clientTtl: "1500ms" },
    upstreams: [
      { ...A, pageSize: "off", hedgeAfter: "0s", rateLimit: { burst: "9/500ms" }, cache: { ttl: { info: "1h" } } },
    ],
  });
  const again = load(parse(stringify(effectiveConfig(loaded.config))) as object);
  expect(again.config).toEqual(loaded.config);
  expect(again.digest).toBe(loaded.digest);
});

test("the digest is twelve hex digits of what is effective, whatever its secrets and its form", () => {
  const { digest } = load(SECRETS);
  expect(digest).toMatch(/^[0-9a-f]{12}$/);
  expect(load(JSON.parse(JSON.stringify(SECRETS).replaceAll("hunter2", "hunter3")) as object).digest).toBe(digest);
  expect(load({ listen: { port: 8080 } }).digest).toBe(load({}).digest);
  expect(load({ listen: { port: 8081 } }).digest).not.toBe(load({}).digest);
});

/** Two configurations, and `path: before → after` of each change. */
const CHANGES: Record<string, [before: object, after: object, ...changes: string[]]> = {
  "nothing, where they mean the same": [
    {},
    { cache: { ttl: { info: "600s" } }, upstreams: [{ ...A, timeout: "15000ms" }] },
  ],
  "a key": [{}, { log: { level: "debug" } }, "log.level: info → debug"],
  "a duration, as it is written": [{ cache: { ttl: { info: "1h" } } }, {}, "cache.ttl.info: 1h → 10m"],
  "a key of an upstream, by its name": [{}, { upstreams: [{ ...A, retries: 0 }] }, "upstreams[a].retries: 2 → 0"],
  "a page size that is off now": [{}, { upstreams: [{ ...A, pageSize: "off" }] }, "upstreams[a].pageSize: 1000 → off"],
  "a key of the global cache once, also where an upstream has its own": [
    { upstreams: [A, { ...B, cache: { clientTtl: "1s" } }] },
    { cache: { clientTtl: "2s" }, upstreams: [A, { ...B, cache: { clientTtl: "1s" } }] },
    "cache.clientTtl: 0s → 2s",
  ],
  "a key of an upstream's cache": [
    {},
    { upstreams: [{ ...A, cache: { ttl: { info: "1s" } } }] },
    "upstreams[a].cache.ttl.info: 10m → 1s",
  ],
  "an upstream that is new, without its defaults": [
    {},
    { upstreams: [A, { ...B, retries: 1 }] },
    "upstreams: a → a,b",
    "upstreams[b].name: undefined → b",
    "upstreams[b].urls: undefined → https://b.example",
    "upstreams[b].retries: undefined → 1",
  ],
  "the order of upstreams": [{ upstreams: [A, B] }, { upstreams: [B, A] }, "upstreams: a,b → b,a"],
  "a group that is new, without its defaults": [
    {},
    { redis: { url: "redis://r" } },
    "redis: undefined → on",
    "redis.url: undefined → redis://r",
  ],
  "a group of defaults": [{ upstreams: [{ ...A, rateLimit: {} }] }, {}, "upstreams[a].rateLimit: on → undefined"],
  "a secret, without showing it": [
    { upstreams: [{ ...A, auth: { bearer: "one" } }] },
    { upstreams: [{ ...A, auth: { bearer: "two" } }] },
    "upstreams[a].auth.bearer: … → …",
  ],
  "a login in a URL": [
    { redis: { url: "redis://u:1@r" } },
    { redis: { url: "redis://u:2@r" } },
    "redis.url: redis://…@r → redis://…@r",
  ],
  "a tier": [
    { clients: { tiers: { anonymous: {} } } },
    { clients: { tiers: { anonymous: { requests: "5/1s" } } } },
    "clients.tiers.anonymous.requests: undefined → 5/1s",
  ],
  "an operator's token": [
    { operations: { tokens: [{ name: "o", token: "0123456789abcdef" }] } },
    { operations: { tokens: [{ name: "o", token: "0123456789abcdef", readonly: true }] } },
    "operations.tokens[o].readonly: false → true",
  ],
};

test.each(Object.entries(CHANGES))("a diff shows %s", (_name, [before, after, ...expected]) => {
  const changes = changesOf(load(before), load(after));
  expect(changes.map(({ path, before: was, after: is }) => `${path}: ${String(was)} → ${String(is)}`)).toEqual(
    expected,
  );
});

test("a diff names files whose text is another, and the keys file where its keys are others", () => {
  const key = (digest: string): string => `{"name":"n","tier":"anonymous","digest":"${digest.repeat(43)}"}\n`;
  const values = { clients: { keysFile: "keys" }, upstreams: [{ ...A, tls: { caFile: "ca.pem" } }] };
  writeFileSync(join(folder, "keys"), key("a"));
  writeFileSync(join(folder, "ca.pem"), `# one\n${pem("ca")}`);
  const before = load(values);
  writeFileSync(join(folder, "keys"), `\n${key("a")}`);
  expect(changesOf(before, load(values))).toEqual([]);
  writeFileSync(join(folder, "keys"), key("b"));
  writeFileSync(join(folder, "ca.pem"), pem("ca"));
  expect(changesOf(before, load(values))).toEqual([{ path: join(folder, "ca.pem") }, { path: "clients.keysFile" }]);
});

test("a diff names a file that is new by its key alone", () => {
  writeFileSync(join(folder, "keys"), `{"name":"n","tier":"anonymous","digest":"${"a".repeat(43)}"}\n`);
  const values = { clients: { keysFile: "keys" }, upstreams: [{ ...A, tls: { caFile: `${TLS}/ca.pem` } }] };
  const paths = changesOf(load({}), load(values)).map(({ path }) => path);
  expect(paths.filter((path) => path.endsWith("keysFile") || path.includes("ca"))).toEqual([
    "clients.keysFile",
    "upstreams[a].tls.caFile",
  ]);
});

function pem(name: string): string {
  return loadConfig({ values: { upstreams: [{ ...A, tls: { caFile: `${TLS}/${name}.pem` } }] }, folder }, {}).texts.get(
    `${TLS}/${name}.pem`,
  )!;
}
