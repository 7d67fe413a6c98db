/** Counts in each step, as long as {@link History.times}. */
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
  /** The busiest, and the others together last. */
  readonly upstreams: readonly UpstreamHistory[];
  /** Of all processes of this gateway together. */
  readonly residentBytes: Measures;
  readonly cacheBytes: Measures;
  /** The 99th percentile; of workers, the latest one. */
  readonly eventLoopDelayMs: Measures;
}
