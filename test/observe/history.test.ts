import { describe, expect, onTestFinished, test } from "vitest";
import { History, type HistoryReport } from "../../src/observe/history.ts";
import { type HistorySample, sampleOf } from "../../src/observe/history-sample.ts";
import { createMetrics } from "../../src/observe/metrics.ts";
import { METRICS } from "../../src/observe/metrics/table.ts";
import { startGateway } from "../support/gateway.ts";
import { ManualClock } from "../support/manual-clock.ts";
import { useSampleRegistries } from "../support/sample-registries.ts";
import { DSO } from "../support/sample.ts";

const startRegistry = useSampleRegistries();

const STEP = 5_000;
const { buckets: BOUNDS } = METRICS.upstreamDuration;

interface Counted {
  readonly counts?: Readonly<Record<string, number>>;
  readonly durations?: Readonly<Record<string, readonly number[]>>;
  readonly loopDelay?: number;
}

/** One process whose counters a test sets before each step. */
function oneProcess() {
  const clock = new ManualClock();
  const history = new History(clock);
  return {
    clock,
    history,
    step: ({ counts = {}, durations = {}, loopDelay = 0 }: Counted): void => {
      clock.advance(STEP);
      history.step({
        counts: new Map(Object.entries(counts)),
        durations: new Map(Object.entries(durations)),
        served: 0,
        missed: 0,
        residentBytes: undefined,
        cacheBytes: 0,
        loopDelay,
      } satisfies HistorySample);
    },
  };
}

/** As many calls in the bucket of this bound; undefined: beyond all. */
function inBucket(...calls: readonly (readonly [bound: number | undefined, count: number])[]): readonly number[] {
  return [...BOUNDS, undefined].map((bound) => calls.find(([of]) => of === bound)?.[1] ?? 0);
}

