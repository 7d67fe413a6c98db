import type { CancelTimer, Clock, Duration, Instant } from "../../clock.ts";
import type { Metrics } from "../../observe/metrics.ts";
import { histogramSeries } from "../../observe/metrics/histogram-series.ts";
import { METRICS } from "../../observe/metrics/table.ts";
import { BOUNDS } from "./condition.ts";

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
  /** Nothing is counted before the gateway starts. */
  private now: ReadonlyMap<string, number> = new Map();

  constructor(metrics: Metrics, clock: Clock) {
    this.metrics = metrics;
    this.clock = clock;
    this.samples.push({ at: clock.now(), counts: this.now });
  }

  /** How long what {@link risen} says has been counted. */
  get period(): Duration {
    return Math.max(1_000, this.clock.now() - this.samples[0]!.at);
  }

  /** Takes a sample every thirty seconds from now on, and calls `onStep` with it. */
  start(onStep: () => void): void {
    this.cancelTimer = this.clock.after(STEP, () => {
      void this.refresh().then(() => {
        this.samples.push({ at: this.clock.now(), counts: this.now });
        if (this.samples.length > MOST_STEPS) this.samples.shift();
        onStep();
      });
      this.start(onStep);
    });
  }

  stop(): void {
    this.cancelTimer?.();
  }

  /** Reads what is counted now. */
  async refresh(): Promise<void> {
    this.now = await countsOf(this.metrics);
  }

  /** By how much a count has risen; 0 for one that there is not. */
  risen(name: string): number {
    const now = this.now.get(name) ?? 0;
    const before = this.samples[0]!.counts.get(name) ?? 0;
    // An upstream that went and came back counts anew.
    return now < before ? now : now - before;
  }

  /** The same, added up over all upstreams: their total falls where one goes with all that was counted of it. */
  risenOfAll(name: string): number {
    const names = [...this.now.keys()].filter((each) => each.startsWith(`${name} of `));
    return names.reduce((sum, each) => sum + this.risen(each), 0);
  }
}

/** A few numbers for each upstream, added up from the metrics. */
async function countsOf(metrics: Metrics): Promise<ReadonlyMap<string, number>> {
  const counts = new Map<string, number>();
  const add = (name: string, amount: number) => counts.set(name, (counts.get(name) ?? 0) + amount);
  for (const { labels, value } of (await metrics.requests.get()).values) {
    add(`requests of ${labels.upstream}`, value);
    if (labels.status === "5xx") add(`failed requests of ${labels.upstream}`, value);
  }
  for (const { labels, value } of (await metrics.cacheAnswers.get()).values) {
    add(`answers of ${labels.upstream}`, value);
    if (labels.outcome === "stale") add(`stale answers of ${labels.upstream}`, value);
  }
  for (const { labels, value } of (await metrics.redisCommands.get()).values) {
    add("redis commands", value);
    if (labels.outcome === "error") add("redis refused", value);
  }
  for (const { labels, value } of (await metrics.redisRejectedValues.get()).values) {
    if (labels.reason === "seal") add("seals broken", value);
  }
  for (const { value } of (await metrics.logLinesDropped.get()).values) add("log lines dropped", value);
  for (const { value } of (await metrics.eventLoopActive.get()).values) add("loop active", value);
  for (const { value } of (await metrics.eventLoopIdle.get()).values) add("loop idle", value);
  for (const { labels, counts: buckets, count } of histogramSeries(await metrics.requestDuration.get())) {
    if (labels.outcome !== "hit") continue;
    add("hits", count);
    add("hits slow", countAbove(BOUNDS.hitsSlow.seconds, buckets, METRICS.requestDuration.buckets));
  }
  await addUpstreams(metrics, add);
  return counts;
}

async function addUpstreams(metrics: Metrics, add: (name: string, amount: number) => void): Promise<void> {
  for (const { labels, value } of (await metrics.upstreamCalls.get()).values) {
    add(`calls ${labels.kind} ${labels.upstream}`, value);
    if (labels.outcome === "failed") add(`calls ${labels.kind} failed ${labels.upstream}`, value);
  }
  for (const { labels, value } of (await metrics.upstreamRefused.get()).values) {
    add(`refused ${labels.reason} ${labels.upstream}`, value);
  }
  for (const { labels, value } of (await metrics.nodeOutOfStep.get()).values) {
    add(`out-of-step ${labels.upstream} ${labels.node}`, value);
  }
  for (const { labels, value } of (await metrics.supportedApisChanges.get()).values) {
    add(`apis ${labels.upstream}`, value);
  }
  for (const { labels, counts, count } of histogramSeries(await metrics.upstreamDuration.get())) {
    add(`attempts ${labels.kind} ${labels.upstream}`, count);
    add(
      `slow ${labels.kind} ${labels.upstream}`,
      countAbove(BOUNDS.callsSlow.seconds, counts, METRICS.upstreamDuration.buckets),
    );
  }
}

/** How many were above `bound`, which is one of the bounds. */
function countAbove(bound: number, counts: readonly number[], bounds: readonly number[]): number {
  return counts.slice(bounds.indexOf(bound) + 1).reduce((sum, count) => sum + count, 0);
}
