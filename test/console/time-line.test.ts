import { expect, test } from "vitest";
import { pathOf, timeLine } from "../../console/time-line.ts";

test("the life of an entry has three parts, and now is on it", () => {
  const { parts, now } = timeLine({ age: 10, freshFor: 10, revalidateFor: 20, usableFor: 30 });
  expect(parts.map(({ name, from, to }) => [name, from, to])).toEqual([
    ["fresh", 0, 0.5],
    ["revalidate", 0.5, 0.75],
    ["error", 0.75, 1],
  ]);
  expect(now).toBe(0.25);
});

test("a part without length is left out, and now is the end of what is of no use any more", () => {
  const { parts, now } = timeLine({ age: 100, freshFor: -60, revalidateFor: -60, usableFor: -60 });
  expect(parts.map(({ name, to }) => [name, to])).toEqual([["fresh", 0.4]]);
  expect(now).toBe(1);
});

test("an entry that was just made has a line, too", () => {
  expect(timeLine({ age: 0, freshFor: 0, revalidateFor: 0, usableFor: 0 })).toEqual({ parts: [], now: 0 });
});

test.each([
  ["https://gateway.example:8080/registry/metadata/v1/info?x=1#part", "/registry/metadata/v1/info?x=1"],
  ["  /registry/metadata/v1/info ", "/registry/metadata/v1/info"],
  ["registry/metadata/v1/info", "/registry/metadata/v1/info"],
])("of %j the path is asked for", (text, path) => {
  expect(pathOf(text)).toBe(path);
});
