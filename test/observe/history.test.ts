import { describe, expect, onTestFinished, test } from "vitest";
import { History, type HistoryReport } from "../../src/observe/history.ts";
import { type HistorySample, sampleOf, type UpstreamSample } from "../../src/observe/history-sample.ts";
import { createMetrics } from "../../src/observe/metrics.ts";
import { METRICS } from "../../src/observe/metrics/table.ts";
import { startGateway } from "../support/gateway.ts";
import { ManualClock } from "../support/manual-clock.ts";
import { useSampleRegistries } from "../support/sample-registries.ts";
import { DSO } from "../support/sample.ts";

const startRegistry = useSampleRegistries();

const STEP = 5_000;
const BUCKETS = METRICS.upstreamDuration.buckets.length + 1;

const EMPTY: HistorySample = {
  requests: new Map(),
  cached: new Map(),
  errors: new Map(),
  upstreams: new Map(),
  residentBytes: undefined,
  cacheBytes: 0,
  loopDelay: 0,
};

/** So many calls, all as fast as the bucket says. */
function called(calls: number, bucket = 0): UpstreamSample {
  return { calls, failed: 0, durations: Array.from({ length: BUCKETS }, (_, i) => (i === bucket ? calls : 0)) };
}

/** One process whose counters a test sets before each step. */
function oneProcess() {
  const clock = new ManualClock();
  const history = new History(clock);
  return {
    clock,
    history,
    step: (sample: Partial<HistorySample>): void => {
      clock.advance(STEP);
      history.step({ ...EMPTY, ...sample });
    },
  };
}

function linesOf(report: HistoryReport, upstream: string | null) {
  return report.upstreams.find((each) => each.upstream === upstream);
}

const sum = (values: readonly number[]) => values.reduce((total, value) => total + value, 0);

describe("the history", () => {
  test("has what came between two steps, of counters that only rise", () => {
    const { clock, history, step } = oneProcess();
    const begun = clock.wallNow();
    step({ errors: new Map([["upstream_timeout", 3]]), upstreams: new Map([["amulet", called(10)]]) });
    step({ errors: new Map([["upstream_timeout", 3]]), upstreams: new Map([["amulet", called(14)]]) });
    const report = history.report();
    expect(report).toMatchObject({ stepSeconds: 5, maxSteps: 720, complete: true });
    expect(report.times).toEqual([begun + STEP, begun + 2 * STEP]);
    expect(report.errors).toEqual({ upstream_timeout: [3, 0] });
    expect(linesOf(report, "amulet")!.calls).toEqual([10, 4]);
    expect(report.requests).toEqual({
      hit: [0, 0],
      stale: [0, 0],
      revalidated: [0, 0],
      miss: [0, 0],
      bypass: [0, 0],
      refused: [0, 0],
    });
    expect([report.hitRatio, report.latencyMs.p99, report.residentBytes]).toEqual([
      [null, null],
      [null, null],
      [null, null],
    ]);
  });

  test("keeps an hour", () => {
    const { clock, history, step } = oneProcess();
    for (let i = 1; i <= 1_000; i++) step({ upstreams: new Map([["amulet", called(i * i)]]) });
    const report = history.report();
    expect(report.times).toHaveLength(720);
    expect(report.times.at(-1)).toBe(clock.wallNow());
    expect(report.times[0]).toBe(clock.wallNow() - 719 * STEP);
    // The steps from 281 to 1000; the difference of two squares.
    expect(linesOf(report, "amulet")!.calls).toEqual(Array.from({ length: 720 }, (_, i) => 2 * (281 + i) - 1));
  });

  test("tells a reader that has a part of it only what came after", () => {
    const { history, step } = oneProcess();
    const upstreams = (calls: number) => ({ upstreams: new Map([["amulet", called(calls)]]) });
    step(upstreams(1));
    step(upstreams(3));
    const first = history.report();
    expect(history.report(first.times.at(-1))).toMatchObject({ complete: false, times: [] });
    step(upstreams(6));
    const second = history.report(first.times.at(-1));
    expect([second.complete, second.times.length, linesOf(second, "amulet")!.calls]).toEqual([false, 1, [3]]);
    expect(history.report(first.times[0]).times).toHaveLength(2);
    // A line that was not there before: what the reader has would not fit.
    step({ ...upstreams(6), errors: new Map([["client_gone", 1]]) });
    const third = history.report(second.times.at(-1));
    expect([third.complete, third.errors["client_gone"]]).toEqual([true, [0, 0, 0, 1]]);
    expect(history.report(third.times.at(-1)).complete).toBe(false);
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
    for (const calls of [5, 6, 2, 4]) step({ upstreams: new Map([["amulet", called(calls)]]), loopDelay: calls });
    expect(linesOf(history.report(), "amulet")!.calls).toEqual([5, 1, 2, 2]);
    expect(history.report().eventLoopDelayMs).toEqual([5, 6, 2, 4]);
  });

  test("estimates quantiles as Prometheus does", () => {
    const { history, step } = oneProcess();
    // 90 within (0.5 ms, 1 ms], 10 within (1 s, 2.5 s].
    const buckets = METRICS.upstreamDuration.buckets;
    const durations = Array.from({ length: BUCKETS }, (_, i) =>
      buckets[i] === 0.001 ? 90 : buckets[i] === 2.5 ? 10 : 0,
    );
    step({ upstreams: new Map([["amulet", { calls: 100, failed: 10, durations }]]) });
    const { latencyMs, failed } = linesOf(history.report(), "amulet")!;
    expect([latencyMs.p50[0], latencyMs.p99[0], failed]).toEqual([0.778, 2_350, [10]]);
    step({
      upstreams: new Map([
        ["amulet", { calls: 101, failed: 10, durations: durations.map((n, i) => (i === BUCKETS - 1 ? 1 : n)) }],
      ]),
    });
    // Beyond all bounds: the last one.
    expect(linesOf(history.report(), "amulet")!.latencyMs.p99[1]).toBe(buckets.at(-1)! * 1_000);
  });
});

