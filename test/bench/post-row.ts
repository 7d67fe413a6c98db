import { FACTORY_REQUEST, FACTORY_RESPONSE } from "./bodies.ts";
import { type HttpRequest, requestText } from "./client.ts";
import { compare } from "./comparison.ts";
import { startGateway } from "./gateway.ts";
import { REGISTRAR } from "./hit-rows.ts";
import { findNginx, startNginx } from "./nginx.ts";
import { startHttpProxy } from "./node-servers.ts";
import { gatewayBefore, startRegistry } from "./registry.ts";
import { type BenchContext, cpuResults, type Limits, newFolder, type Result, type Row } from "./row.ts";
import type { BenchServer } from "./server.ts";

const FACTORY = "/registry/transfer-instruction/v1/transfer-factory";
const REQUESTS = 1_500;
const CONNECTIONS = 32;

const LIMITS: Limits = {
  "stock @fastify/http-proxy": { bound: 0.6, aim: 0.45 },
  "nginx proxy_pass": { bound: 2.5, aim: 2 },
};

/** A factory call with all checks and all care for upstreams, against proxies that only pass it on. */
export const postRow: Row = { name: "post", run: runPostRow };

async function runPostRow(context: BenchContext): Promise<Result[]> {
  // Two nodes, for hedging and failing over to be in force.
  const registry = await context.started(startRegistry());
  const other = await context.started(startRegistry());
  const config = gatewayBefore([registry, other]);
  const gateway = await context.started(startGateway({ config, folder: newFolder(context) }));
  const proxy = await context.started(startHttpProxy(registry.port));
  const servers: BenchServer[] = [gateway, proxy];
  if (findNginx() === undefined) context.note("nginx is not installed (Debian: nginx-light): left out");
  else {
    const options = { upstream: registry.port, caches: false, folder: newFolder(context) };
    servers.push(await context.started(startNginx(options)));
  }

  const post = (path: string): HttpRequest => ({ method: "POST", path, body: FACTORY_REQUEST });
  const planOf = (server: BenchServer) => ({
    connections: CONNECTIONS,
    count: REQUESTS,
    request: requestText(post(server === gateway ? REGISTRAR + FACTORY : FACTORY)),
    expected: { status: 200, bodyLength: Buffer.byteLength(FACTORY_RESPONSE) },
  });
  const measured = await compare(
    context.load,
    servers.map((server) => ({ server, plan: planOf(server) })),
    context,
  );
  return cpuResults(measured, "POST factory, 1.5 kB in, 13 kB out", servers, LIMITS);
}
