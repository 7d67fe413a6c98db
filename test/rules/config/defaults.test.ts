import { readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { expect, test } from "vitest";
import { parse } from "yaml";
import { effectiveConfig } from "../../../src/config/effective.ts";
import { loadConfig } from "../../../src/config/load.ts";
import { configJsonSchema, keyRows } from "../../../tools/config-reference.ts";

const root = resolve(import.meta.dirname, "../../..");
const contract = join(root, "test/fixtures/contract.yaml");
const A = { name: "a", urls: ["https://a.example"] };

// oxlint-disable-next-line no-explicit-any
type Any = any;

function effectiveOf(values: object): Any {
  return effectiveConfig(loadConfig({ values, folder: join(root, "test/fixtures") }, { TOKEN: "t" }).config);
}

test("the block of the contract loads, and what it gives is what a configuration without it has", () => {
  const written: Any = parse(readFileSync(contract, "utf8"));
  const { redis, clients, upstreams, ...groups } = effectiveConfig(
    loadConfig({ file: contract }, { TOKEN: "t" }).config,
  ) as Any;
  const least = effectiveOf({ clients: {}, redis: { url: "redis://r" }, upstreams: [{ ...A, rateLimit: {} }] });

  expect(groups).toEqual({ ...least, redis: undefined, clients: undefined, upstreams: undefined });
  expect(redis.keyPrefix).toBe(least.redis.keyPrefix);
  expect({ ...clients, keysFile: undefined, jwt: [] }).toEqual(least.clients);

  const { name, admin, urls, rateLimit, auth, tls, httpProxy, cache, ...treatment } = upstreams[0];
  const { name: _name, urls: _urls, rateLimit: defaultLimit, cache: defaultCache, ...defaults } = least.upstreams[0];
  expect(treatment).toEqual(defaults);
  expect(cache).toEqual(defaultCache);
  expect(rateLimit.requests).toBe(defaultLimit.requests);
  expect([name, admin, urls]).toEqual(["amulet", "DSO::1220…", ["https://a.example", "https://b.example"]]);
  expect([auth, httpProxy, Object.keys(tls)]).toEqual([
    { bearer: "…" },
    "http://proxy.example",
    Object.keys(written.redis.tls),
  ]);
});

test("the contract's block has every key that there is, and none besides", () => {
  const paths = new Set<string>();
  const collect = (value: unknown, path: string): void => {
    if (path !== "") paths.add(path.replace("clients.tiers.anonymous", "clients.tiers.NAME"));
    if (Array.isArray(value))
      for (const item of value.filter((each) => typeof each === "object")) collect(item, `${path}[]`);
    else if (typeof value === "object" && value !== null) {
      for (const [key, inner] of Object.entries(value)) collect(inner, path === "" ? key : `${path}.${key}`);
    }
  };
  collect(parse(readFileSync(contract, "utf8")), "");
  // The contract has these in its comments.
  for (const [path, keys] of Object.entries({
    "listen.tls": ["certFile", "keyFile"],
    "operations.tokens": [],
    "operations.tokens[]": ["name", "token", "readonly"],
    "redis.url": [],
    "redis.cluster": [],
    "redis.sentinel": ["name", "nodes", "username", "password"],
    "upstreams[].auth.header": ["name", "value"],
    "upstreams[].auth.oauth2": ["tokenUrl", "clientId", "clientSecret", "scope", "audience"],
  })) {
    for (const each of [path, ...keys.map((key) => `${path}.${key}`)]) paths.add(each);
  }
  for (const each of ["clients.jwt[]", "clients.tiers.NAME", "upstreams[]", "operations.tokens[]"]) paths.delete(each);
  const rows = keyRows();
  expect(rows.map(({ key }) => key).toSorted()).toEqual([...paths].toSorted());
  expect(rows.filter(({ isGroup }) => !isGroup)).toHaveLength(92);
});

test("each key is described in one line", () => {
  for (const { key, description } of keyRows()) expect(description, key).toMatch(/^.{3,180}$/);
});

test("the example loads without an environment, and is what a configuration with its upstreams alone is", () => {
  const loaded = loadConfig({ file: join(root, "config/gateway.yaml") }, {});
  const [{ name, admin, urls }] = loaded.config.upstreams as Any;
  expect(effectiveConfig(loaded.config)).toEqual(effectiveOf({ upstreams: [{ name, admin, urls }] }));
  expect(loaded.warnings).toEqual([]);
});

test("what the example has behind a # loads, too", () => {
  const text = readFileSync(join(root, "config/gateway.yaml"), "utf8").replaceAll(/^( *)#(?! \S)/gm, "$1");
  expect(text).toContain("\nredis:\n");
  const values: Any = parse(text);
  values.clients.keysFile = "clients.jsonl";
  values.listen.tls = { certFile: "tls/server.pem", keyFile: "tls/server-key.pem" };
  values.redis.password =
    values.upstreams[0].auth.bearer =
    values.operations.tokens[0].token =
      "${TOKEN}-of-16-characters";
  expect(effectiveOf(values)).toMatchObject({ upstreams: [{ agreement: 2, mode: "cache-only" }] });
});

test("the JSON schema requires what has no default alone, and allows references and off", () => {
  const { properties, required, $defs } = configJsonSchema() as Any;
  const upstream = properties.upstreams.items;
  expect([required, upstream.required]).toEqual([["upstreams"], ["name", "urls"]]);
  expect(Object.keys($defs)).toEqual(["off", "reference"]);
  expect(properties.listen.properties.port.anyOf).toContainEqual({ $ref: "#/$defs/reference" });
  expect(upstream.properties.pageSize.anyOf).toContainEqual({ $ref: "#/$defs/off" });
  expect(upstream.properties.cache.properties.clientTtl).not.toHaveProperty("default");
  expect(properties.clients.anyOf[0].properties.tiers).toHaveProperty("patternProperties");
});
