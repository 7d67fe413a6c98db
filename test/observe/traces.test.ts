import { createServer, type IncomingHttpHeaders, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { DSO, sampleText } from "../support/sample.ts";
import { type GatewayUnderTest, startGateway } from "../support/gateway.ts";
import { findFreePort } from "../support/ports.ts";
import { type RedisServer, startRedis } from "../support/redis.ts";
import { until } from "../support/until.ts";
import { type CollectedSpan, type Collector, startCollector } from "../support/collector.ts";

const TRACE = "4bf92f3577b34da6a3ce929d0e0e4736";
const PARENT = "00f067aa0ba902b7";
const CONTRACT = `00${"ab".repeat(68)}`;
const SECRET = "a-token-that-nobody-may-see";

const SERVER = 2;
const CLIENT = 3;

/** The status of a node that ends connections. */
const RESET = 0;

/** A node that answers what it is told to, and keeps the headers it got. */
interface Node {
  readonly url: string;
  readonly received: IncomingHttpHeaders[];
  status: number;
  close(): void;
}

async function startNode(): Promise<Node> {
  const received: IncomingHttpHeaders[] = [];
  const info = sampleText("01-info.response.amulet.json");
  const server: Server = createServer((request, response) => {
    const isInfo = request.url!.endsWith("/info");
    if (!isInfo) received.push(request.headers);
    if (!isInfo && node.status === RESET) return void request.socket.destroy();
    request.resume();
    const body = isInfo ? info : '{"choiceContextData":{},"disclosedContracts":[]}';
    const instrument = sampleText("03-instrument.response.amulet.json");
    response.writeHead(isInfo ? 200 : node.status, { "content-type": "application/json" });
    response.end(request.method === "GET" && !isInfo ? instrument : body);
  });
  await new Promise<void>((resolve) => {
    server.listen(0, "127.0.0.1", resolve);
  });
  const node: Node = {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    received,
    status: 200,
    close: () => void server.close(),
  };
  return node;
}

let redis: RedisServer;
let nodes: readonly Node[];
let collector: Collector;
let gateway: GatewayUnderTest;
/** Every request of this file, by the name it was sent under. */
const traces = new Map<string, CollectedSpan[]>();

/** What was scraped then, twice. */
const expositions: { type: string | null; text: string }[] = [];

/** Sends a request as part of a client's trace; its last digits tell the requests apart. */
async function send(index: number, path: string, body?: string): Promise<void> {
  const response = await fetch(`${gateway.registrar(DSO)}/registry/${path}`, {
    method: body === undefined ? "GET" : "POST",
    headers: {
      traceparent: `00-${traceOf(index)}-${PARENT}-01`,
      tracestate: "vendor=value",
      authorization: `Bearer ${SECRET}`,
      ...(body === undefined ? {} : { "content-type": "application/json" }),
    },
    ...(body === undefined ? {} : { body }),
  });
  await response.arrayBuffer();
}

function traceOf(index: number): string {
  return TRACE.slice(0, -2) + String(index).padStart(2, "0");
}

const MISS = 10;
const HIT = 11;
const POST = 12;
const RETRIED = 13;
const PASSED = 14;
const REFUSED = 15;

beforeAll(async () => {
  redis = await startRedis();
  nodes = [await startNode(), await startNode()];
  collector = await startCollector();
  gateway = await startGateway({
    redis: { url: redis.url },
    tracing: { endpoint: collector.endpoint },
    upstreams: [{ name: "amulet", admin: DSO, urls: nodes.map(({ url }) => url), hedge: { enabled: false } }],
  });
  await until(async () => (await fetch(`${gateway.operations}/readyz`)).ok);
  await send(MISS, "metadata/v1/instruments/Amulet");
  await send(HIT, "metadata/v1/instruments/Amulet");
  await send(POST, `transfer-instruction/v1/${CONTRACT}/choice-contexts/accept`, "{}");
  for (const node of nodes) node.status = 503;
  await send(RETRIED, `transfer-instruction/v1/${CONTRACT}/choice-contexts/reject`, "{}");
  for (const node of nodes) node.status = 200;
  await send(PASSED, "some-draft/v3/things");
  await send(REFUSED, "transfer-instruction/v1/transfer-factory", "no json");
  for (let scrape = 0; scrape < 2; scrape += 1) {
    const answer = await fetch(`${gateway.operations}/metrics`);
    expositions.push({ type: answer.headers.get("content-type"), text: await answer.text() });
  }
  // Sends what is left.
  await gateway.stop();
  for (const span of collector.spans) traces.set(span.traceId, [...(traces.get(span.traceId) ?? []), span]);
});

afterAll(async () => {
  for (const node of nodes) node.close();
  await collector.close();
  await redis.stop();
});

function spansOf(index: number, kind: number): CollectedSpan[] {
  return (traces.get(traceOf(index)) ?? []).filter((span) => span.kind === kind);
}

describe("a traced request", () => {
  test.each([
    ["a miss", MISS, "GET instrument", "miss", 200],
    ["a memory hit", HIT, "GET instrument", "hit", 200],
    ["a POST", POST, "POST transfer_accept", "bypass", 200],
    ["a passed-through request", PASSED, "GET pass_through", "bypass", 200],
    ["a refused request", REFUSED, "POST transfer_factory", "refused", 400],
  ])("%s is one span that continues the client's", (_name, index, name, outcome, status) => {
    const [span, ...others] = spansOf(index, SERVER);
    expect(others).toEqual([]);
    expect(span).toMatchObject({ name, parentSpanId: PARENT });
    expect(span!.attributes).toMatchObject({
      "registry_gateway.outcome": outcome,
      "http.response.status_code": status,
    });
  });

  test("says which tier answered", () => {
    expect(spansOf(MISS, SERVER)[0]!.attributes).toMatchObject({
      "registry_gateway.cache.tier": "upstream",
      "registry_gateway.cache.outcome": "miss",
    });
  });

  test("shows the commands to Redis that it waited for", () => {
    const [request] = spansOf(MISS, SERVER);
    const commands = traces.get(traceOf(MISS))!.filter(({ name }) => name.startsWith("redis "));
    expect(commands).not.toEqual([]);
    for (const { parentSpanId } of commands) expect(parentSpanId).toBe(request!.spanId);
  });

  test.each([
    ["a miss", MISS],
    ["a POST", POST],
    ["a passed-through request", PASSED],
  ])("%s has its call to a node below it, and the node sees that call as its parent", (_name, index) => {
    const [call, ...others] = spansOf(index, CLIENT);
    expect(others).toEqual([]);
    expect(call!.parentSpanId).toBe(spansOf(index, SERVER)[0]!.spanId);
    const seen = nodes.flatMap(({ received }) => received).map(({ traceparent }) => traceparent);
    expect(seen).toContain(`00-${traceOf(index)}-${call!.spanId}-01`);
  });

  test("passes the client's tracestate on", () => {
    for (const { tracestate } of nodes.flatMap(({ received }) => received)) expect(tracestate).toBe("vendor=value");
  });

  test("shows each attempt with its node and why it failed", () => {
    const attempts = spansOf(RETRIED, CLIENT).map(({ attributes }) => attributes);
    expect(attempts.length).toBeGreaterThan(1);
    expect(attempts[0]).toMatchObject({ "registry_gateway.attempt": "first", "error.type": "http-503" });
    expect(attempts[1]).toMatchObject({ "registry_gateway.attempt": "retry", "error.type": "http-503" });
    expect(new Set(attempts.map((attributes) => attributes["registry_gateway.node"]))).toEqual(new Set([0, 1]));
  });

  test("has a memory hit without any call below it", () => {
    expect(traces.get(traceOf(HIT))).toHaveLength(1);
  });

  test("is named by the latency that it had, in the form of OpenMetrics", () => {
    for (const { type, text } of expositions) {
      expect(type).toContain("application/openmetrics-text; version=1.0.0");
      expect(text).toMatch(/\n# EOF\n$/);
      expect(text).toMatch(/\nregistry_gateway_requests_total\{/);
      const named = (latency: string) => {
        const exemplar = new RegExp(`^registry_gateway_${latency}_seconds_bucket\\{.* # \\{trace_id="(\\w+)"\\}`, "gm");
        return [...text.matchAll(exemplar)].map(([, trace]) => trace!);
      };
      expect(named("request_duration")).toContain(traceOf(POST));
      // The last attempts, whosever they are: each in a trace that was sent.
      const ofAttempts = named("upstream_attempt_duration");
      expect(ofAttempts.length).toBeGreaterThan(0);
      for (const trace of ofAttempts) expect([...traces.keys()]).toContain(trace);
    }
  });

  test("is found in the log by its trace", () => {
    const lines = gateway.lines.filter(({ msg, traceId }) => msg === "request" && traceId === traceOf(POST));
    expect(lines).toHaveLength(1);
  });

  test.each([
    ["the client's token", SECRET],
    ["the registry's party id", DSO],
    ["its encoded form", encodeURIComponent(DSO)],
    ["a contract id", CONTRACT],
    ["the address of a node", "127.0.0.1"],
    ["an instrument", "Amulet"],
  ])("holds nothing of %s", (_name, text) => {
    expect(collector.spans.length).toBeGreaterThan(6);
    expect(collector.text()).not.toContain(text);
  });
});

describe("calls to nodes that fail in every way", () => {
  const GONE = "node-that-is-gone.invalid";
  const PARTY = "alice::1220ab";
  let spans: readonly CollectedSpan[];
  let text: string;
  /** Hosts, ports and URLs of all nodes, and the ids in the requests. */
  let secrets: string[];

  beforeAll(async () => {
    const failing = await startNode();
    failing.status = 503;
    const broken = await startNode();
    broken.status = RESET;
    const refusing = await findFreePort();
    const urls = [
      failing.url.replace("127.0.0.1", "localhost"),
      broken.url,
      `http://127.0.0.1:${refusing}`,
      `http://${GONE}:7001`,
    ];
    const watched = await startCollector();
    const traced = await startGateway({
      redis: { url: redis.url },
      tracing: { endpoint: watched.endpoint },
      upstreams: [{ name: "amulet", admin: DSO, urls }],
    });
    await until(async () => (await fetch(`${traced.operations}/readyz`)).ok);
    const base = `${traced.registrar(DSO)}/registry`;
    const headers = { "content-type": "application/json" };
    const accept = { method: "POST", body: `{"x":"${PARTY}"}`, headers };
    for (let i = 0; i < 12; i += 1) {
      const paths = [`transfer-instruction/v1/${CONTRACT}/choice-contexts/accept`, `drafts/v3/${CONTRACT}`];
      for (const path of paths) await (await fetch(`${base}/${path}`, accept)).arrayBuffer();
      await (await fetch(`${base}/metadata/v1/instruments/Amulet-${i}`)).arrayBuffer();
    }
    await traced.stop();
    spans = watched.spans;
    text = watched.text();
    const nodeUrls = [...urls, redis.url].map((url) => new URL(url));
    secrets = [...new Set(nodeUrls.flatMap(({ host, hostname, port }) => [host, hostname, port]))];
    secrets.push(CONTRACT, PARTY, "Amulet", DSO);
    failing.close();
    broken.close();
    await watched.close();
  });

  test("are spans of requests, of attempts that fail in several ways, and of Redis", () => {
    expect(spans.filter(({ kind }) => kind === SERVER)).toHaveLength(36);
    expect(new Set(spans.map(({ attributes }) => attributes["error.type"])).size).toBeGreaterThan(2);
    expect(spans.some(({ name }) => name.startsWith("redis "))).toBe(true);
  });

  test("have no host, port or URL of a node and no id in a name, key or value of any span", () => {
    const found = spans.flatMap(({ name, attributes }) =>
      [name, ...Object.entries(attributes).flat().map(String)].flatMap((part) =>
        secrets.filter((secret) => part.includes(secret)).map((secret) => `${name}: ${secret}`),
      ),
    );
    expect(found).toEqual([]);
  });

  test("have none in events, status messages and resources either", () => {
    // A port is five digits, which ids and times of spans have too.
    expect(secrets.filter((secret) => !/^[0-9]+$/.test(secret) && text.includes(secret))).toEqual([]);
  });

  test("have no key that is meant for an address", () => {
    const keys = [...new Set(spans.flatMap(({ attributes }) => Object.keys(attributes)))];
    expect(keys.filter((key) => /address|port|host|url|peer|server|network/.test(key))).toEqual([]);
  });
});

describe("sampling", () => {
  test("keeps to the operator's share, whatever clients ask for", async () => {
    const quiet = await startCollector();
    const node = await startNode();
    const untraced = await startGateway({
      tracing: { endpoint: quiet.endpoint, ratio: 0 },
      upstreams: [{ name: "amulet", admin: DSO, urls: [node.url] }],
    });
    const headers = { traceparent: `00-${TRACE}-${PARENT}-01` };
    await fetch(`${untraced.registrar(DSO)}/registry/metadata/v1/instruments/Amulet`, { headers });
    await untraced.stop();
    expect(quiet.spans).toEqual([]);
    // The trace goes on upstream, marked as not kept here.
    expect(node.received[0]!.traceparent).toMatch(new RegExp(`^00-${TRACE}-[0-9a-f]{16}-00$`));
    node.close();
    await quiet.close();
  });
});

describe("without tracing", () => {
  test("the client's trace context goes upstream as it came", async () => {
    const node = await startNode();
    const plain = await startGateway({ upstreams: [{ name: "amulet", admin: DSO, urls: [node.url] }] });
    const headers = { traceparent: `00-${TRACE}-${PARENT}-01`, tracestate: "vendor=value" };
    await fetch(`${plain.registrar(DSO)}/registry/metadata/v1/instruments/Amulet`, { headers });
    expect(node.received[0]).toMatchObject(headers);
    await plain.stop();
    node.close();
  });
});
