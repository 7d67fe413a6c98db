import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { expect, test } from "vitest";
import { weightOf } from "../../src/bodies/weight.ts";

const SIZE = 2 ** 20;

const many = (part: (at: number) => string): string => {
  const parts: string[] = [];
  for (let at = 0, length = 0; length < SIZE; at++) {
    parts.push(part(at));
    length += parts[at]!.length + 1;
  }
  return parts.join();
};

setFlagsFromString("--expose-gc");
const collect = runInNewContext("gc") as () => void;

test.each<[string, string]>([
  ["nested arrays", `${"[".repeat(SIZE / 2)}${"]".repeat(SIZE / 2)}`],
  ["nested objects", `${'{"a":'.repeat(SIZE / 6)}1${"}".repeat(SIZE / 6)}`],
  ["empty objects", `[${many(() => "{}")}]`],
  ["empty arrays", `[${many(() => "[]")}]`],
  ["objects of one key", `[${many(() => '{"a":1}')}]`],
  ["objects of a key of their own", `[${many((at) => `{"k${at.toString(36)}":0}`)}]`],
  ["one object of many keys", `{${many((at) => `"k${at.toString(36)}":0`)}}`],
  ["one object of many sparse numbers", `{${many((at) => `"${at * 7_919_000}":0`)}}`],
  ["many strings", `[${many((at) => `"${at.toString(36)}"`)}]`],
  ["many fractions", `[${many(() => "1.5")}]`],
  ["fractions among others", `[${many((at) => ["1.5", "1", '"x"', "null"][at % 4]!)}]`],
  ["text of two bytes", `["${"é".repeat(SIZE)}"]`],
])("the weight of %s is no less than what parsing them takes", (_what, text) => {
  const weight = weightOf(Buffer.from(text));
  collect();
  const before = process.memoryUsage().heapUsed;
  const value = JSON.parse(text) as unknown;
  collect();
  const taken = process.memoryUsage().heapUsed - before;
  expect(value).toBeDefined();
  expect(taken).toBeLessThan(weight);
});

test("punctuation within strings weighs nothing", () => {
  const text = JSON.stringify({ x: '{[,:"\\'.repeat(1_000) });
  expect(weightOf(Buffer.from(text))).toBeLessThan(2 * text.length + 500);
});
