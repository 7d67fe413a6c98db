import { describe, expect, test } from "vitest";
import { ageValue, correctedInitialAge } from "../../src/cache/rfc/freshness.ts";

const WALL = Date.UTC(2026, 0, 1, 12);

function dated(seconds: number): string[] {
  return ["date", new Date(WALL + seconds * 1000).toUTCString()];
}

describe("the Age field", () => {
  test.for([
    ["absent", [], 0],
    ["a number", ["age", "7200"], 7200],
    ["zero", ["age", "0"], 0],
    ["spaces", ["age", " 7200 "], 7200],
    ["not a number", ["age", "abc"], 0],
    ["negative", ["age", "-7200"], 0],
    ["a decimal", ["age", "7200.0"], 0],
    ["a letter behind", ["age", "7200a"], 0],
    ["a parameter behind", ["age", "7200;foo=bar"], 0],
    ["empty", ["age", ""], 0],
    ["a list, old first", ["age", "7200, 0"], 7200],
    ["a list, old last", ["age", "0,7200"], 0],
    ["two lines, old first", ["age", "7200", "age", "0"], 7200],
    ["two lines, old last", ["age", "0", "age", "7200"], 0],
    ["a list that begins invalid", ["age", "abc, 7200"], 0],
    ["beyond 2^31", ["age", "99999999999"], 2 ** 31],
  ] as const)("%s", ([, fields, seconds]) => {
    expect(ageValue(fields)).toBe(seconds * 1000);
  });
});

describe("the age at receipt", () => {
  test.for([
    ["nothing known", [], 0, 0],
    ["a Date of now", dated(0), 0, 0],
    ["a Date of the second before, which is rounding", dated(-1), 0, 1],
    ["a Date 10 s ago", dated(-10), 0, 10_000],
    ["a Date ahead", dated(10), 0, 0],
    ["a malformed Date", ["date", "foo"], 0, 0],
    ["Age", ["age", "30", ...dated(0)], 0, 30_000],
    ["Age larger than Date shows", ["age", "30", ...dated(-10)], 0, 30_000],
    ["Date showing more than Age", ["age", "5", ...dated(-10)], 0, 10_000],
    ["the time the answer took", dated(0), 2_000, 2_000],
    ["Age and the time it took", ["age", "30"], 2_000, 32_000],
  ] as const)("%s", ([, fields, took, age]) => {
    const receipt = { requestedAt: 100_000 - took, receivedAt: 100_000, receivedWall: WALL };
    expect(correctedInitialAge(fields, receipt)).toBe(age);
  });

  test("is never negative, even when the clock seems to have run backwards", () => {
    expect(correctedInitialAge([], { requestedAt: 5_000, receivedAt: 0, receivedWall: WALL })).toBe(0);
  });
});