describe("the history", () => {
  test("has what came between two steps, of counters that only rise", () => {
    const { clock, history, step } = oneProcess();
    const begun = clock.wallNow();
    step({ counts: { "requests:hit": 0, "errors:upstream_timeout": 3, "calls:amulet": 10, "failed:amulet": 0 } });
    step({ counts: { "requests:hit": 0, "errors:upstream_timeout": 3, "calls:amulet": 14, "failed:amulet": 1 } });
    const { times, lines, ...rest } = history.report();
    expect(rest).toEqual({ stepSeconds: 5, maxSteps: 720, complete: true });
    expect(times).toEqual([begun + STEP, begun + 2 * STEP]);
    expect(lines).toEqual({
      "requests:hit": [0, 0],
      "errors:upstream_timeout": [3, 0],
      "calls:amulet": [10, 4],
      "failed:amulet": [0, 1],
      calls: [10, 4],
      failedCalls: [0, 1],
      hitRatio: [null, null],
      residentBytes: [null, null],
      cacheBytes: [0, 0],
      loopDelayMs: [0, 0],
    });
  });

  test("keeps an hour", () => {
    const { clock, history, step } = oneProcess();
    for (let i = 1; i <= 1_000; i++) step({ counts: { "calls:amulet": i * i } });
    const { times, lines } = history.report();
    expect(times).toHaveLength(720);
    expect(times.at(-1)).toBe(clock.wallNow());
    expect(times[0]).toBe(clock.wallNow() - 719 * STEP);
    // The steps from 281 to 1000; the difference of two squares.
    expect(lines["calls:amulet"]).toEqual(Array.from({ length: 720 }, (_, i) => 2 * (281 + i) - 1));
  });

  test("has no calls that nobody made when a registry goes, with all that was counted of it", () => {
    const { history, step } = oneProcess();
    step({ counts: { "calls:ann": 200, "failed:ann": 50, "calls:bob": 200, "failed:bob": 0 } });
    step({ counts: { "calls:bob": 201, "failed:bob": 0 } });
    expect(history.report().lines).toMatchObject({ calls: [400, 1], failedCalls: [50, 0] });
  });

  test("tells a reader that has a part of it only what came after", () => {
    const { history, step } = oneProcess();
    step({ counts: { "calls:amulet": 1 } });
    step({ counts: { "calls:amulet": 3 } });
    const first = history.report();
    expect(history.report(first.times.at(-1))).toMatchObject({ complete: false, times: [], lines: { calls: [] } });
    step({ counts: { "calls:amulet": 6, "errors:client_gone": 1 } });
    const second = history.report(first.times.at(-1));
    expect(second).toMatchObject({ complete: false, lines: { calls: [3], "errors:client_gone": [1] } });
    // A line that was not there before begins with nothing.
    expect(history.report().lines["errors:client_gone"]).toEqual([null, null, 1]);
  });

  test.each([0, 1, Number.MAX_SAFE_INTEGER])(
    "tells everything to a reader whose time is none of its steps: %d",
    (since) => {
      const { history, step } = oneProcess();
      step({});
      step({});
      expect(history.report(since)).toMatchObject({ complete: true });
      expect(history.report(since).times).toHaveLength(2);
    },
  );

  test("goes forward when the wall clock is set back", () => {
    const { clock, history, step } = oneProcess();
    step({});
    clock.stepWall(-3_600_000);
    step({});
    const { times } = history.report();
    expect(times[1]).toBeGreaterThan(times[0]!);
  });

  test("a counter that begins anew, as one of an upstream that comes back, counts from 0", () => {
    const { history, step } = oneProcess();
    for (const calls of [5, 6, 2, 4]) step({ counts: { "calls:amulet": calls }, loopDelay: calls });
    expect(history.report().lines).toMatchObject({ "calls:amulet": [5, 1, 2, 2], loopDelayMs: [5, 6, 2, 4] });
  });

  test("estimates quantiles as Prometheus does", () => {
    const { history, step } = oneProcess();
    const before = inBucket([0.001, 90], [2.5, 10]);
    const after = inBucket([0.001, 90], [2.5, 10], [undefined, 1]);
    step({ counts: { "calls:amulet": 100 }, durations: { ":amulet": before } });
    step({ counts: { "calls:amulet": 101 }, durations: { ":amulet": after } });
    const { lines } = history.report();
    expect(lines["p50Ms:amulet"]![0]).toBe(0.778);
    // The second is beyond all bounds: the last one.
    expect(lines["p99Ms:amulet"]).toEqual([2_350, BOUNDS.at(-1)! * 1_000]);
  });
});

describe("of many upstreams", () => {
  const called = (count: number, calls: number) =>
    Object.fromEntries(Array.from({ length: count }, (_, n) => [`calls:u${n}`, calls]));

  test("fifty have lines, those that are called first, and an hour of them is less than a megabyte of JSON", () => {
    const { history, step } = oneProcess();
    for (let i = 1; i <= 720; i++) {
      const failed = Object.fromEntries(Array.from({ length: 60 }, (_, n) => [`failed:u${n}`, i]));
      const durations = Object.fromEntries(
        Array.from({ length: 60 }, (_, n) => [`:u${n}`, inBucket([0.1, i * 97 + n])]),
      );
      step({ counts: { ...called(60, i * 97), ...failed }, durations });
    }
    const { times, lines } = history.report();
    expect(Object.keys(lines).filter((name) => /^(calls|failed|p50Ms|p99Ms):/.test(name))).toHaveLength(200);
    expect(lines["calls:u0"]).toHaveLength(720);
    expect(lines["calls:u55"]).toBeUndefined();
    expect(JSON.stringify(history.report()).length).toBeLessThan(1_000_000);
    expect(JSON.stringify(history.report(times.at(-2))).length).toBeLessThan(8_000);
  });

  test("one that was not called for an hour gives its place to another", () => {
    const { history, step } = oneProcess();
    step({ counts: { "calls:gone": 1, "failed:gone": 0, ...called(49, 1) } });
    const later = { "calls:gone": 1, "failed:gone": 0 };
    for (let i = 2; i <= 720; i++) step({ counts: { ...later, ...called(49, i), "calls:late": i } });
    expect(history.report().lines["calls:gone"]).toBeDefined();
    expect(history.report().lines["failed:gone"]).toHaveLength(720);
    expect(history.report().lines["calls:late"]).toBeUndefined();
    step({ counts: { ...later, ...called(49, 721), "calls:late": 721 } });
    expect(history.report().lines["calls:gone"]).toBeUndefined();
    expect(history.report().lines["failed:gone"]).toBeUndefined();
    expect(history.report().lines["calls:late"]!.at(-1)).toBe(1);
  });
});

