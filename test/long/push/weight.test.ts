import { once } from "node:events";
import { Worker } from "node:worker_threads";
import { afterAll, beforeAll, expect, test } from "vitest";
import { weightOf } from "../../../src/bodies/thread.ts";

const SIZE = 2 ** 20;

const many = (part: (at: number) => string): string => {
  const parts: string[] = [];
  for (let at = 0, length = 0; length < SIZE; at++) {
    parts.push(part(at));
    length += parts[at]!.length + 1;
  }
  return parts.join();
};

/** Says of each text how many bytes of heap its value takes; in a thread, whose heap holds nothing else to collect. */
const MEASURING = `
  const { parentPort } = require("node:worker_threads");
  require("node:v8").setFlagsFromString("--expose-gc");
  const collect = require("node:vm").runInNewContext("gc");
  parentPort.on("message", (text) => {
    collect();
    const before = process.memoryUsage().heapUsed;
    const value = JSON.parse(text);
    collect();
    parentPort.postMessage(value === undefined ? 0 : process.memoryUsage().heapUsed - before);
  });
`;

let thread: Worker;
beforeAll(() => {
  thread = new Worker(MEASURING, { eval: true });
});
afterAll(async () => {
  await thread.terminate();
});

/** Bytes of heap that the value of a JSON text takes. */
async function takenBy(text: string): Promise<number> {
  // The list of what it takes over is empty: a thread is no window.
  thread.postMessage(text, []);
  const [taken] = (await once(thread, "message")) as [number];
  return taken;
}

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
])("the weight of %s is no less than what parsing them takes", async (_what, text) => {
  const taken = await takenBy(text);
  expect(taken).toBeGreaterThan(0);
  expect(taken).toBeLessThan(weightOf(Buffer.from(text)));
});

test("punctuation within strings weighs nothing", () => {
  const text = JSON.stringify({ x: '{[,:"\\'.repeat(1_000) });
  expect(weightOf(Buffer.from(text))).toBeLessThan(2 * text.length + 500);
});
