import { FACTORY_RESPONSE, WORST_REQUEST } from "./bodies.ts";
import { requestText } from "./client.ts";
import { compare } from "./comparison.ts";
import { startGateway } from "./gateway.ts";
import { REGISTRAR } from "./hit-rows.ts";
import { startHttpProxy } from "./node-servers.ts";
import { gatewayBefore, startRegistry } from "./registry.ts";
import { cpuResults, type Limits, newFolder, type Row } from "./row.ts";

const FACTORY = "/registry/transfer-instruction/v1/transfer-factory";
const REQUESTS = 24;
const CONNECTIONS = 4;
const WARM_UP = 8;

// Most of it is parsing, in a thread of its own: some 0.1 s of CPU, in which everything else goes on.
const LIMITS: Limits = { "stock @fastify/http-proxy": { bound: 60, aim: 40 } };

/** The body that costs most for its size, against a proxy that only passes it on. */
export const worstBodyRow: Row = {
  name: "post-worst",
  async run(context) {
    const node = await context.started(startRegistry());
    const config = gatewayBefore([node]);
    const gateway = await context.started(startGateway({ config, folder: newFolder(context) }));
    const proxy = await context.started(startHttpProxy(node.port));
    const planOf = (path: string) => ({
      connections: CONNECTIONS,
      count: REQUESTS,
      request: requestText({ method: "POST", path, body: WORST_REQUEST }),
      expected: { status: 200, bodyLength: Buffer.byteLength(FACTORY_RESPONSE) },
    });
    const contestants = [
      { server: gateway, plan: planOf(REGISTRAR + FACTORY) },
      { server: proxy, plan: planOf(FACTORY) },
    ];
    const measured = await compare(context.load, contestants, { ...context, warmUp: WARM_UP });
    return cpuResults(measured, "POST factory, the worst 1 MiB there is", [gateway, proxy], LIMITS);
  },
};
