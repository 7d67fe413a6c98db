import { describe, expect, test } from "vitest";
import { governingDirectives } from "../../src/cache/rfc/cache-control.ts";

const OWN = "registry-gateway-cache-control";
const CDN = "cdn-cache-control";
const CC = "cache-control";

describe("the field that governs", () => {
  test.for([
    ["Cache-Control when there is nothing else", [CC, "max-age=1"], CC, 1],
    ["no field at all", [], CC, undefined],
    ["CDN-Cache-Control before Cache-Control", [CC, "max-age=1", CDN, "max-age=2"], CDN, 2],
    ["our own before all", [CC, "max-age=1", CDN, "max-age=2", OWN, "max-age=3"], OWN, 3],
    ["CDN when ours is empty", [OWN, "", CDN, "max-age=2", CC, "max-age=1"], CDN, 2],
    ["CDN when ours is malformed", [OWN, "max-age=1, &&&", CDN, "max-age=2"], CDN, 2],
    ["Cache-Control when CDN is malformed", [CDN, "max-age=10000, &&&&&", CC, "max-age=1"], CC, 1],
    ["Cache-Control when CDN has a string for a number", [CDN, 'max-age="10000"', CC, "max-age=1"], CC, 1],
    ["Cache-Control when CDN has a token for a number", [CDN, "max-age=a100", CC, "max-age=1"], CC, 1],
    ["Cache-Control when CDN has a decimal", [CDN, "max-age=10.5", CC, "max-age=1"], CC, 1],
    ["Cache-Control when CDN has a decimal that is whole", [CDN, "max-age=10.0", CC, "max-age=1"], CC, 1],
    ["Cache-Control when CDN has a decimal last", [CDN, "max-age=9, max-age=10.0;a", CC, "max-age=1"], CC, 1],
    ["CDN with decimals that are no durations", [CDN, 'a="max-age=1.0", b=1.0;max-age=2.0, max-age=5;c=1.0'], CDN, 5],
    ["CDN repeating a decimal by an integer", [CDN, "max-age=10.0, max-age=6"], CDN, 6],
    ["Cache-Control when CDN has no number", [CDN, "max-age", CC, "max-age=1"], CC, 1],
    ["Cache-Control when CDN has an inner list", [CDN, "max-age=(1 2)", CC, "max-age=1"], CC, 1],
    ["Cache-Control when CDN has upper case", [CDN, "MaX-aGe=3600", CC, "max-age=1"], CC, 1],
    ["Cache-Control when CDN has a space before =", [CDN, "max-age =100", CC, "max-age=1"], CC, 1],
    ["Cache-Control when CDN has a space after =", [CDN, "max-age= 100", CC, "max-age=1"], CC, 1],
    ["CDN with unknown directives", [CDN, "foobar, max-age=3600"], CDN, 3600],
    ["CDN with only unknown directives", [CDN, "foo", CC, "max-age=1"], CDN, undefined],
    ["CDN with parameters, which mean nothing", [CDN, "max-age=5;a=b"], CDN, 5],
    ["CDN on two lines", [CDN, "max-age=5", CDN, "must-revalidate"], CDN, 5],
    ["CDN repeating a key: the last counts", [CDN, "max-age=5, max-age=6"], CDN, 6],
    ["CDN with a huge number", [CDN, "max-age=99999999999"], CDN, 2 ** 31],
    ["CDN with zero", [CDN, "max-age=0"], CDN, 0],
    ["CDN with a negative number", [CDN, "max-age=-5"], CDN, 0],
  ] as const)("is %s", ([, fields, field, seconds]) => {
    const governing = governingDirectives(fields);
    expect(governing.field).toBe(field);
    expect(governing.directives.maxAge).toBe(seconds === undefined ? undefined : seconds * 1000);
  });

  test.for([
    ["no-store", { noStore: true }],
    ["no-store=?0", { noStore: false }],
    ["private", { private: true }],
    ['private="a, b"', { private: ["a", "b"] }],
    ["max-age=60, no-store=()", { noStore: true }],
    ['private=("x-a")', { private: true }],
    ["no-cache", { noCache: true }],
    ["must-revalidate, max-age=1", { mustRevalidate: true }],
    ["s-maxage=9", { sMaxage: 9_000 }],
    ["stale-if-error=60, stale-while-revalidate=30", { staleIfError: 60_000, staleWhileRevalidate: 30_000 }],
  ] as const)("may say %s", ([value, directives]) => {
    expect(governingDirectives([CDN, value]).directives).toMatchObject(directives);
  });

  test("hides what Cache-Control says", () => {
    expect(governingDirectives([CC, "no-store, private", CDN, "max-age=5"]).directives).toMatchObject({
      noStore: false,
      private: false,
    });
  });
});
