import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { expect, onTestFinished, test } from "vitest";
import { startGateway } from "../support/gateway.ts";
import { ManualClock } from "../support/manual-clock.ts";
import { useSampleRegistries } from "../support/sample-registries.ts";
import { DSO } from "../support/sample.ts";
import { parseExposition } from "../support/exposition.ts";

const startRegistry = useSampleRegistries();

interface Point {
  readonly attributes: readonly { readonly key: string; readonly value: { readonly stringValue: string } }[];
  readonly asDouble?: number;
  readonly bucketCounts?: readonly (number | string)[];
  readonly explicitBounds?: readonly number[];
  readonly count?: number | string;
  readonly startTimeUnixNano: string;
  readonly timeUnixNano: string;
}

interface Pushed {
  readonly name: string;
  readonly unit: string;
  readonly sum?: { readonly dataPoints: readonly Point[]; readonly isMonotonic: boolean };
  readonly gauge?: { readonly dataPoints: readonly Point[] };
  readonly histogram?: { readonly dataPoints: readonly Point[] };
}

interface Push {
  readonly resourceMetrics: readonly [
    {
      readonly resource: { readonly attributes: Point["attributes"] };
      readonly scopeMetrics: readonly [{ readonly metrics: readonly Pushed[] }];
    },
  ];
}

/** A collector of metrics: OTLP over HTTP as JSON. */
async function startCollector() {
  const pushes: Push[] = [];
  const collector = { pushes, status: 200, url: "" };
  const server = createServer((request, response) => {
    let text = "";
    request.on("data", (chunk: Buffer) => (text += chunk.toString()));
    request.on("end", () => {
      if (collector.status === 200) pushes.push(JSON.parse(text) as Push);
      response.writeHead(collector.status, { "content-type": "application/json" }).end("{}");
    });
  });
  await new Promise<void>((resolve) => void server.listen(0, "127.0.0.1", resolve));
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  collector.url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  return collector;
}

async function startPushing() {
  const collector = await startCollector();
  const clock = new ManualClock();
  const registry = await startRegistry();
  const gateway = await startGateway(
    {
      metrics: { otlp: { endpoint: `${collector.url}/v1/metrics`, every: "10s" } },
      upstreams: [{ name: "amulet", admin: DSO, urls: [registry.url] }],
    },
    { clock },
  );
  onTestFinished(() => gateway.stop());
  return { collector, clock, gateway };
}

const metricsOf = (push: Push) => push.resourceMetrics[0].scopeMetrics[0].metrics;
const labelsOf = ({ attributes }: Point) =>
  Object.fromEntries(attributes.map(({ key, value }) => [key, value.stringValue]));

test("what is pushed has the names, labels and values of /metrics", async () => {
  const { collector, clock, gateway } = await startPushing();
  for (let i = 0; i < 3; i += 1) await (await fetch(`${gateway.url}/registry/metadata/v1/info`)).arrayBuffer();
  const series = parseExposition(await (await fetch(`${gateway.operations}/metrics`)).text());
  expect(collector.pushes).toHaveLength(0);
  clock.advance(10_000);
  await expect.poll(() => collector.pushes.length).toBe(1);
  const [push] = collector.pushes;
  const metrics = metricsOf(push!);
  const named = (name: string) => metrics.find((metric) => metric.name === name)!;
  const own = series.filter(({ name }) => name.startsWith("registry_gateway_") && !/_(bucket|sum|count)$/.test(name));
  for (const { name } of own) expect(named(name), name).toBeDefined();
  const requests = named("registry_gateway_requests_total");
  expect(requests.sum!.isMonotonic).toBe(true);
  const counted = requests.sum!.dataPoints.find((point) => labelsOf(point)["operation"] === "info");
  expect([labelsOf(counted!), counted!.asDouble]).toEqual([
    { operation: "info", upstream: "amulet", status: "2xx" },
    3,
  ]);
  const durations = named("registry_gateway_request_duration_seconds");
  expect(durations.unit).toBe("s");
  const hits = durations.histogram!.dataPoints.find((point) => labelsOf(point)["outcome"] === "hit")!;
  expect([labelsOf(hits), Number(hits.count)]).toEqual([{ operation: "info", outcome: "hit" }, 2]);
  expect(hits.bucketCounts).toHaveLength(hits.explicitBounds!.length + 1);
  expect(hits.bucketCounts!.reduce<number>((sum, count) => sum + Number(count), 0)).toBe(2);
  expect(named("registry_gateway_build_info").gauge!.dataPoints).toHaveLength(1);
  expect(BigInt(hits.timeUnixNano) - BigInt(hits.startTimeUnixNano)).toBe(10_000_000_000n);
  const resource = push!.resourceMetrics[0].resource.attributes;
  expect(resource.map(({ key }) => key)).toEqual(["service.name", "service.version", "service.instance.id"]);
});

test("a collector that refuses is said once, and gets all figures once it takes them again", async () => {
  const { collector, clock, gateway } = await startPushing();
  const said = () =>
    gateway.lines.map(({ msg }) => msg).filter((msg) => /^metrics (cannot be|are) sent/.test(String(msg)));
  collector.status = 400;
  clock.advance(10_000);
  await expect.poll(said).toEqual(["metrics cannot be sent"]);
  collector.status = 200;
  await expect
    .poll(() => {
      clock.advance(10_000);
      return said();
    })
    .toEqual(["metrics cannot be sent", "metrics are sent again"]);
  expect(collector.pushes.length).toBeGreaterThan(0);
});

test("the last figures are pushed before the gateway stops", async () => {
  const { collector, gateway } = await startPushing();
  await (await fetch(`${gateway.url}/registry/metadata/v1/info`)).arrayBuffer();
  await gateway.stop();
  expect(collector.pushes).toHaveLength(1);
  expect(metricsOf(collector.pushes[0]!).length).toBeGreaterThan(50);
});
