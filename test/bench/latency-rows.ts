import { FACTORY_REQUEST, FACTORY_RESPONSE, PAGE } from "./bodies.ts";
import { requestText } from "./client.ts";
import { startGateway } from "./gateway.ts";
import { REGISTRAR } from "./hit-rows.ts";
import type { LoadPlan } from "./load-plan.ts";
import { findNginx, startNginx } from "./nginx.ts";
import { startLeastProxy } from "./node-servers.ts";
import { gatewayBefore, startRegistry } from "./registry.ts";
import { type BenchContext, newFolder, type Result, type Row } from "./row.ts";
import type { BenchServer } from "./server.ts";
import { spreadOf } from "./spread.ts";

/** Some 300 requests a second of all connections together. */
const MODERATE = { connections: 4, pause: 13, count: 400 };

const FACTORY_PATH = "/registry/transfer-instruction/v1/transfer-factory";
const LIST_PATH = "/registry/metadata/v1/instruments";

interface LatencyRow {
  readonly what: string;
  /** Whether the least Node proxy can do it: what it adds is the floor. */
  readonly hasLeast: boolean;
  /** The request to a server that has the registry's API under this prefix. */
  readonly request: (prefix: string) => string;
  readonly bodyLength: number;
  /** What may be added, in what nginx adds: at the median, and at the slowest of a hundred. */
  readonly bounds?: readonly [p50: number, p99: number];
}

const POST: LatencyRow = {
  what: "a POST at 300 requests a second",
  hasLeast: true,
  request: (prefix) => requestText({ method: "POST", path: prefix + FACTORY_PATH, body: FACTORY_REQUEST }),
  bodyLength: Buffer.byteLength(FACTORY_RESPONSE),
  bounds: [3, 2],
};

const MISS: LatencyRow = {
  what: "a miss at 300 requests a second",
  hasLeast: false,
  request: (prefix) => requestText({ method: "GET", path: `${prefix}${LIST_PATH}?pageSize={n}` }),
  bodyLength: Buffer.byteLength(PAGE),
};

/** What stands between client and registry adds to the time of an answer, beside nginx. */
export const latencyRows: readonly Row[] = [
  { name: "latency-post", run: (context) => runLatencyRow(context, POST) },
  { name: "latency-miss", run: (context) => runLatencyRow(context, MISS) },
];

async function runLatencyRow(context: BenchContext, row: LatencyRow): Promise<Result[]> {
  if (findNginx() === undefined) {
    context.note("nginx is not installed (Debian: nginx-light): latencies are left out");
    return [];
  }
  const registry = await context.started(startRegistry());
  const gateway = await context.started(
    startGateway({ config: gatewayBefore([registry]), folder: newFolder(context) }),
  );
  const nginx = await context.started(
    startNginx({ upstream: registry.port, caches: false, folder: newFolder(context) }),
  );
  let numbers = 1;
  const measure = async (server: BenchServer, count: number, pause?: number) => {
    const plan: LoadPlan = {
      ...MODERATE,
      count,
      pause,
      port: server.port,
      request: row.request(server === gateway ? REGISTRAR : ""),
      numbering: "each",
      from: numbers,
      expected: { status: 200, bodyLength: row.bodyLength },
    };
    numbers += count;
    return context.load.run(plan, server.pid);
  };
  const proxies = [gateway, nginx];
  if (row.hasLeast) proxies.push(await context.started(startLeastProxy(registry.port)));
  for (const server of [...proxies, registry]) {
    await measure(server, context.warmUp / 2);
    // Under load several requests are read and answered together. What V8 made for that it throws away again at this pace,
    // and while it makes other code for the first 3,000 requests or so, the slowest of a hundred take several milliseconds.
    await measure(server, context.warmUp / 2, MODERATE.pause);
  }
  const added = new Map(proxies.map((server) => [server, { p50: [] as number[], p99: [] as number[] }]));
  for (let round = 0; round < context.rounds; round += 1) {
    const direct = await measure(registry, MODERATE.count, MODERATE.pause);
    for (const [server, { p50, p99 }] of added) {
      const through = await measure(server, MODERATE.count, MODERATE.pause);
      p50.push(through.p50 - direct.p50);
      p99.push(through.p99 - direct.p50);
    }
  }
  const beside = added.get(nginx)!;
  const results: Result[] = [];
  for (const server of proxies.filter((each) => each !== nginx)) {
    const what = server === gateway ? row.what : `${row.what}: ${server.name}`;
    for (const [index, at] of (["p50", "p99"] as const).entries()) {
      const ratio = spreadOf(added.get(server)![at].map((ours, round) => ratioOf(ours, beside[at][round]!)));
      const bound = server === gateway ? row.bounds?.[index] : undefined;
      results.push({ what: `added ${at} of ${what}`, against: nginx.name, ratio, ...(bound && { bound }) });
    }
  }
  return results;
}

/** Milliseconds: below this the clocks and the machine are what is measured. */
const LEAST = 0.02;

function ratioOf(ours: number, others: number): number {
  return Math.max(ours, LEAST) / Math.max(others, LEAST);
}
