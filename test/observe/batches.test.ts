import { Counter, Histogram, Registry } from "@prometheus-io/client";
import { expect, test } from "vitest";
import { createMetrics } from "../../src/observe/metrics.ts";
import { Batches } from "../../src/observe/metrics/batches.ts";

/** Enough for several batches, and some beyond. */
const VALUES = Array.from({ length: 1_000 }, (_, i) => (i % 40) / 4);

test("what is counted in batches is what is counted one by one", async () => {
  const [one, other] = [new Registry(), new Registry()];
  const batches = new Batches();
  const options = { name: "t_seconds", help: "Some.", labelNames: ["kind"], buckets: [0.5, 1, 5] };
  const batched = new Histogram({ ...options, registers: [one], collect: () => batches.flush() });
  const plain = new Histogram({ ...options, registers: [other] });
  const things = { name: "things_total", help: "Some.", labelNames: ["kind"] };
  const batchedCounter = new Counter({ ...things, registers: [one], collect: () => batches.flush() });
  const plainCounter = new Counter({ ...things, registers: [other] });
  const kinds = {
    a: batches.histogram(batched.labels({ kind: "a" })),
    b: batches.histogram(batched.labels({ kind: "b" })),
  };
  const counted = batches.counter(batchedCounter.labels({ kind: "a" }));
  for (const [i, value] of VALUES.entries()) {
    const kind = i % 3 === 0 ? "b" : "a";
    kinds[kind].observe(value);
    plain.observe({ kind }, value);
    counted.inc(value);
    plainCounter.inc({ kind: "a" }, value);
    // Read in between, nothing is counted twice.
    if (i % 100 === 0) expect((await batchedCounter.get()).values).toEqual((await plainCounter.get()).values);
  }
  expect((await batched.get()).values).toEqual((await plain.get()).values);
  expect(await one.metrics()).toBe(await other.metrics());
});

test("whoever reads a metric sees what waited in a batch", async () => {
  const { metrics, registry } = createMetrics();
  const labels = { operation: "info", outcome: "hit" } as const;
  metrics.batches.histogram(metrics.requestDuration.labels(labels)).observe(0.2);
  metrics.batches.counter(metrics.clientRequests.labels({ client: "ada", ...labels })).inc(7);
  expect(
    (await metrics.requestDuration.get()).values.find(({ metricName }) => metricName?.endsWith("_count"))?.value,
  ).toBe(1);
  expect(await registry.metrics()).toMatch(/client_requests_total\{client="ada",operation="info",outcome="hit"\} 7\n/);
});
