import type { Duration } from "../clock.ts";
import { isCached } from "../spec/operations.ts";
import type { Metrics } from "./metrics.ts";

/** What was asked of an upstream since the process began. */
export interface UpstreamSample {
  readonly calls: number;
  readonly failed: number;
  /** Attempts by bucket of how long they took, not added up. */
  readonly durations: readonly number[];
}

/** What the process has counted since it began, and how it is now: as much of its metrics as the history keeps. */
export interface HistorySample {
  /** By outcome: requests by bucket of how long they took, not added up. */
  readonly requests: ReadonlyMap<string, readonly number[]>;
  /** By outcome: answers of cached endpoints. */
  readonly cached: ReadonlyMap<string, number>;
  /** By code. */
  readonly errors: ReadonlyMap<string, number>;
  /** By alias. */
  readonly upstreams: ReadonlyMap<string, UpstreamSample>;
  /** Undefined where it is not measured. */
  readonly residentBytes: number | undefined;
  readonly cacheBytes: number;
  readonly loopDelay: Duration;
}

/** What a sample has besides counters. */
export type Gauges = Pick<HistorySample, "residentBytes" | "cacheBytes" | "loopDelay">;

/** What the metrics say now. It costs a few additions for each series, and nothing for a request. */
export function sampleOf(metrics: Metrics, gauges: Gauges): HistorySample {
  const requests = new Map<string, readonly number[]>();
  const cached = new Map<string, number>();
  for (const { labels, tally } of metrics.requestDuration.all()) {
    const { operation, outcome } = labels;
    requests.set(outcome, sumOf(requests.get(outcome), tally.counts));
    if (!isCached(operation)) continue;
    const count = tally.counts.reduce((sum, each) => sum + each, 0);
    cached.set(outcome, (cached.get(outcome) ?? 0) + count);
  }
  const upstreams = new Map<string, { calls: number; failed: number; durations: readonly number[] }>();
  for (const { labels, tally } of metrics.upstreamAttempts.all()) {
    const known = upstreams.get(labels.upstream) ?? { calls: 0, failed: 0, durations: [] };
    known.calls += tally.amount;
    if (labels.outcome === "failure") known.failed += tally.amount;
    upstreams.set(labels.upstream, known);
  }
  for (const { labels, tally } of metrics.upstreamDuration.all()) {
    const known = upstreams.get(labels.upstream);
    if (known !== undefined) known.durations = sumOf(known.durations, tally.counts);
  }
  const errors = new Map<string, number>();
  for (const { labels, tally } of metrics.errors.all()) if (tally.amount > 0) errors.set(labels.code, tally.amount);
  return { requests, cached, errors, upstreams, ...gauges };
}

/** Bucket by bucket; one that is empty has none of them yet. */
export function sumOf(one: readonly number[] | undefined, other: readonly number[]): readonly number[] {
  if (one === undefined || one.length === 0) return [...other];
  return other.length === 0 ? one : one.map((count, bucket) => count + (other[bucket] ?? 0));
}

/** What came after `before`. A process that counts less than before has begun anew. */
export function sampleSince(before: HistorySample | undefined, now: HistorySample): HistorySample {
  if (before === undefined) return now;
  return {
    ...now,
    requests: mapped(now.requests, (counts, outcome) => risen(before.requests.get(outcome), counts)),
    cached: mapped(now.cached, (count, outcome) => rise(before.cached.get(outcome), count)),
    errors: mapped(now.errors, (count, code) => rise(before.errors.get(code), count)),
    upstreams: mapped(now.upstreams, ({ calls, failed, durations }, name) => {
      const earlier = before.upstreams.get(name);
      return {
        calls: rise(earlier?.calls, calls),
        failed: rise(earlier?.failed, failed),
        durations: risen(earlier?.durations, durations),
      };
    }),
  };
}

function mapped<Value>(
  map: ReadonlyMap<string, Value>,
  change: (value: Value, key: string) => Value,
): Map<string, Value> {
  return new Map([...map].map(([key, value]) => [key, change(value, key)]));
}

function rise(before: number | undefined, now: number): number {
  return before === undefined || now < before ? now : now - before;
}

function risen(before: readonly number[] | undefined, now: readonly number[]): readonly number[] {
  return now.map((count, bucket) => rise(before?.[bucket], count));
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
