import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { systemClock } from "../../src/clock.ts";
import { createMetrics } from "../../src/observe/metrics.ts";
import { announce, forgetUpstreams, LiveRegistry } from "../../src/observe/metrics/live-registry.ts";
import { createLogger } from "../../src/observe/log.ts";
import { AGE, type Definition } from "../../src/observe/metrics/definition.ts";
import { collectProcessMetrics } from "../../src/observe/metrics/process.ts";
import { METRICS } from "../../src/observe/metrics/table.ts";
import { Traffic } from "../../src/observe/traffic.ts";
import { CACHED_OPERATIONS } from "../../src/spec/operations.ts";
import { metricOf, parseExposition, type Series } from "../support/exposition.ts";
import { type GatewayUnderTest, startGateway } from "../support/gateway.ts";
import { SampleRegistry } from "../support/sample-registry.ts";
import { seriesOf } from "../support/series.ts";
import { breakAndAsk, sendEverything, sendStrays } from "../support/traffic.ts";

const UPSTREAMS = 10;
/** Of each cached operation, by upstream, outcome and the like, of each of the 64 places of a node, and of all else. */
const MAX_SERIES = 4_300 + 2 * 64 * UPSTREAMS + 220 * CACHED_OPERATIONS.length;
const DEFINITIONS: readonly Definition[] = Object.values(METRICS);

async function seriesIn(registry: LiveRegistry): Promise<Series[]> {
  return parseExposition(await registry.metrics());
}

describe("the table of metrics", () => {
  test(`allows no more than ${MAX_SERIES} series at ${UPSTREAMS} upstreams, the process's own included`, async () => {
    const { metrics } = createMetrics();
    const own = new LiveRegistry();
    collectProcessMetrics(metrics, own, createLogger("silent"));
    const ofProcess = (await seriesIn(own)).length;
    const ofGateway = DEFINITIONS.reduce((sum, definition) => sum + seriesOf(definition, UPSTREAMS), 0);
    expect(ofProcess).toBeGreaterThan(5);
    expect(ofGateway + ofProcess).toBeLessThanOrEqual(MAX_SERIES);
  });

  test.each(DEFINITIONS)("names $name after its unit and kind", ({ name, type, help }) => {
    expect(name).toMatch(/^registry_gateway_[a-z0-9_]+$/);
    expect(name.endsWith("_total")).toBe(type === "counter");
    if (type === "histogram") expect(name).toMatch(/_(seconds|ratio)$/);
    expect(help).toMatch(/^[A-Z1].*\.$/);
  });

  test("tells ages of a minute to a day apart, for a quantile is only as good as its bucket is narrow", () => {
    const steps = AGE.slice(1).map((bound, i) => ({ bound, step: bound / AGE[i]! }));
    expect(steps.filter(({ bound, step }) => bound > 60 && step > 2.5)).toEqual([]);
    expect(AGE.at(-1)).toBe(86_400);
  });

  test("a wrong label is a compile error, and never shown", async () => {
    const { metrics, registry } = createMetrics();
    // @ts-expect-error: there is no such operation
    metrics.requests.inc({ operation: "infos", upstream: "amulet", status: "2xx" });
    // @ts-expect-error: the status is missing
    metrics.requests.inc({ operation: "info", upstream: "amulet" });
    // @ts-expect-error: a metric without labels takes none
    expect(() => metrics.cacheEvictions.inc({ party: "alice::1220" })).toThrow("party");
    // @ts-expect-error: nor does a retry say whose it was
    expect(() => metrics.upstreamRetries.inc({ upstream: "amulet", party: "alice::1220" })).toThrow("party");
    expect(await registry.metrics()).not.toContain("alice");
  });
});

