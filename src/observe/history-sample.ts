import type { Duration } from "../clock.ts";
import { isCached } from "../spec/operations.ts";
import type { Metrics } from "./metrics.ts";
import { histogramSeries } from "./metrics/histogram-series.ts";
import { OUTCOME } from "./metrics/labels.ts";

/** What the process has counted since it began, and how it is now: as much of its metrics as the history keeps. */
export interface HistorySample {
  /** By the name of their line; those of a registry after its calls. */
  readonly counts: ReadonlyMap<string, number>;
  /** Answers of cached endpoints that needed no body of a registry, and those that did. */
  readonly served: number;
  readonly missed: number;
  /** By bucket, not added up: of requests (""), of the calls of a registry (`:<alias>`). */
  readonly durations: ReadonlyMap<string, readonly number[]>;
  /** Undefined where it is not measured. */
  readonly residentBytes: number | undefined;
  readonly cacheBytes: number;
  readonly loopDelay: Duration;
}

/** What a sample has besides counters. */
type Gauges = Pick<HistorySample, "residentBytes" | "cacheBytes" | "loopDelay">;

/** What the metrics say now. It costs a few additions for each series, and nothing for a request. */
export async function sampleOf(metrics: Metrics, gauges: Gauges): Promise<HistorySample> {
  const counts = new Map<string, number>(OUTCOME.map((outcome) => [`requests:${outcome}`, 0]));
  const durations = new Map<string, readonly number[]>();
  const add = (name: string, amount: number) => counts.set(name, (counts.get(name) ?? 0) + amount);
  const cached = { hit: 0, stale: 0, revalidated: 0, miss: 0, bypass: 0, refused: 0 };
  for (const { labels, counts: buckets, count } of histogramSeries(await metrics.requestDuration.get())) {
    add(`requests:${labels.outcome}`, count);
    durations.set("", sumOf(durations.get(""), buckets));
    if (isCached(labels.operation)) cached[labels.outcome] += count;
  }
  for (const { labels, value } of (await metrics.errors.get()).values) add(`errors:${labels.code}`, value);
  add("callsSpared", cached.hit + cached.stale);
  for (const { labels, value } of (await metrics.upstreamAttempts.get()).values) {
    add(`calls:${labels.upstream}`, value);
    add(`failed:${labels.upstream}`, labels.outcome === "failure" ? value : 0);
  }
  for (const { labels, counts: buckets } of histogramSeries(await metrics.upstreamDuration.get())) {
    const of = `:${labels.upstream}`;
    durations.set(of, sumOf(durations.get(of), buckets));
  }
  const served = cached.hit + cached.stale + cached.revalidated;
  return { counts, served, missed: cached.miss, durations, ...gauges };
}

/** Bucket by bucket. */
function sumOf(one: readonly number[] | undefined, other: readonly number[]): readonly number[] {
  return one === undefined ? other : one.map((count, bucket) => count + other[bucket]!);
}

/** As Prometheus estimates it of the same histogram: evenly within a bucket. NaN of nothing. */
export function quantile(share: number, buckets: readonly number[], bounds: readonly number[]): number {
  const total = buckets.reduce((sum, count) => sum + count, 0);
  if (total === 0) return Number.NaN;
  let left = share * total;
  for (const [bucket, count] of buckets.entries()) {
    const upper = bounds[bucket];
    if (upper === undefined) break;
    const lower = bounds[bucket - 1] ?? 0;
    if (left <= count) return lower + (upper - lower) * (count === 0 ? 0 : left / count);
    left -= count;
  }
  return bounds.at(-1)!;
}
