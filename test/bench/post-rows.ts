import { FACTORY_REQUEST, FACTORY_REQUEST_V2, FACTORY_RESPONSE } from "./bodies.ts";
import { requestText } from "./client.ts";
import { compare } from "./comparison.ts";
import { startGateway } from "./gateway.ts";
import { REGISTRAR } from "./hit-rows.ts";
import { findNginx, startNginx } from "./nginx.ts";
import { startHttpProxy, startLeastProxy } from "./node-servers.ts";
import { type BenchRegistry, gatewayBefore, startRegistry } from "./registry.ts";
import { type BenchContext, cpuResults, type Limits, newFolder, type Result, type Row } from "./row.ts";
import type { BenchServer } from "./server.ts";

interface FactoryCall {
  readonly path: string;
  readonly body: string;
}

const V1: FactoryCall = { path: "/registry/transfer-instruction/v1/transfer-factory", body: FACTORY_REQUEST };
const V2: FactoryCall = { path: "/registry/transfer-instruction/v2/transfer-factory", body: FACTORY_REQUEST_V2 };
const REQUESTS = 1_500;
const CONNECTIONS = 16;

/** The gateway before one node, without a limit. */
const PLAIN = "the row without";

const LIMITS: Limits = {
  "stock @fastify/http-proxy": { bound: 0.85 },
  "least Node proxy": { bound: 1.4 },
  [PLAIN]: { bound: 1.15 },
};

const POST = "POST factory, 1.5 kB in, 13 kB out";
const CARE = "the same with two nodes, hedging and a rate limit";
const POST_V2 = "POST factory of version 2, 1.5 kB in, 13 kB out";

/** Factory calls with all checks, against proxies that only pass them on. */
export const postRows: readonly Row[] = [
  {
    name: "post",
    run: (context) => runPostRow(context, { what: POST, call: V1 }, ([node]) => gatewayBefore([node!])),
  },
  {
    name: "post-v2",
    run: (context) => runPostRow(context, { what: POST_V2, call: V2 }, ([node]) => gatewayBefore([node!])),
  },
  {
    name: "post-care",
    run: (context) =>
      runPostRow(context, { what: CARE, call: V1 }, (nodes) =>
        gatewayBefore(nodes, { rateLimit: { requests: 1_000_000, per: "1m", maxWait: "2s" } }),
      ),
  },
];

async function runPostRow(
  context: BenchContext,
  { what, call }: { readonly what: string; readonly call: FactoryCall },
  configOf: (nodes: readonly BenchRegistry[]) => Record<string, unknown>,
): Promise<Result[]> {
  const node = await context.started(startRegistry());
  const other = await context.started(startRegistry());
  const config = configOf([node, other]);
  const gateway = await context.started(startGateway({ config, folder: newFolder(context) }));
  const servers: BenchServer[] = [gateway, await context.started(startHttpProxy(node.port))];
  if (findNginx() === undefined) context.note("nginx is not installed (Debian: nginx-light): left out");
  else {
    const options = { upstream: node.port, caches: false, folder: newFolder(context) };
    servers.push(await context.started(startNginx(options)));
  }

  const gateways = [gateway];
  if (what === CARE) {
    const plain = { config: gatewayBefore([node]), folder: newFolder(context), name: PLAIN };
    gateways.push(await context.started(startGateway(plain)));
  }
  servers.push(...gateways.slice(1));

  const planOf = (server: BenchServer) => ({
    connections: CONNECTIONS,
    count: REQUESTS,
    request: requestText({
      method: "POST",
      path: gateways.some((each) => each === server) ? REGISTRAR + call.path : call.path,
      body: call.body,
    }),
    expected: { status: 200, bodyLength: Buffer.byteLength(FACTORY_RESPONSE) },
  });
  const least = await context.started(startLeastProxy(node.port));
  const contestants = [...servers, least].map((server) => ({ server, plan: planOf(server) }));
  const measured = await compare(context.load, contestants, context);
  const results = cpuResults(measured, what, [...servers, least], LIMITS);
  // What is left to the checks within those bounds.
  if (what === POST) results.push(...cpuResults(measured, `${what}: ${least.name}`, [least, ...servers.slice(1)]));
  return results;
}
