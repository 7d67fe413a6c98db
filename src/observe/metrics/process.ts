import { performance } from "node:perf_hooks";
import { collectDefaultMetrics } from "@prometheus-io/client";
import type { Logger } from "../log.ts";
import type { Metrics } from "../metrics.ts";
import type { LiveRegistry } from "./live-registry.ts";

/**
 * Adds what is about the process as a whole: the client library's usual `process_` metrics, and how busy
 * the event loop is. Once a process: it installs observers that live as long.
 */
export function collectProcessMetrics(metrics: Metrics, registry: LiveRegistry, log: Logger): void {
  collectDefaultMetrics({ register: registry });
  // Of the library's own, dashboards and the console read those of the process alone.
  for (const { name } of registry.getMetricsAsArray()) {
    if (name.startsWith("nodejs_")) registry.removeSingleMetric(name);
  }
  let before = { active: 0, idle: 0 };
  let droppedBefore = 0;
  registry.onRead(() => {
    const { active, idle } = performance.eventLoopUtilization();
    metrics.eventLoopActive.inc((active - before.active) / 1000);
    metrics.eventLoopIdle.inc((idle - before.idle) / 1000);
    before = { active, idle };
    const dropped = log.droppedLines();
    metrics.logLinesDropped.inc(dropped - droppedBefore);
    droppedBefore = dropped;
  });
}
