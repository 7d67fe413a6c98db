import { describe, expect, test } from "vitest";
import { keyOf, pathOf } from "../../../src/registry/key.ts";
import { whyNoPage } from "../../../src/registry/pages.ts";
import { policyOf } from "../../../src/registry/policy.ts";
import type { MetadataRequest } from "../../../src/registry/registry.ts";
import { INFO, one, PAGE, Registries, SECOND, TOKEN } from "./scripted-upstream.ts";

describe("keys", () => {
  test("of different questions differ, and are the same for the same", () => {
    const long = "x".repeat(300);
    const requests: MetadataRequest[] = [
      INFO,
      PAGE,
      { ...PAGE, pageSize: "25" },
      { ...PAGE, pageToken: "25" },
      { ...PAGE, pageSize: "25", pageToken: "1" },
      { ...PAGE, pageSize: "251" },
      { ...PAGE, pageToken: long },
      { ...PAGE, pageToken: `${long}y` },
      one("25"),
      one("page  25"),
      one(long),
      one(`instrument-digest ${long}`),
    ];
    const names = requests.map((request) => keyOf("p", request, 0).name);
    expect(new Set(names).size).toBe(requests.length);
    expect(requests.map((request) => keyOf("p", { ...request }, 0).name)).toEqual(names);
    expect(Math.max(...names.map(({ length }) => length))).toBeLessThanOrEqual(200);
  });

  test("of pages behind a token are minor ones", () => {
    expect([INFO, PAGE, TOKEN, one("a")].map((request) => keyOf("p", request, 0).isMinor)).toEqual([
      false,
      false,
      true,
      false,
    ]);
  });
});

test.for<[MetadataRequest, string]>([
  [INFO, "info"],
  [PAGE, "instruments?pageSize=1000"],
  [{ ...PAGE, pageSize: "25" }, "instruments?pageSize=25"],
  [{ ...PAGE, pageToken: "a%2Fb+c" }, "instruments?pageSize=1000&pageToken=a%2Fb+c"],
  [one("Amulet/USD %"), "instruments/Amulet%2FUSD%20%25"],
])("%o is asked as %s", ([request, path]) => {
  expect(pathOf(request, 1_000)).toBe(`/registry/metadata/v1/${path}`);
});

test.for<[string, unknown, string | undefined, string | undefined]>([
  ["a page", { instruments: [] }, undefined, undefined],
  ["one that goes on", { instruments: [], nextPageToken: "b" }, "a", undefined],
  ["one that goes on with itself", { instruments: [], nextPageToken: "a b" }, "a%20b", "repeated-token"],
  ["a plus for a space", { instruments: [], nextPageToken: "a b" }, "a+b", "repeated-token"],
  ["a plus for itself", { instruments: [], nextPageToken: "a+b" }, "a+b", "repeated-token"],
  ["a badly encoded token", { instruments: [], nextPageToken: "%" }, "%", "repeated-token"],
  ["one that begins anew", { instruments: [], nextPageToken: "a" }, undefined, undefined],
  ["no list", { instruments: {} }, undefined, "no-instruments"],
  ["no object", [], undefined, "no-instruments"],
])("%s is kept or not", ([, page, token, reason]) => {
  expect(whyNoPage(page, token)).toBe(reason);
});

test("policies follow the configuration; a 404 of an instrument alone is kept", () => {
  const registry = new Registries().registry(() => "{}", { config: { mode: "cache-only" } });
  const policies = (["info", "instruments", "instrument"] as const).map((each) =>
    policyOf(registry.upstream.config, each),
  );
  expect(
    policies.map(({ ttl, maxTtl, notFoundTtl }) => [ttl, maxTtl, notFoundTtl].map((ms) => ms && ms / SECOND)),
  ).toEqual([
    [600, 86_400, undefined],
    [30, 600, undefined],
    [20, 600, 5],
  ]);
  expect(policies.every(({ isCacheOnly }) => isCacheOnly)).toBe(true);
});
