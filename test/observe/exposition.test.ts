import { Gauge, Histogram, Registry } from "@prometheus-io/client";
import { expect, test } from "vitest";
import { systemClock } from "../../src/clock.ts";
import { createMetrics } from "../../src/observe/metrics.ts";
import { announce } from "../../src/observe/metrics/announcement.ts";
import { expose } from "../../src/observe/metrics/exposition.ts";
import { createInstruments } from "../../src/observe/observers.ts";
import { METRICS } from "../../src/observe/metrics/table.ts";
import { parseExposition } from "../support/exposition.ts";

const MANY = Array.from({ length: 100 }, (_, at) => `upstream-${at}`);

/** What the client library writes of the same registry. */
function ofLibrary(registry: Registry): Promise<string> {
  return Registry.prototype.metrics.call(registry);
}

test("the metrics of many upstreams are written as the client library writes them", async () => {
  const { metrics, registry } = createInstruments("1.0.0", systemClock());
  announce(registry, MANY);
  metrics.upstreamDuration.observe({ upstream: "upstream-1", kind: "metadata" }, 0.02);
  metrics.cacheAnswers.inc({ upstream: "upstream-1", operation: "info", outcome: "hit" }, 3);
  const text = await expose(registry);
  expect(text).toBe(await ofLibrary(registry));
  expect(parseExposition(text).length).toBeGreaterThan(5_000);
});

test.each([
  ["a quotation mark", 'say "hit"'],
  ["a backslash", "a\\b"],
  ["the end of a line", "one\ntwo"],
  ["all of them", '\\"\n"\\n'],
  ["no ASCII", "Zürich ☃"],
])("a label value with %s is written as the client library writes it", async (_, value) => {
  const registry = new Registry();
  new Gauge({ name: "g", help: 'Some "help" \\ in\ntwo lines.', labelNames: ["a", "b"], registers: [registry] }).set(
    { a: value, b: "plain" },
    1,
  );
  expect(await expose(registry)).toBe(await ofLibrary(registry));
});

test.each([0, -0, 1e21, 1.5e-7, Number.MAX_SAFE_INTEGER, Infinity, -Infinity, Number.NaN])(
  "the value %s is written as the client library writes it",
  async (value) => {
    const registry = new Registry();
    new Gauge({ name: "g", help: "Some.", registers: [registry] }).set(value);
    expect(await expose(registry)).toBe(await ofLibrary(registry));
  },
);

test("histograms of the library's own are written with the labels that their series share", async () => {
  const registry = new Registry();
  const histogram = new Histogram({ name: "h", help: "Some.", labelNames: ["kind"], registers: [registry] });
  histogram.observe({ kind: "minor" }, 0.2);
  expect(await expose(registry)).toBe(await ofLibrary(registry));
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
