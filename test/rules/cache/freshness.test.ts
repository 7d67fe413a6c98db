import { describe, expect, test } from "vitest";
import { directivesFor, directivesOf, freshnessOf } from "../../../src/cache/freshness.ts";
import type { CachePolicy } from "../../../src/cache/types.ts";
import { fetched, MINUTE, POLICY, SECOND } from "./scene.ts";

const RECEIVED = 1_000_000;
const WALL = Date.UTC(2026, 0, 1, 12);
const at = (seconds: number): string => new Date(WALL + seconds * 1_000).toUTCString();
const NOW = at(0);
const control = (value: string): string[] => ["cache-control", value];

function judged(fields: readonly string[], changes: Partial<CachePolicy> = {}, status = 200, shortening = 0) {
  const policy = { ...POLICY, ...changes };
  const answer = fetched({ status, fields }, RECEIVED);
  const directives = directivesFor(answer, policy);
  const { isKnown, freshUntil, refreshUntil, errorUntil, bornAt } = freshnessOf(answer, {
    policy,
    directives,
    wallNow: WALL,
    shortening,
  });
  const seconds = (until: number, since: number): number => (until - since) / SECOND;
  return {
    isKnown,
    age: seconds(RECEIVED, bornAt),
    fresh: seconds(freshUntil, RECEIVED),
    swr: seconds(refreshUntil, freshUntil),
    sie: seconds(errorUntil, freshUntil),
  };
}

describe("a lifetime that the registry states counts from the answer's birth, in seconds", () => {
  test.for<[string, string[], number]>([
    ["max-age", control("max-age=100"), 100],
    ["names in any case", control("Max-AGE=100"), 100],
    ["a quoted number", control('max-age="100"'), 100],
    ["s-maxage before a longer max-age", control("max-age=300, s-maxage=1"), 1],
    ["s-maxage before a shorter max-age", control("max-age=1, s-maxage=300"), 300],
    ["two lines", [...control("max-age=300"), ...control("s-maxage=1")], 1],
    ["of two the shorter", control("max-age=300, max-age=5"), 5],
    ["a malformed s-maxage", control("max-age=300, s-maxage=x"), 0],
    ["a negative one", control("max-age=-5"), 0],
    ["a fraction", control("max-age=1.5"), 0],
    ["no argument", control("max-age"), 0],
    ["a space before it", control("max-age =100"), 0],
    ["Expires", ["expires", at(100), "date", NOW], 100],
    ["Expires by the registry's own clock", ["expires", at(-3_500), "date", at(-3_600)], 100],
    ["Expires without Date", ["expires", at(100)], 100],
    ["Expires in the past", ["expires", at(-100), "date", NOW], 0],
    ["Expires in any case", ["expires", at(100).toUpperCase(), "date", NOW.toLowerCase()], 100],
    ["Expires as RFC 850 has it", ["expires", "Thursday, 01-Jan-26 12:01:40 GMT", "date", NOW], 100],
    ["Expires as asctime has it", ["expires", "Thu Jan  1 12:01:40 2026", "date", NOW], 100],
    ["Expires of another zone", ["expires", at(100).replace("GMT", "UTC"), "date", NOW], 0],
    ["Expires with a year of two digits", ["expires", at(100).replace("2026", "26"), "date", NOW], 0],
    ["Expires without a comma", ["expires", at(100).replace(",", ""), "date", NOW], 0],
    ["Expires with dashes", ["expires", "Thu, 01-Jan-2026 12:01:40 GMT", "date", NOW], 0],
    ["Expires at 25 o'clock", ["expires", at(100).replace("12:", "25:"), "date", NOW], 0],
    ["Expires 0", ["expires", "0", "date", NOW], 0],
    ["of two Expires the earlier", ["expires", at(100), "expires", at(50), "date", NOW], 50],
    ["of two Expires one malformed", ["expires", at(100), "expires", "x"], 0],
    ["max-age before Expires", [...control("max-age=100"), "expires", at(-9)], 100],
    ["a malformed max-age before Expires", [...control("max-age=x"), "expires", at(100)], 0],
    ["less the Age", [...control("max-age=100"), "age", "30"], 70],
    ["an Age beyond it", [...control("max-age=10"), "age", "15"], -5],
    ["of a list of ages the first", [...control("max-age=100"), "age", "30, 90"], 70],
    ["an Age that is no number", [...control("max-age=100"), "age", "-30"], 100],
    ["a Date far in the past makes nothing old", [...control("max-age=100"), "date", at(-9_999)], 100],
    ["maxTtl at most, from receipt", control("max-age=99999999999"), 600],
    ["maxTtl at most, with an Age", [...control("max-age=7200"), "age", "1800"], 600],
    ["beyond all numbers", control(`max-age=${"9".repeat(400)}`), 600],
  ])("%s", ([, fields, seconds]) => {
    expect(judged(fields, { ttl: 77 * SECOND }, 200, 0.1)).toMatchObject({ fresh: seconds, isKnown: true });
  });
});

