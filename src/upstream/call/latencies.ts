import type { Duration } from "../../clock.ts";
import type { Operation } from "../../spec/endpoints.ts";

/** Enough that a few slow calls more or less do not move a high quantile from the bulk into the tail. */
const KEPT = 1_024;
/** Fewer samples than this say nothing about a tail. */
const LEAST = 20;
/** Sorting is worth it once in so many samples: few at first, more when there are many to sort. */
const RECOMPUTE_FIRST = 16;
const RECOMPUTE_LATER = 128;

/** A quantile of the latest 1024 latencies. */
export class LatencyQuantile {
  private readonly quantile: number;
  private readonly samples = new Float64Array(KEPT);
  private recorded = 0;
  private value: Duration | undefined;

  constructor(quantile: number) {
    this.quantile = quantile;
  }

  record(latency: Duration): void {
    this.samples[this.recorded % KEPT] = latency;
    this.recorded += 1;
    const every = this.recorded < KEPT / 4 ? RECOMPUTE_FIRST : RECOMPUTE_LATER;
    if (this.recorded % every === 0) this.recompute();
  }

  /** Undefined until there are enough samples. */
  get(): Duration | undefined {
    return this.value;
  }

  private recompute(): void {
    const count = Math.min(this.recorded, KEPT);
    if (count < LEAST) return;
    const sorted = this.samples.slice(0, count).sort();
    this.value = sorted[Math.min(count - 1, Math.floor(count * this.quantile))];
  }
}

/** What is slow for each operation of one upstream: a quantile of its latest latencies. */
export class Latencies {
  private readonly quantile: number;
  private readonly byOperation = new Map<Operation, LatencyQuantile>();

  constructor(quantile: number) {
    this.quantile = quantile;
  }

  record(operation: Operation, latency: Duration): void {
    let latencies = this.byOperation.get(operation);
    if (latencies === undefined) {
      latencies = new LatencyQuantile(this.quantile);
      this.byOperation.set(operation, latencies);
    }
    latencies.record(latency);
  }

  /** Slower than this is slow; undefined until enough was measured. */
  slow(operation: Operation): Duration | undefined {
    return this.byOperation.get(operation)?.get();
  }
}
