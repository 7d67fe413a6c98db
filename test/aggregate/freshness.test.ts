import { describe, expect, test } from "vitest";
import { combineFreshness, composeAnswer, type Part } from "../../src/aggregate/composed-answer.ts";
import { type Fields, fieldValue } from "../../src/fields.ts";
import { ManualClock } from "../support/manual-clock.ts";

function part(age: number, cacheControl: string, ttl?: number, more: Fields = []): Part {
  const fields = ["cache-control", cacheControl, ...more];
  return { age, ttl, outcome: ttl === undefined ? "miss" : "hit", fields, windowUsed: undefined };
}

describe("the freshness of an answer made of several", () => {
  test.each([
    ["no part", [], 0, "no-cache", "registry-gateway;hit"],
    ["one", [part(5, "max-age=60", 55)], 5, "max-age=60", "registry-gateway;hit;ttl=55"],
    [
      "the least left counts from the greatest age",
      [part(5, "max-age=60", 55), part(20, "max-age=30", 10)],
      20,
      "max-age=30",
      "registry-gateway;hit;ttl=10",
    ],
    [
      "a young part with little left",
      [part(50, "max-age=600", 9), part(0, "max-age=10", 10)],
      50,
      "max-age=60",
      "registry-gateway;hit;ttl=9",
    ],
    [
      "one that must not be kept",
      [part(1, "max-age=60", 5), part(1, "no-store", 5)],
      1,
      "no-store",
      "registry-gateway;hit;ttl=5",
    ],
    [
      "one that must be asked for",
      [part(1, "max-age=60", 5), part(1, "no-cache", 5)],
      1,
      "no-cache",
      "registry-gateway;hit;ttl=5",
    ],
    [
      "one that says nothing",
      [part(1, "max-age=60", 5), part(1, "public", 5)],
      1,
      "no-cache",
      "registry-gateway;hit;ttl=5",
    ],
    [
      "private and must-revalidate",
      [part(1, "private, max-age=9", 5), part(1, "must-revalidate, max-age=9", 5)],
      1,
      "private, max-age=9, must-revalidate",
      "registry-gateway;hit;ttl=5",
    ],
    [
      "one that shared caches may keep for less",
      [part(1, "max-age=60, s-maxage=7", 5), part(1, "max-age=60", 5)],
      1,
      "max-age=7, must-revalidate",
      "registry-gateway;hit;ttl=5",
    ],
    [
      "one that shared caches must not use stale",
      [part(1, "max-age=60, proxy-revalidate", 5), part(1, "max-age=60", 5)],
      1,
      "max-age=60, must-revalidate",
      "registry-gateway;hit;ttl=5",
    ],
    [
      "one that shared caches must not keep",
      [part(1, "max-age=60", 5, ["cdn-cache-control", "no-store"]), part(1, "max-age=60", 5)],
      1,
      "no-store",
      "registry-gateway;hit;ttl=5",
    ],
    [
      "one that shared caches may keep for more",
      [part(1, "max-age=60", 5, ["cdn-cache-control", "max-age=600"])],
      1,
      "max-age=60",
      "registry-gateway;hit;ttl=5",
    ],
    [
      "one that is stale",
      [part(90, "max-age=60", -30), part(1, "max-age=60", 5)],
      90,
      "no-cache",
      "registry-gateway;hit;ttl=-30",
    ],
    [
      "one that was fetched",
      [part(0, "max-age=60"), part(1, "max-age=60", 5)],
      1,
      "max-age=60",
      "registry-gateway;fwd=uri-miss;ttl=5",
    ],
  ] as const)("%s", (_, parts, age, cacheControl, cacheStatus) => {
    const combined = combineFreshness(parts);
    expect([combined.age, combined.cacheControl, combined.cacheStatus]).toEqual([age, cacheControl, cacheStatus]);
  });
});

test.each([
  ["no part varies", [[], []], undefined],
  ["one does", [["vary", "Accept-Language"], []], "accept-language"],
  [
    "several do",
    [
      ["vary", "X-B, x-a"],
      ["vary", "x-b"],
    ],
    "x-a, x-b",
  ],
  [
    "one varies by what nobody knows",
    [
      ["vary", "x-a"],
      ["vary", "*"],
    ],
    "*",
  ],
] as const)("what it varies by where %s", (_, fields, vary) => {
  const freshness = combineFreshness(fields.map((more) => part(1, "max-age=60", 5, more)));
  const answer = composeAnswer({ text: "{}", freshness, missing: [] }, {}, new ManualClock());
  expect(fieldValue(answer.fields, "vary")).toBe(vary);
});

test("an answer of which a part changed is sent whole, however old the oldest of them is", () => {
  const clock = new ManualClock();
  const freshness = combineFreshness([part(20, "max-age=60", 40), part(1, "max-age=60", 59)]);
  const before = composeAnswer({ text: '{"a":1}', freshness, missing: [] }, {}, clock);
  const since = { "if-modified-since": fieldValue(before.fields, "date")! };
  expect(composeAnswer({ text: '{"a":2}', freshness, missing: [] }, since, clock).status).toBe(200);
  const tag = { "if-none-match": fieldValue(before.fields, "etag")! };
  expect(composeAnswer({ text: '{"a":1}', freshness, missing: [] }, tag, clock).status).toBe(304);
});

test("an answer that lacks very many registries names as many as clients take in a header", () => {
  const clock = new ManualClock();
  const partialOf = (missing: readonly string[]) => {
    const { fields } = composeAnswer({ text: "{}", freshness: combineFreshness([]), missing }, {}, clock);
    return fields[fields.indexOf("x-registry-partial") + 1]!;
  };
  const names = Array.from({ length: 1_000 }, (_, at) => `${"r".repeat(59)}-${at}`);
  const items = partialOf(names).split(", ");
  const named = items.slice(0, -1);
  expect(partialOf(names).length).toBeLessThanOrEqual(2_020);
  expect(named.length).toBeGreaterThan(25);
  expect(named).toEqual(names.slice(0, named.length));
  expect(items.at(-1)).toBe(`and ${1_000 - named.length} more`);
  expect(partialOf(names.slice(0, 5))).toBe(names.slice(0, 5).join(", "));
});