describe("else the configured ttl counts from receipt", () => {
  test.for<[string, string[], Partial<CachePolicy>, number, number, number]>([
    ["nothing said", [], {}, 200, 0, 10],
    ["nothing said about time", control("public, must-revalidate, foo=bar"), {}, 200, 0, 10],
    ["shortened by up to a tenth", [], { ttl: 100 * SECOND }, 200, 0.05, 95],
    ["the Age does not use it up", ["age", "5"], {}, 200, 0, 10],
    ["it may be longer than maxTtl", [], { ttl: 100 * SECOND, maxTtl: SECOND }, 200, 0, 100],
    ["a 404 has its own", [], {}, 404, 0, 5],
    ["a 404 with a stated one", control("max-age=9"), {}, 404, 0, 9],
    ["the registry not listened to", [...control("max-age=99"), "age", "50"], { honorUpstream: false }, 200, 0, 10],
  ])("%s", ([, fields, changes, status, shortening, seconds]) => {
    expect(judged(fields, changes, status, shortening)).toMatchObject({ fresh: seconds, isKnown: true });
  });

  test("0s is no ttl", () => {
    expect(judged([], { ttl: 0 }).isKnown).toBe(false);
    expect(judged([], { notFoundTtl: undefined }, 404).isKnown).toBe(false);
    expect(judged(control("max-age=1"), { ttl: 0 }).isKnown).toBe(true);
  });
});

describe("windows of staleness run from expiry, in seconds", () => {
  test.for<[string, string[], number, number]>([
    ["configured", [], 30, 600],
    ["configured beside a stated lifetime", control("max-age=9"), 30, 600],
    ["stated", control("max-age=9, stale-while-revalidate=1, stale-if-error=2"), 1, 2],
    ["stated, longer than configured", control("max-age=9, stale-while-revalidate=400"), 400, 600],
    ["an error finds what a refresh would", control("max-age=9, stale-while-revalidate=50, stale-if-error=0"), 50, 50],
    ["stated, maxTtl at most", control("max-age=9, stale-while-revalidate=9999, stale-if-error=9999"), 600, 600],
    ["stated beside s-maxage", control("s-maxage=9, stale-while-revalidate=20"), 20, 20],
    ["s-maxage alone", control("s-maxage=9"), 0, 0],
    ["stated as none", control("max-age=9, stale-while-revalidate=0, stale-if-error=0"), 0, 0],
    ["malformed", control("max-age=9, stale-while-revalidate=x, stale-if-error"), 0, 0],
    ["max-age=0: for errors alone", control("max-age=0"), 0, 600],
    ["max-age=0 with a stated one", control("max-age=0, stale-while-revalidate=9"), 9, 600],
    ["too old on arrival: for errors alone", [...control("max-age=10"), "age", "20"], 0, 600],
    ["must-revalidate", control("max-age=9, must-revalidate, stale-if-error=9"), 0, 0],
    ["proxy-revalidate", control("max-age=9, proxy-revalidate"), 0, 0],
    ["no-cache", control("no-cache, stale-if-error=9"), 0, 0],
  ])("%s", ([, fields, swr, sie]) => {
    expect(judged(fields)).toMatchObject({ swr, sie });
  });

  test("a 404 has none but stated ones", () => {
    expect(judged([], {}, 404)).toMatchObject({ swr: 0, sie: 0 });
    expect(judged(control("max-age=1, stale-if-error=4"), {}, 404)).toMatchObject({ swr: 0, sie: 4 });
  });

  test("the registry not listened to: the configured ones", () => {
    const fields = control("no-cache, must-revalidate, stale-if-error=1");
    expect(judged(fields, { honorUpstream: false, staleIfError: MINUTE })).toMatchObject({
      fresh: 10,
      swr: 30,
      sie: 60,
    });
  });
});

test("no-cache is never fresh", () => {
  for (const value of ["no-cache", "max-age=99, no-cache", 's-maxage=99, no-cache="set-cookie"']) {
    expect(judged(control(value))).toMatchObject({ fresh: 0, isKnown: true });
  }
});

describe("directives", () => {
  test.for<[string, string[]]>([
    ["a, ,, b=c ,d", ["a", "b", "d"]],
    ['a="x, no-store", b', ["a", "b"]],
    ['a="x\\", no-store", b', ["a", "b"]],
    ['a="never closed, no-store', ["a", "no-store"]],
    ["No-Store", ["no-store"]],
    ["", []],
  ])("of %s", ([value, names]) => {
    expect([...directivesOf(value).keys()]).toEqual(names);
  });

  test("are read in time that grows with the text alone", () => {
    for (const hostile of ['a="'.repeat(20_000), '=",'.repeat(20_000), '\\"'.repeat(20_000), "a=".repeat(20_000)]) {
      expect(directivesOf(hostile).size).toBeLessThan(20_001);
    }
  });
});
