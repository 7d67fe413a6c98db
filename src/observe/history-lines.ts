import { quantile, sumOf, type UpstreamSample } from "./history-sample.ts";
import { METRICS } from "./metrics/table.ts";

/** As many as are kept. */
export const MAX_STEPS = 720;

/** Counts in each step, as long as {@link HistoryReport.times}: since the step before. */
export type Counts = readonly number[];

/** Something that is measured in each step; null where there was nothing to measure. */
export type Measures = readonly (number | null)[];

/** How long things took, in milliseconds, as histograms tell it. */
export interface Quantiles {
  readonly p50: Measures;
  readonly p99: Measures;
}

/** What was asked of one upstream: every attempt, retries and hedges included. */
export interface UpstreamHistory {
  /** Null: all together that are not among the busiest. */
  readonly upstream: string | null;
  readonly calls: Counts;
  /** Those without a usable answer. */
  readonly failed: Counts;
  readonly latencyMs: Quantiles;
}

/** A line of measures; NaN: there was nothing to measure. */
export const measures = (): Float32Array => new Float32Array(MAX_STEPS).fill(Number.NaN);
export const counts = (): Uint32Array => new Uint32Array(MAX_STEPS);

/** Of these steps. Three digits after the point are finer than any measurement here. */
export function presented(line: Float32Array | Float64Array, steps: readonly number[]): Measures {
  return steps.map((at) => {
    const value = line[at]!;
    return Number.isNaN(value) ? null : Math.round(value * 1_000) / 1_000;
  });
}

/** Upstreams with lines of their own. */
const MAX_UPSTREAMS = 50;

/** An upstream without a line gets that of another one once it is so much busier: lines do not change hands all the time. */
const BUSIER = 1.5;

const UPSTREAM_LATENCY = METRICS.upstreamDuration.buckets;

/** The lines of one upstream, or of all the others together. */
interface UpstreamLines {
  readonly calls: Uint32Array;
  readonly failed: Uint32Array;
  readonly p50: Float32Array;
  readonly p99: Float32Array;
  /** Calls in the steps that are kept. */
  total: number;
  /** How busy it was of late, in calls that fade. */
  score: number;
}

/** What was asked of the busiest upstreams, each by itself, and of all others together: no call is in two of them. */
export class BusiestUpstreams {
  private readonly busiest = new Map<string, UpstreamLines>();
  private readonly others = createLines();
  /** The score of each upstream without lines. */
  private readonly waiting = new Map<string, number>();
  private isChanged = false;

  /** Notes the step at this place. Says whether other upstreams have lines since. */
  note(at: number, all: ReadonlyMap<string, UpstreamSample>): boolean {
    this.isChanged = false;
    for (const [name, lines] of this.busiest) {
      note(lines, at, all.get(name) ?? NO_CALLS);
      // Configured no more, and an hour ago.
      if (lines.total === 0 && !all.has(name)) this.drop(name);
    }
    let others = NO_CALLS;
    for (const [name, sample] of all) {
      if (this.busiest.has(name)) continue;
      if (sample.calls > 0 && this.busiest.size < MAX_UPSTREAMS) note(this.create(name), at, sample);
      else {
        others = sumOfUpstreams(others, sample);
        this.waiting.set(name, fading(this.waiting.get(name) ?? 0) + sample.calls);
      }
    }
    for (const name of this.waiting.keys()) if (!all.has(name)) this.waiting.delete(name);
    note(this.others, at, others);
    this.promote();
    return this.isChanged;
  }

  /** The busiest first, the others last. */
  report(steps: readonly number[]): readonly UpstreamHistory[] {
    const present = (upstream: string | null, { calls, failed, p50, p99 }: UpstreamLines): UpstreamHistory => ({
      upstream,
      calls: steps.map((at) => calls[at]!),
      failed: steps.map((at) => failed[at]!),
      latencyMs: { p50: presented(p50, steps), p99: presented(p99, steps) },
    });
    const sorted = [...this.busiest].toSorted(([, one], [, other]) => other.score - one.score);
    return [...sorted.map(([name, lines]) => present(name, lines)), present(null, this.others)];
  }

  /** Gives the busiest upstream without lines those of the quietest one, whose calls count with the others' from then on. */
  private promote(): void {
    if (this.busiest.size < MAX_UPSTREAMS || this.waiting.size === 0) return;
    const [busy, score] = [...this.waiting].reduce((one, other) => (other[1] > one[1] ? other : one));
    const [quiet, lines] = [...this.busiest].reduce((one, other) => (other[1].score < one[1].score ? other : one));
    if (score <= lines.score * BUSIER) return;
    for (let at = 0; at < MAX_STEPS; at++) {
      this.others.calls[at]! += lines.calls[at]!;
      this.others.failed[at]! += lines.failed[at]!;
    }
    this.others.total += lines.total;
    this.drop(quiet);
    this.create(busy).score = score;
    this.waiting.set(quiet, lines.score);
  }

  private create(name: string): UpstreamLines {
    const lines = createLines();
    this.busiest.set(name, lines);
    this.waiting.delete(name);
    this.isChanged = true;
    return lines;
  }

  private drop(name: string): void {
    this.busiest.delete(name);
    this.isChanged = true;
  }
}

const NO_CALLS: UpstreamSample = { calls: 0, failed: 0, durations: [] };

function createLines(): UpstreamLines {
  return { calls: counts(), failed: counts(), p50: measures(), p99: measures(), total: 0, score: 0 };
}

function note(lines: UpstreamLines, at: number, { calls, failed, durations }: UpstreamSample): void {
  lines.total += calls - lines.calls[at]!;
  lines.score = fading(lines.score) + calls;
  lines.calls[at] = calls;
  lines.failed[at] = failed;
  lines.p50[at] = quantile(0.5, durations, UPSTREAM_LATENCY) * 1_000;
  lines.p99[at] = quantile(0.99, durations, UPSTREAM_LATENCY) * 1_000;
}

function sumOfUpstreams(one: UpstreamSample, other: UpstreamSample): UpstreamSample {
  return {
    calls: one.calls + other.calls,
    failed: one.failed + other.failed,
    durations: sumOf(one.durations, other.durations),
  };
}

/** What is counted fades within an hour, as the lines do. */
function fading(score: number): number {
  return score * (1 - 1 / MAX_STEPS);
}
