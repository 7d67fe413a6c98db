import { monitorEventLoopDelay, performance } from "node:perf_hooks";
import type { LoopLoad } from "./overload.ts";

/** Between two samples, in milliseconds. */
const RESOLUTION = 10;

/** Measures this process's event loop from now on; each call tells of the time since the one before. */
export function measureLoop(): () => LoopLoad {
  const histogram = monitorEventLoopDelay({ resolution: RESOLUTION });
  histogram.enable();
  let before = performance.eventLoopUtilization();
  return () => {
    // It measures from sample to sample, in nanoseconds: a loop that is never late shows the resolution.
    const delay = Math.max(0, histogram.percentile(99) / 1e6 - RESOLUTION);
    histogram.reset();
    const now = performance.eventLoopUtilization();
    const { utilization } = performance.eventLoopUtilization(now, before);
    before = now;
    return { delay, utilization };
  };
}
