import type { Duration } from "../../clock.ts";
import type { Operation } from "../../spec/endpoints.ts";
import { LatencyQuantile } from "./latency-quantile.ts";

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
