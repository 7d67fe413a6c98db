import { expect, test } from "vitest";
import { createMetrics } from "../../src/observe/metrics.ts";
import { METRICS } from "../../src/observe/metrics/table.ts";
import { WorkerMetrics } from "../../src/workers/metrics.ts";

/** Added up in another order these make another sum, by a trace. */
const SECONDS = [0.1, 0.2, 0.3, 0.0087103710000001, 1e-5, 0.7];

test("no sum falls by a trace when a worker is gone", async () => {
  const metricsOfAll = new WorkerMetrics(createMetrics().registry);
  for (const [worker, seconds] of SECONDS.entries()) {
    const { metrics, registry } = createMetrics();
    metrics.requestDuration.observe({ operation: "info", outcome: "hit" }, seconds);
    metricsOfAll.note(worker, await registry.getMetricsAsJSON());
  }
  const sum = async () =>
    new RegExp(`${METRICS.requestDuration.name}_sum\\{[^}]*\\} (\\S+)`).exec(await metricsOfAll.metrics())?.[1];
  const before = await sum();
  expect(Number(before)).toBeCloseTo(1.30872037, 8);
  for (const worker of [4, 0, 2, 5, 1, 3]) {
    await metricsOfAll.retire(worker);
    expect(await sum()).toBe(before);
  }
});
