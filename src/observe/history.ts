import type { CancelTimer, Clock, Duration } from "../clock.ts";
import { type HistorySample, quantile } from "./history-sample.ts";
import { METRICS } from "./metrics/table.ts";

/** A line of what `GET /history` answers: null where there was nothing to measure. */
export type HistoryLine = readonly (number | null)[];

/** What `GET /history` answers: the last hour in steps, the oldest first. */
export interface HistoryReport {
  readonly stepSeconds: number;
  /** How many steps are kept at most. */
  readonly maxSteps: number;
  /** False: only what came after `since`. True: all there is, instead of what the reader has. */
  readonly complete: boolean;
  /** When each step ended, in milliseconds since the Unix epoch; growing. */
  readonly times: readonly number[];
  /**
   * By name, each as long as `times`. Counts since the step before: `requests:<outcome>`, `errors:<code>`, `callsSpared`,
   * `calls`, `failedCalls`, and of a registry `calls:<alias>`, `failed:<alias>`. What was measured: `p50Ms`, `p99Ms` of
   * requests, `p50Ms:<alias>`, `p99Ms:<alias>` of calls, `hitRatio` from 0 to 1, `residentBytes`, `cacheBytes`,
   * `loopDelayMs`.
   */
  readonly lines: Readonly<Record<string, HistoryLine>>;
}

const STEP: Duration = 5_000;
const MAX_STEPS = 720;

/** As many registries have lines of their own; the totals are of all of them. */
const MAX_UPSTREAMS = 50;

/** What a registry has besides its calls. */
const OF_CALLS = ["failed", "p50Ms", "p99Ms"];

/** A ring of what was sampled. */
interface Line {
  readonly values: Float64Array;
  /** The step that last had something else than 0 here. */
  usedAt: number;
}

/**
 * The last hour of what the console draws, in memory that is bounded: a number for each step and line. A sample comes
 * every five seconds; between them nothing is done.
 */
export class History {
  private readonly clock: Clock;
  private last: HistorySample | undefined;
  private readonly times = new Float64Array(MAX_STEPS);
  private readonly lines = new Map<string, Line>();
  /** Steps so far. */
  private count = 0;
  private cancelTimer: CancelTimer | undefined;
  private isStopped = false;

  constructor(clock: Clock) {
    this.clock = clock;
  }

  /** Takes a step every five seconds of what `read` gives. */
  keep(read: () => Promise<HistorySample>): void {
    const wait = (due: number): void => {
      if (this.isStopped) return;
      const now = this.clock.now();
      this.cancelTimer = this.clock.after(Math.max(0, due - now), () => {
        void read()
          .then((sample) => this.step(sample))
          .finally(() => wait(Math.max(due + STEP, this.clock.now())));
      });
    };
    wait(this.clock.now() + STEP);
  }

  stop(): void {
    this.isStopped = true;
    this.cancelTimer?.();
  }

  /** Notes what came since the step before. */
  step(sample: HistorySample): void {
    const { last } = this;
    this.last = sample;
    const before = this.count === 0 ? 0 : this.times[(this.count - 1) % MAX_STEPS]!;
    this.count += 1;
    const at = (this.count - 1) % MAX_STEPS;
    // The wall clock may be set back; a step is always after the one before.
    this.times[at] = Math.max(Math.floor(this.clock.wallNow()), before + 1);
    this.clear(at);
    // Added up here: the sum of what was counted falls where a registry goes.
    const all = { calls: 0, failed: 0 };
    for (const [name, count] of sample.counts) {
      const risen = rise(last?.counts.get(name), count);
      this.put(name, risen);
      if (name.startsWith("calls:")) all.calls += risen;
      if (name.startsWith("failed:")) all.failed += risen;
    }
    this.put("calls", all.calls);
    this.put("failedCalls", all.failed);
    const served = rise(last?.served, sample.served);
    // 0 of 0 is NaN: there was nothing to measure.
    this.put("hitRatio", served / (served + rise(last?.missed, sample.missed)));
    for (const [of, counts] of sample.durations) {
      const risen = counts.map((count, bucket) => rise(last?.durations.get(of)?.[bucket], count));
      const { buckets } = of === "" ? METRICS.requestDuration : METRICS.upstreamDuration;
      this.put(`p50Ms${of}`, quantile(0.5, risen, buckets) * 1_000);
      this.put(`p99Ms${of}`, quantile(0.99, risen, buckets) * 1_000);
    }
    this.put("residentBytes", sample.residentBytes ?? Number.NaN);
    this.put("cacheBytes", sample.cacheBytes);
    this.put("loopDelayMs", sample.loopDelay);
  }

  /** What is kept; with `since`, the time of a step that the reader has, only what came after it. */
  report(since?: number): HistoryReport {
    const oldest = Math.max(0, this.count - MAX_STEPS);
    const timeOf = (step: number) => this.times[step % MAX_STEPS]!;
    const kept = Array.from({ length: this.count - oldest }, (_, i) => timeOf(oldest + i));
    const known = since === undefined ? -1 : kept.lastIndexOf(since);
    const first = oldest + known + 1;
    const steps = Array.from({ length: this.count - first }, (_, i) => (first + i) % MAX_STEPS);
    const shown = [...this.lines].map(([name, { values }]) => [name, steps.map((at) => presented(values[at]!))]);
    return {
      stepSeconds: STEP / 1_000,
      maxSteps: MAX_STEPS,
      complete: known === -1,
      times: steps.map((at) => this.times[at]!),
      lines: Object.fromEntries(shown) as HistoryReport["lines"],
    };
  }

  /** Makes place for a step, and forgets the errors and registries that there were none of for an hour. */
  private clear(at: number): void {
    for (const { values } of this.lines.values()) values[at] = Number.NaN;
    for (const [name, { usedAt }] of this.lines) {
      const [what, of] = name.split(":");
      if (usedAt > this.count - MAX_STEPS || (what !== "calls" && what !== "errors") || of === undefined) continue;
      this.lines.delete(name);
      if (what === "calls") for (const other of OF_CALLS) this.lines.delete(`${other}:${of}`);
    }
  }

  private put(name: string, value: number): void {
    let line = this.lines.get(name);
    if (line === undefined) {
      if (!this.mayBegin(name, value)) return;
      line = { values: new Float64Array(MAX_STEPS).fill(Number.NaN), usedAt: this.count };
      this.lines.set(name, line);
    }
    line.values[(this.count - 1) % MAX_STEPS] = value;
    if (value > 0) line.usedAt = this.count;
  }

  /** The lines of a registry begin with its first call, if there is place; there are as many others as there are names. */
  private mayBegin(name: string, value: number): boolean {
    const [what, of] = name.split(":");
    if (of === undefined || what === "requests") return true;
    if (what === "errors") return value > 0;
    if (what !== "calls") return this.lines.has(`calls:${of}`);
    const taken = [...this.lines.keys()].filter((each) => each.startsWith("calls:"));
    return value > 0 && taken.length < MAX_UPSTREAMS;
  }
}

/** A process that counts less than before has begun anew. */
function rise(before: number | undefined, now: number): number {
  return before === undefined || now < before ? now : now - before;
}

/** Three digits after the point are finer than any measurement here. */
function presented(value: number): number | null {
  return Number.isNaN(value) ? null : Math.round(value * 1_000) / 1_000;
}
