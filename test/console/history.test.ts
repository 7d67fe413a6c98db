import { expect, test } from "vitest";
import { byMinute, callRatesOf, lastMinuteOf, mergeHistory } from "../../console/history.ts";
import type { HistoryAnswer } from "../../src/operations/answers.ts";

/** A history of so many steps of 5 s from `first` on; counts are the number of the step. */
function history(first: number, steps: number, change: Partial<HistoryAnswer> = {}): HistoryAnswer {
  const counts = Array.from({ length: steps }, (_, i) => first + i);
  return {
    stepSeconds: 5,
    maxSteps: 6,
    complete: false,
    times: counts.map((step) => step * 5_000),
    requests: { hit: counts },
    errors: {},
    latencyMs: { p50: counts, p99: counts },
    hitRatio: counts.map(() => 0.5),
    callsSpared: counts,
    upstreams: [{ upstream: "a", calls: counts, failed: counts.map(() => 0), latencyMs: { p50: counts, p99: counts } }],
    residentBytes: counts,
    cacheBytes: counts,
    eventLoopDelayMs: counts,
    ...change,
  };
}

test("an increment goes to the end, and what the gateway keeps no longer is dropped", () => {
  const merged = mergeHistory(history(1, 5, { complete: true }), history(6, 3));
  expect(merged.times).toEqual([3, 4, 5, 6, 7, 8].map((step) => step * 5_000));
  expect(merged.requests["hit"]).toEqual([3, 4, 5, 6, 7, 8]);
  expect(merged.latencyMs.p99).toEqual([3, 4, 5, 6, 7, 8]);
  expect(merged.upstreams[0]!.calls).toEqual([3, 4, 5, 6, 7, 8]);
});

test("a step that comes twice counts once", () => {
  const merged = mergeHistory(history(1, 3, { complete: true }), history(2, 3));
  expect(merged.requests["hit"]).toEqual([1, 2, 3, 4]);
});

test("an empty increment changes nothing", () => {
  const known = history(1, 3, { complete: true });
  expect(mergeHistory(known, history(4, 0, { requests: {}, upstreams: [] })).requests["hit"]).toEqual([1, 2, 3]);
});

test("outcomes, errors and registries that come later had none before, and the other way", () => {
  const added = history(3, 2, {
    requests: { miss: [7, 8] },
    errors: { upstream_timeout: [1, 2] },
    upstreams: [{ upstream: "b", calls: [3, 4], failed: [0, 0], latencyMs: { p50: [1, 1], p99: [2, 2] } }],
  });
  const merged = mergeHistory(history(1, 2, { complete: true }), added);
  expect(merged.requests).toEqual({ hit: [1, 2, 0, 0], miss: [0, 0, 7, 8] });
  expect(merged.errors).toEqual({ upstream_timeout: [0, 0, 1, 2] });
  expect(merged.upstreams.map(({ upstream, calls }) => [upstream, calls])).toEqual([
    ["b", [0, 0, 3, 4]],
    ["a", [1, 2, 0, 0]],
  ]);
  expect(merged.upstreams[0]!.latencyMs.p99).toEqual([null, null, 2, 2]);
});

test("a complete answer takes the place of what was known: the gateway began anew", () => {
  const anew = history(100, 2, { complete: true });
  expect(mergeHistory(history(1, 5, { complete: true }), anew)).toBe(anew);
});

test("the last minute is told in events a second", () => {
  const steps = history(1, 24, {
    maxSteps: 720,
    requests: { hit: Array.from({ length: 24 }, (_, i) => (i < 12 ? 1_000 : 10)) },
  });
  expect(lastMinuteOf(steps).requests).toBe(2);
  expect(lastMinuteOf(steps).hitRatio).toBe(0.5);
  expect(lastMinuteOf(steps).p99).toBe(24);
  expect(callRatesOf(steps, "a")!.failed).toBe(0);
  expect(callRatesOf(steps, "of no such name")).toBeUndefined();
});

test("before the first step nothing is told as 0", () => {
  const none = history(1, 0, { requests: {}, upstreams: [] });
  expect(lastMinuteOf(none)).toMatchObject({
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
