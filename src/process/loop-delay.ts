import { monitorEventLoopDelay } from "node:perf_hooks";
import type { LoopDelay } from "./overload.ts";

/** Between two samples, in milliseconds. */
const RESOLUTION = 10;

/** Measures this process's event loop from now on. */
export function measureLoopDelay(): LoopDelay {
  const histogram = monitorEventLoopDelay({ resolution: RESOLUTION });
  histogram.enable();
  return () => {
    // It measures from sample to sample, in nanoseconds: a loop that is never late shows the resolution.
    const delay = Math.max(0, histogram.percentile(99) / 1e6 - RESOLUTION);
    histogram.reset();
    return delay;
  };
}