test("what is taken is what the metrics say", async () => {
  const { metrics } = createMetrics();
  metrics.requestDuration.labels({ operation: "instruments", outcome: "hit" }).observe(0.0001);
  metrics.requestDuration.labels({ operation: "instruments", outcome: "miss" }).observe(0.2);
  metrics.requestDuration.labels({ operation: "info", outcome: "hit" }).observe(0.0001);
  metrics.requestDuration.labels({ operation: "none", outcome: "refused" }).observe(0.0001);
  metrics.errors.inc({ code: "no_such_path" }, 2);
  metrics.upstreamAttempts.inc({ upstream: "amulet", outcome: "success" });
  metrics.upstreamAttempts.inc({ upstream: "amulet", outcome: "failure" });
  metrics.upstreamDuration.labels({ upstream: "amulet", kind: "metadata" }).observe(0.2);
  metrics.upstreamDuration.labels({ upstream: "amulet", kind: "other" }).observe(0.2);
  const sample = await sampleOf(metrics, { residentBytes: 1, cacheBytes: 2, loopDelay: 3 });
  expect(sample).toMatchObject({ served: 2, missed: 1, residentBytes: 1, cacheBytes: 2, loopDelay: 3 });
  expect(Object.fromEntries(sample.counts)).toMatchObject({
    "requests:hit": 2,
    "requests:miss": 1,
    "requests:refused": 1,
    "requests:stale": 0,
    "errors:no_such_path": 2,
    callsSpared: 2,
    "calls:amulet": 2,
    "failed:amulet": 1,
  });
  expect(sample.durations.get(":amulet")).toEqual(inBucket([0.25, 2]));
  expect(sample.durations.get("")!.reduce((sum, count) => sum + count, 0)).toBe(4);
});

test("a gateway tells its last hour, and takes no other parameter than since", async () => {
  const clock = new ManualClock();
  const registry = await startRegistry();
  const gateway = await startGateway({ upstreams: [{ name: "amulet", admin: DSO, urls: [registry.url] }] }, { clock });
  onTestFinished(() => gateway.stop());
  const info = `${gateway.url}/registry/metadata/v1/info`;
  for (let i = 0; i < 3; i++) await (await fetch(info)).arrayBuffer();
  await (await fetch(`${gateway.registrar("nobody")}/registry/metadata/v1/info`)).arrayBuffer();
  const historyOf = async (query = "") =>
    (await (await fetch(`${gateway.operations}/history${query}`)).json()) as HistoryReport;
  expect((await historyOf()).times).toEqual([]);
  clock.advance(STEP);
  await expect.poll(async () => (await historyOf()).times.length).toBe(1);
  const report = await historyOf();
  expect(report.lines).toMatchObject({
    "requests:hit": [2],
    "requests:miss": [1],
    "requests:refused": [1],
    "errors:admin_unknown": [1],
    callsSpared: [2],
    hitRatio: [0.667],
    "calls:amulet": [1],
  });
  expect((await historyOf(`?since=${report.times[0]}`)).times).toEqual([]);
  for (const query of [
    "?since=x",
    "?since=-1",
    "?since=1&since=2",
    "?since=",
    "?x=1",
    "?since=1e3",
    `?since=${"9".repeat(16)}`,
  ]) {
    expect([query, (await fetch(`${gateway.operations}/history${query}`)).status]).toEqual([query, 400]);
  }
});
