import type { CacheOutcome } from "../cache/resource.ts";
import type { CancelTimer, Clock, Duration } from "../clock.ts";
import {
  BusiestUpstreams,
  type Counts,
  counts,
  MAX_STEPS,
  type Measures,
  measures,
  presented,
  type Quantiles,
  type UpstreamHistory,
} from "./history-lines.ts";
import { type HistorySample, quantile, sampleSince, sumOf } from "./history-sample.ts";
import { OUTCOME } from "./metrics/labels.ts";
import { METRICS } from "./metrics/table.ts";

/** What `GET /history` answers: the last hour in steps, the oldest first, one list for each line that is drawn. */
export interface HistoryReport {
  readonly stepSeconds: number;
  /** How many steps are kept at most. */
  readonly maxSteps: number;
  /** False: only what came after `since`. True: all there is, instead of what the reader has. */
  readonly complete: boolean;
  /** When each step ended, in milliseconds since the Unix epoch; growing. */
  readonly times: readonly number[];
  /** By outcome; `refused`: answered with an error of the gateway's own. */
  readonly requests: Readonly<Record<string, Counts>>;
  /** By code; only those that there were. */
  readonly errors: Readonly<Record<string, Counts>>;
  /** From a request's head to the answer's last byte. */
  readonly latencyMs: Quantiles;
  /** The share of answers of cached endpoints that needed no call of their own, from 0 to 1. */
  readonly hitRatio: Measures;
  /** Answers of cached endpoints that needed none. */
  readonly callsSpared: Counts;
  /** The busiest fifty, the busiest first, and the others together last. */
  readonly upstreams: readonly UpstreamHistory[];
  readonly residentBytes: Measures;
  readonly cacheBytes: Measures;
  /** The 99th percentile. */
  readonly eventLoopDelayMs: Measures;
}

const STEP: Duration = 5_000;
const LATENCY = METRICS.requestDuration.buckets;
/**
 * The last hour of this gateway, in memory that is bounded: a number for each step and line. What was counted comes as a
 * sample every five seconds; between them nothing is done.
 */
export class History {
  private readonly clock: Clock;
  private last: HistorySample | undefined;
  private readonly times = new Float64Array(MAX_STEPS);
  private readonly requests = new Map<string, Uint32Array>(OUTCOME.map((outcome) => [outcome, counts()]));
  private readonly errors = new Map<string, Uint32Array>();
  private readonly upstreams = new BusiestUpstreams();
  private readonly p50 = measures();
  private readonly p99 = measures();
  private readonly hitRatio = measures();
  private readonly spared = counts();
  private readonly resident = new Float64Array(MAX_STEPS);
  private readonly cache = new Float64Array(MAX_STEPS);
  private readonly loopDelay = measures();
  /** Steps so far. */
  private count = 0;
  /** The step at which the lines last became others. */
  private changedAt = 0;
  private cancelTimer: CancelTimer | undefined;

  constructor(clock: Clock) {
    this.clock = clock;
  }

  /** Takes a step every five seconds of what `read` gives. */
  keep(read: () => HistorySample): void {
    let due = this.clock.now();
    const wait = (): void => {
      const now = this.clock.now();
      due = Math.max(due + STEP, now);
      this.cancelTimer = this.clock.after(due - now, () => {
        this.step(read());
        wait();
      });
    };
    wait();
  }

  stop(): void {
    this.cancelTimer?.();
  }

  /** Notes what came since the step before. */
  step(sample: HistorySample): void {
    const since = sampleSince(this.last, sample);
    this.last = sample;
    const at = this.count % MAX_STEPS;
    const before = this.count === 0 ? 0 : this.times[(this.count - 1) % MAX_STEPS]!;
    // The wall clock may be set back; a step is always after the one before.
    this.times[at] = Math.max(Math.floor(this.clock.wallNow()), before + 1);
    this.count += 1;
    this.noteRequests(at, since);
    this.noteErrors(at, since);
    if (this.upstreams.note(at, since.upstreams)) this.changedAt = this.count;
    this.resident[at] = since.residentBytes ?? Number.NaN;
    this.cache[at] = since.cacheBytes;
    this.loopDelay[at] = since.loopDelay;
  }

  /**
   * What is kept; with `since`, the time of a step that the reader has, only what came after it, as long as the lines
   * are the same.
   */
  report(since?: number): HistoryReport {
    const oldest = Math.max(0, this.count - MAX_STEPS);
    const timeOf = (step: number) => this.times[step % MAX_STEPS]!;
    const kept = Array.from({ length: this.count - oldest }, (_, i) => timeOf(oldest + i));
    const known = since === undefined ? -1 : kept.lastIndexOf(since);
    const isKnown = known !== -1 && this.changedAt <= oldest + known + 1;
    const first = isKnown ? oldest + known + 1 : oldest;
    const steps = Array.from({ length: this.count - first }, (_, i) => (first + i) % MAX_STEPS);
    const countsIn = (line: Uint32Array) => steps.map((at) => line[at]!);
    const measuresIn = (line: Float32Array | Float64Array) => presented(line, steps);
    const byName = (lines: ReadonlyMap<string, Uint32Array>) =>
      Object.fromEntries([...lines].map(([name, line]) => [name, countsIn(line)]));
    return {
      stepSeconds: STEP / 1_000,
      maxSteps: MAX_STEPS,
      complete: !isKnown,
      times: steps.map((at) => this.times[at]!),
      requests: byName(this.requests),
      errors: byName(this.errors),
      latencyMs: { p50: measuresIn(this.p50), p99: measuresIn(this.p99) },
      hitRatio: measuresIn(this.hitRatio),
      callsSpared: countsIn(this.spared),
      upstreams: this.upstreams.report(steps),
      residentBytes: measuresIn(this.resident),
      cacheBytes: measuresIn(this.cache),
      eventLoopDelayMs: measuresIn(this.loopDelay),
    };
  }

  private noteRequests(at: number, { requests, cached }: HistorySample): void {
    let all: readonly number[] = [];
    for (const [outcome, line] of this.requests) {
      const buckets = requests.get(outcome) ?? [];
      line[at] = buckets.reduce((sum, count) => sum + count, 0);
      all = sumOf(all, buckets);
    }
    this.p50[at] = quantile(0.5, all, LATENCY) * 1_000;
    this.p99[at] = quantile(0.99, all, LATENCY) * 1_000;
    const answers = (outcome: CacheOutcome) => cached.get(outcome) ?? 0;
    const spared = answers("hit") + answers("stale");
    const served = spared + answers("revalidated");
    // 0 of 0 is NaN: there was nothing to measure.
    this.hitRatio[at] = served / (served + answers("miss"));
    this.spared[at] = spared;
  }

  private noteErrors(at: number, { errors }: HistorySample): void {
    for (const line of this.errors.values()) line[at] = 0;
    for (const [code, count] of errors) {
      if (count === 0) continue;
      let line = this.errors.get(code);
      if (line === undefined) {
        line = counts();
        this.errors.set(code, line);
        this.changedAt = this.count;
      }
      line[at]! += count;
    }
  }
}