describe("of many upstreams", () => {
  test("fifty have lines, and all others one together: no call is lost or told twice", () => {
    const { history, step } = oneProcess();
    const totals = new Map<string, number>();
    for (let i = 0; i < 100; i++) {
      for (let n = 0; n < 300; n++) {
        const name = `u${n}`;
        // Who is busy moves on.
        const busy = Math.abs(n - i) < 30 ? 40 : n === 299 && i > 90 ? 1_000 : n % 7 === 0 ? 1 : 0;
        totals.set(name, (totals.get(name) ?? 0) + busy);
      }
      step({ upstreams: new Map([...totals].map(([name, calls]) => [name, called(calls)])) });
    }
    const report = history.report();
    expect(report.upstreams).toHaveLength(51);
    expect(report.upstreams.at(-1)!.upstream).toBeNull();
    expect(sum(report.upstreams.flatMap(({ calls }) => calls))).toBe(sum([...totals.values()]));
    expect(report.upstreams[0]!.upstream).toBe("u299");
  });

  test("an hour of them is less than a megabyte of JSON", () => {
    const { history, step } = oneProcess();
    for (let i = 1; i <= 720; i++) {
      const upstreams = new Map(Array.from({ length: 60 }, (_, n) => [`u${n}`, called(i * 97 + n * i, n % BUCKETS)]));
      const requests = new Map([["hit", called(i * 1_000).durations]]);
      step({ upstreams, requests, residentBytes: 250_123_456 + i, cacheBytes: 60_123_456 + i, loopDelay: 1.23 });
    }
    const bytes = JSON.stringify(history.report()).length;
    expect(bytes).toBeGreaterThan(300_000);
    expect(bytes).toBeLessThan(1_000_000);
    expect(JSON.stringify(history.report(history.report().times.at(-2))).length).toBeLessThan(6_000);
  });

  test("lines do not change hands among upstreams that are alike", () => {
    const { history, step } = oneProcess();
    const all = (i: number) => new Map(Array.from({ length: 60 }, (_, n) => [`u${n}`, called(i * 10 + (n % 3))]));
    for (let i = 1; i <= 20; i++) step({ upstreams: all(i) });
    const names = history.report().upstreams.map(({ upstream }) => upstream);
    const { times } = history.report();
    for (let i = 21; i <= 200; i++) step({ upstreams: all(i) });
    expect(new Set(history.report().upstreams.map(({ upstream }) => upstream))).toEqual(new Set(names));
    expect(history.report(times.at(-1)).complete).toBe(false);
  });

  test("one that is configured no more goes an hour after its last call", () => {
    const { history, step } = oneProcess();
    step({ upstreams: new Map([["gone", called(1)]]) });
    for (let i = 0; i < 719; i++) step({});
    expect(linesOf(history.report(), "gone")).toBeDefined();
    step({});
    expect(linesOf(history.report(), "gone")).toBeUndefined();
  });
});

test("what is taken is what the metrics say", async () => {
  const { metrics } = createMetrics();
  metrics.requestDuration.observe({ operation: "instruments", outcome: "hit" }, 0.0001);
  metrics.requestDuration.observe({ operation: "instruments", outcome: "miss" }, 0.2);
  metrics.requestDuration.observe({ operation: "info", outcome: "hit" }, 0.0001);
  metrics.requestDuration.observe({ operation: "none", outcome: "refused" }, 0.0001);
  metrics.errors.tally({ code: "no_such_path" }).add(2);
  metrics.upstreamAttempts.inc({ upstream: "amulet", outcome: "success" });
  metrics.upstreamAttempts.inc({ upstream: "amulet", outcome: "failure" });
  metrics.upstreamDuration.observe({ upstream: "amulet", kind: "metadata" }, 0.2);
  metrics.upstreamDuration.observe({ upstream: "amulet", kind: "other" }, 0.2);
  const sample = sampleOf(metrics, { residentBytes: 1, cacheBytes: 2, loopDelay: 3 });
  expect(sample).toMatchObject({ residentBytes: 1, cacheBytes: 2, loopDelay: 3 });
  expect(Object.fromEntries(sample.cached)).toEqual({ hit: 2, miss: 1 });
  expect(sum(sample.requests.get("refused")!)).toBe(1);
  expect(Object.fromEntries(sample.errors)).toEqual({ no_such_path: 2 });
  const { calls, failed, durations } = sample.upstreams.get("amulet")!;
  expect([calls, failed, sum(durations)]).toEqual([2, 1, 2]);
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
  expect(report.requests).toMatchObject({ hit: [2], miss: [1], refused: [1] });
  expect(report.errors).toEqual({ admin_unknown: [1] });
  expect([report.callsSpared, report.hitRatio]).toEqual([[2], [0.667]]);
  expect(linesOf(report, "amulet")!.calls).toEqual([1]);
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
