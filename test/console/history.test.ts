import { expect, test } from "vitest";
import { byMinute, callRatesOf, lastMinuteOf, mergeHistory } from "../../console/history.ts";
import type { HistoryAnswer } from "../../src/operations/answers.ts";

/** A history of steps of 5 s from `first` on; counts are the number of the step. */
function history(first: number, steps: number, change: Partial<HistoryAnswer> = {}): HistoryAnswer {
  const counts = Array.from({ length: steps }, (_, i) => first + i);
  return {
    stepSeconds: 5,
    maxSteps: 6,
    complete: false,
    times: counts.map((step) => step * 5_000),
    lines: { "requests:hit": counts, p99Ms: counts, hitRatio: counts.map(() => 0.5), "calls:a": counts },
    ...change,
  };
}

test("an increment goes to the end, and what the gateway keeps no longer is dropped", () => {
  const merged = mergeHistory(history(1, 5, { complete: true }), history(6, 3));
  expect(merged.times).toEqual([3, 4, 5, 6, 7, 8].map((step) => step * 5_000));
  expect(merged.lines).toMatchObject({ "requests:hit": [3, 4, 5, 6, 7, 8], p99Ms: [3, 4, 5, 6, 7, 8] });
});

test("a step that comes twice counts once", () => {
  const merged = mergeHistory(history(1, 3, { complete: true }), history(2, 3));
  expect(merged.lines["requests:hit"]).toEqual([1, 2, 3, 4]);
});

test("an empty increment changes nothing", () => {
  const known = history(1, 3, { complete: true });
  expect(mergeHistory(known, history(4, 0, { lines: {} })).lines["requests:hit"]).toEqual([1, 2, 3]);
});

test("a line that comes later had nothing before, and the other way", () => {
  const added = history(3, 2, { lines: { "requests:miss": [7, 8] } });
  const known = history(1, 2, { complete: true, lines: { "requests:hit": [1, 2] } });
  expect(mergeHistory(known, added).lines).toEqual({
    "requests:hit": [1, 2, null, null],
    "requests:miss": [null, null, 7, 8],
  });
});

test("a complete answer takes the place of what was known: the gateway began anew", () => {
  const anew = history(100, 2, { complete: true });
  expect(mergeHistory(history(1, 5, { complete: true }), anew)).toBe(anew);
});

test("the last minute is told in events a second", () => {
  const lines = {
    ...history(1, 24).lines,
    "requests:hit": Array.from({ length: 24 }, (_, i) => (i < 12 ? 1_000 : 10)),
    "failed:a": Array.from({ length: 24 }, () => null),
  };
  const steps = history(1, 24, { maxSteps: 720, lines });
  expect(lastMinuteOf(steps)).toMatchObject({ requests: 2, errors: 0, hitRatio: 0.5, p99: 24 });
  expect(callRatesOf(steps, "a")!.failed).toBe(0);
  expect(callRatesOf(steps, "of no such name")).toBeUndefined();
});

test("before the first step nothing is told as 0", () => {
  expect(lastMinuteOf(history(1, 0, { lines: {} }))).toMatchObject({
    requests: undefined,
    hitRatio: undefined,
    p99: undefined,
    errors: undefined,
  });
});

test("a table has a mean for each minute, of what was measured", () => {
  const times = [0, 5_000, 55_000, 60_000, 65_000];
  expect(
    byMinute(times, [
      [1, 2, null, 10, 20],
      [null, null, null, null, 4],
    ]),
  ).toEqual([
    { at: 0, values: [1.5, null] },
    { at: 60_000, values: [15, 4] },
  ]);
});
