import { PAGE } from "./bodies.ts";
import { capture, requestText } from "./client.ts";
import { compare, type Comparison } from "./comparison.ts";
import { CONNECTIONS, PAGE_PATH } from "./hit-rows.ts";
import type { BenchContext } from "./row.ts";
import type { BenchServer } from "./server.ts";

const REQUESTS = 3_000;

/** Compares gateways by their memory hits of one page. */
export async function compareHits(context: BenchContext, servers: readonly BenchServer[]): Promise<Comparison> {
  const request = { method: "GET", path: PAGE_PATH } as const;
  for (const { port } of servers) await capture(port, request);
  const plan = {
    connections: CONNECTIONS,
    count: REQUESTS,
    request: requestText(request),
    expected: { status: 200, bodyLength: Buffer.byteLength(PAGE) },
  };
  return compare(
    context.load,
    servers.map((server) => ({ server, plan })),
    context,
  );
}
