import type { CancelTimer, Clock, Duration, Instant } from "../../clock.ts";
import type { Metrics } from "../../observe/metrics.ts";

const STEP: Duration = 30_000;

/** As long as the windows of most alerts. */
const MOST_STEPS = 20;

interface Sample {
  readonly at: Instant;
  readonly counts: ReadonlyMap<string, number>;
}

/** How much of what the conditions look at was counted in the last ten minutes, or since the start. */
export class RecentCounts {
  private readonly metrics: Metrics;
  private readonly clock: Clock;
  private readonly samples: Sample[] = [];
  private cancelTimer: CancelTimer | undefined;
  private now: ReadonlyMap<string, number>;

  constructor(metrics: Metrics, clock: Clock) {
    this.metrics = metrics;
    this.clock = clock;
    this.now = countsOf(metrics);
    this.samples.push({ at: clock.now(), counts: this.now });
  }

  /** How long what {@link risen} says has been counted. */
  get period(): Duration {
    return Math.max(1_000, this.clock.now() - this.samples[0]!.at);
  }

  /** Takes a sample every thirty seconds from now on, and tells `onStep` of it. */
  start(onStep: () => void): void {
    this.cancelTimer = this.clock.after(STEP, () => {
      this.refresh();
      this.samples.push({ at: this.clock.now(), counts: this.now });
      if (this.samples.length > MOST_STEPS) this.samples.shift();
      onStep();
      this.start(onStep);
    });
  }

  stop(): void {
    this.cancelTimer?.();
  }

  /** Reads what is counted now. */
  refresh(): void {
    this.now = countsOf(this.metrics);
  }

  /** By how much a count has risen; 0 for one that there is not. */
  risen(name: string): number {
    const now = this.now.get(name) ?? 0;
    const before = this.samples[0]!.counts.get(name) ?? 0;
    // An upstream that went and came back counts anew.
    return now < before ? now : now - before;
  }
}

/** A few numbers for each upstream, added up from the metrics. */
function countsOf(metrics: Metrics): ReadonlyMap<string, number> {
  const counts = new Map<string, number>();
  const add = (name: string, amount: number) => counts.set(name, (counts.get(name) ?? 0) + amount);
  for (const { labels, tally } of metrics.requests.all()) {
    add("requests", tally.amount);
    if (labels.status === "5xx") add("requests failed", tally.amount);
  }
  for (const { labels, tally } of metrics.cacheAnswers.all()) {
    add("answers", tally.amount);
    if (labels.outcome === "stale") add("answers stale", tally.amount);
  }
  for (const { labels, tally } of metrics.upstreamCalls.all()) {
    add(`calls ${labels.kind} ${labels.upstream}`, tally.amount);
    if (labels.outcome === "failed") add(`calls ${labels.kind} failed ${labels.upstream}`, tally.amount);
  }
  for (const { labels, tally } of metrics.upstreamRefused.all()) {
    add(`refused ${labels.reason} ${labels.upstream}`, tally.amount);
  }
  for (const { labels, tally } of metrics.nodeOutOfStep.all()) add(`out-of-step ${labels.upstream}`, tally.amount);
  for (const { labels, tally } of metrics.supportedApisChanges.all()) add(`apis ${labels.upstream}`, tally.amount);
  for (const { labels, tally } of metrics.upstreamDuration.all()) {
    add(`attempts ${labels.kind} ${labels.upstream}`, sumFrom(tally.counts, 0));
    add(`slow ${labels.kind} ${labels.upstream}`, sumFrom(tally.counts, bucketAfter(tally.bounds, 2.5)));
  }
  for (const { labels, tally } of metrics.requestDuration.all()) {
    if (labels.outcome !== "hit") continue;
    add("hits", sumFrom(tally.counts, 0));
    add("hits slow", sumFrom(tally.counts, bucketAfter(tally.bounds, 0.1)));
  }
  for (const { labels, tally } of metrics.redisCommands.all()) {
    add("redis commands", tally.amount);
    if (labels.outcome === "error") add("redis refused", tally.amount);
  }
  for (const { labels, tally } of metrics.redisRejectedValues.all()) {
    if (labels.reason === "seal") add("seals broken", tally.amount);
  }
  for (const { tally } of metrics.logLinesDropped.all()) add("log lines dropped", tally.amount);
  for (const { tally } of metrics.eventLoopActive.all()) add("loop active", tally.amount);
  for (const { tally } of metrics.eventLoopIdle.all()) add("loop idle", tally.amount);
  return counts;
}

/** The first bucket of what is above `bound`, which is one of the bounds. */
function bucketAfter(bounds: readonly number[], bound: number): number {
  return bounds.indexOf(bound) + 1;
}

function sumFrom(counts: readonly number[], first: number): number {
  let sum = 0;
  for (let bucket = first; bucket < counts.length; bucket++) sum += counts[bucket]!;
  return sum;
}