describe("counters", () => {
  test("begin at 0, for a rate needs something to rise from", async () => {
    const { registry } = createMetrics();
    announce(registry, ["amulet"]);
    const zeros = (await seriesIn(registry)).filter(({ name }) => name.endsWith("_total"));
    expect(zeros.map(({ name }) => name)).toContain(METRICS.upstreamRetries.name);
    expect(zeros.map(({ name }) => name)).toContain(METRICS.purges.name);
    expect(new Set(zeros.map(({ value }) => value))).toEqual(new Set([0]));
  });

  test("of upstreams that are configured no more are forgotten", async () => {
    const { metrics, registry } = createMetrics();
    announce(registry, ["amulet", "bonds"]);
    const hit = { status: 200, age: 1, seconds: 0.001 };
    const traffic = new Traffic(metrics);
    traffic.recorder({ operation: "info", upstream: "bonds", outcome: "hit" })(hit);
    traffic.recorder({ operation: "info", upstream: "amulet", outcome: "hit" })(hit);
    metrics.upstreamDuration.labels({ upstream: "bonds", kind: "metadata" }).observe(1);
    await forgetUpstreams(registry, new Set(["amulet"]));
    const names = new Set((await seriesIn(registry)).map(({ labels }) => labels["upstream"]));
    expect(names.has("amulet")).toBe(true);
    expect(names.has("bonds")).toBe(false);
  });

  test("of hits are complete whenever they are read", async () => {
    const { metrics, registry } = createMetrics();
    const traffic = new Traffic(metrics);
    const recordHit = traffic.recorder({ operation: "info", upstream: "amulet", outcome: "hit" });
    for (let i = 0; i < 5; i += 1) {
      recordHit({ status: i < 3 ? 200 : 304, age: 7, seconds: 0.0001 });
    }
    for (let turn = 0; turn < 2; turn += 1) {
      const series = await seriesIn(registry);
      const sum = (name: string, labels: Record<string, string>) =>
        series
          .filter((each) => each.name === name && Object.entries(labels).every(([key, is]) => each.labels[key] === is))
          .reduce((total, { value }) => total + value, 0);
      expect(sum(METRICS.requests.name, { status: "2xx" })).toBe(3);
      expect(sum(METRICS.requests.name, { status: "3xx" })).toBe(2);
      expect(sum(METRICS.cacheAnswers.name, { outcome: "hit" })).toBe(5);
      expect(sum(`${METRICS.servedAge.name}_sum`, { operation: "info" })).toBe(35);
      expect(sum(`${METRICS.requestDuration.name}_count`, { outcome: "hit" })).toBe(5);
    }
  });
});

describe(`a gateway before ${UPSTREAMS} registries, after everything that can happen`, () => {
  let registries: readonly SampleRegistry[];
  let gateway: GatewayUnderTest;
  let series: readonly Series[];

  beforeAll(async () => {
    registries = Array.from({ length: UPSTREAMS }, (_each, index) => {
      const admin = `registry-${index}::1220${"ab".repeat(32)}`;
      return new SampleRegistry({ admin, clock: systemClock(), etags: true, instruments: 30 });
    });
    await Promise.all(registries.map((registry) => registry.start()));
    gateway = await startGateway({
      log: { level: "silent" },
      upstreams: registries.map((registry, index) => ({
        name: `registry-${index}`,
        admin: registry.admin,
        urls: [registry.url],
        rateLimit: { requests: 100_000, per: "1s" },
      })),
    });
    for (const [index, registry] of registries.entries()) {
      await sendEverything(gateway.url, `registry-${index}`);
      if (index < 2) await breakAndAsk(registry, gateway.url, `registry-${index}`);
    }
    await sendStrays(gateway.url);
    series = parseExposition(await (await fetch(`${gateway.operations}/metrics`)).text());
  });

  afterAll(async () => {
    await gateway.stop();
    await Promise.all(registries.map((registry) => registry.stop()));
  });

  test(`shows fewer than ${MAX_SERIES} series`, () => {
    expect(series.length).toBeGreaterThan(500);
    expect(series.length).toBeLessThan(MAX_SERIES);
  });

  test("shows no more of any metric than the table allows", () => {
    for (const definition of DEFINITIONS) {
      const count = series.filter(({ name }) => metricOf(name) === definition.name || name === definition.name).length;
      expect(count, definition.name).toBeLessThanOrEqual(seriesOf(definition, UPSTREAMS));
    }
  });

  test("shows only metrics and label values of the table", () => {
    const known = new Map(DEFINITIONS.map((definition) => [definition.name, definition]));
    const aliases = new Set(["none", ...registries.map((_each, index) => `registry-${index}`)]);
    for (const { name, labels } of series) {
      const definition = known.get(name) ?? known.get(metricOf(name));
      expect(definition, name).toBeDefined();
      for (const [label, value] of Object.entries(labels)) {
        if (["le", "version", "revision"].includes(label)) continue;
        const values = definition!.labels[label];
        const isKnown = typeof values === "string" ? aliases.has(value) : values?.includes(value);
        expect(isKnown, `${name} ${label}=${value}`).toBe(true);
      }
    }
  });

  test("shows how old the registries' supplies are", () => {
    const asOf = series.filter(({ name }) => name === METRICS.supplyAsOf.name);
    expect(asOf).toHaveLength(UPSTREAMS);
    for (const { value } of asOf) expect(value).toBeGreaterThan(Date.UTC(2020, 0, 1) / 1000);
  });
});
