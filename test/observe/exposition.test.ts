import { Registry } from "@prometheus-io/client";
import { expect, test } from "vitest";
import { createMetrics } from "../../src/observe/metrics.ts";
import { announce, type LiveRegistry } from "../../src/observe/metrics/live-registry.ts";
import { createInstruments } from "../../src/observe/observers.ts";
import { METRICS } from "../../src/observe/metrics/table.ts";
import { parseExposition } from "../support/exposition.ts";

const MANY = Array.from({ length: 100 }, (_, at) => `upstream-${at}`);

/** What the client library writes of the same registry. */
function ofLibrary(registry: LiveRegistry): Promise<string> {
  return Registry.prototype.metrics.call(registry);
}

test("the metrics of many upstreams are written as the client library writes them", async () => {
  const { metrics, registry } = createInstruments("1.0.0", { exemplars: false });
  announce(registry, MANY);
  metrics.upstreamDuration.labels({ upstream: "upstream-1", kind: "metadata" }).observe(0.02);
  metrics.cacheAnswers.inc({ upstream: "upstream-1", operation: "info", outcome: "hit" }, 3);
  const text = await registry.metrics();
  expect(text).toBe(await ofLibrary(registry));
  expect(parseExposition(text).length).toBeGreaterThan(5_000);
});

test("other work is done while the metrics of many upstreams are written", async () => {
  const { registry } = createMetrics();
  announce(
    registry,
    Array.from({ length: 1_000 }, (_, at) => `upstream-${at}`),
  );
  let turns = 0;
  let isWriting = true;
  const turn = () => {
    turns += 1;
    if (isWriting) setImmediate(turn);
  };
  setImmediate(turn);
  await registry.metrics();
  isWriting = false;
  expect(turns).toBeGreaterThan(20);
});

test("metrics that are asked for while others are written are those of then, written once for all who ask", async () => {
  const { metrics, registry } = createMetrics();
  announce(registry, MANY);
  let reads = 0;
  registry.onRead(() => {
    reads += 1;
  });
  const first = registry.metrics();
  // The first begins.
  await Promise.resolve();
  await Promise.resolve();
  metrics.cacheEvictions.inc(7);
  const later = await Promise.all(Array.from({ length: 20 }, () => registry.metrics()));
  await first;
  expect(reads).toBe(2);
  for (const text of later) expect(text).toContain(`${METRICS.cacheEvictions.name} 7\n`);
});

test("one exposition that fails does not keep the next from being written", async () => {
  const { registry } = createMetrics();
  let fails = true;
  registry.onRead(() => {
    if (fails) throw new Error("no status");
  });
  await expect(registry.metrics()).rejects.toThrow("no status");
  fails = false;
  expect(await registry.metrics()).toContain(METRICS.cacheEvictions.name);
});
