import type { Duration } from "../clock.ts";

const KEPT = 256;
/** Fewer samples than this say nothing about a tail. */
const LEAST = 20;
/** Sorting is worth it once in so many samples. */
const RECOMPUTE_EVERY = 16;

/** A quantile of the latest 256 latencies. */
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
    if (this.recorded % RECOMPUTE_EVERY === 0) this.recompute();
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
