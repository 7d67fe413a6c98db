import { fileURLToPath } from "node:url";
import { PAGE } from "./bodies.ts";
import { capture, requestText } from "./client.ts";
import { compare } from "./comparison.ts";
import { startGateway } from "./gateway.ts";
import { CONNECTIONS, PAGE_PATH } from "./hit-rows.ts";
import { gatewayBefore, startRegistry } from "./registry.ts";
import { type BenchContext, cpuResults, newFolder, type Result, type Row } from "./row.ts";

const REQUESTS = 2_500;

/** Equal processes differ by some per cent for as long as they live: so three of each. */
const PROCESSES = 3;

const UNMETERED = "the same without metrics";

/** What metrics cost of a memory hit. */
export const metricsRow: Row = { name: "metrics", run: runMetricsRow };

async function runMetricsRow(context: BenchContext): Promise<Result[]> {
  const registry = await context.started(startRegistry());
  const config = gatewayBefore([registry]);
  const program = fileURLToPath(new URL("unmetered-gateway.ts", import.meta.url));
  const kinds = [{}, { name: UNMETERED, program }];
  const servers = await Promise.all(
    Array.from({ length: PROCESSES }, () => kinds)
      .flat()
      .map((kind) => context.started(startGateway({ config, folder: newFolder(context), ...kind }))),
  );
  const request = { method: "GET", path: PAGE_PATH } as const;
  for (const { port } of servers) await capture(port, request);
  const plan = {
    connections: CONNECTIONS,
    count: REQUESTS,
    request: requestText(request),
    expected: { status: 200, bodyLength: Buffer.byteLength(PAGE) },
  };
  const contestants = servers.map((server) => ({ server, plan }));
  const measured = await compare(context.load, contestants, context);
  return cpuResults(measured, "memory hit with metrics", servers.slice(0, 2), { [UNMETERED]: { bound: 1.05 } });
}
