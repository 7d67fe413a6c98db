import { expect, test } from "vitest";
import { configFromFlags } from "../../src/config/flags.ts";
import type { Flags } from "../../src/config/flags.ts";
import { parseConfig } from "../../src/config/parse.ts";
import { ConfigError } from "../../src/config/problem.ts";

test("flags alone give a configuration that has every default", () => {
  const config = configFromFlags({ upstreams: ["http://127.0.0.1:7001"] });
  const text = "upstreams: [{ name: 127.0.0.1, urls: ['http://127.0.0.1:7001'] }]";
  expect(config).toStrictEqual(parseConfig({ text, file: "x", env: {} }).config);
});

test("the redis and port flags are taken as they are, without the environment", () => {
  const config = configFromFlags({ upstreams: ["http://a"], redis: "redis://u:${HOME}@r.example/1", port: 0 });
  expect(config.redis?.url).toBe("redis://u:${HOME}@r.example/1");
  expect(config.listen.port).toBe(0);
});

test.each<[urls: string[], names: string[]]>([
  [["https://a.example"], ["a.example"]],
  [["https://a.example:8443/api/v0"], ["a.example"]],
  [
    ["http://127.0.0.1:7001", "http://127.0.0.1:7002/registry/"],
    ["127.0.0.1-7001", "127.0.0.1-7002"],
  ],
  [
    ["https://a.example/x", "https://a.example/y", "https://b.example"],
    ["a.example", "a.example-2", "b.example"],
  ],
  [["http://[2001:db8::1]:80"], ["2001-db8-1"]],
  [
    ["http://off", "http://aggregate"],
    ["off-2", "aggregate-2"],
  ],
  [[`https://${"a".repeat(63)}.example`], [`${"a".repeat(63)}.`]],
])("the upstreams %j are called %j", (urls, names) => {
  expect(configFromFlags({ upstreams: urls }).upstreams.map(({ name }) => name)).toEqual(names);
});

test.each<[flags: Flags, message: string]>([
  [{ upstreams: [] }, "registry-gateway --upstream: is empty: give at least one"],
  [{ upstreams: ["http://a", "ftp://b"] }, "registry-gateway --upstream 2: must begin with http:// or https://"],
  [{ upstreams: ["a.example"] }, "registry-gateway --upstream 1: is not a URL: write it in full, such as https://host"],
  [
    { upstreams: ["http://a"], port: 70_000 },
    "registry-gateway --port: must be a whole number from 0 to 65535, not 70000",
  ],
  [{ upstreams: ["http://a"], redis: "http://r" }, "registry-gateway --redis: must begin with redis:// or rediss://"],
])("bad flags %j are bad configuration that names the flag", (flags, message) => {
  expect(() => configFromFlags(flags)).toThrow(ConfigError);
  expect(() => configFromFlags(flags)).toThrow(message);
});
