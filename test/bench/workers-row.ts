import { startGateway } from "./gateway.ts";
import { compareHits } from "./hits.ts";
import { gatewayBefore, startRegistry } from "./registry.ts";
import { type BenchContext, cpuResults, newFolder, type Result, type Row } from "./row.ts";

const ONE = "one process";

/** Equal processes differ by some per cent for as long as they live: so two of each. */
const PROCESSES = 2;

/** What a memory hit costs where two workers share the port: all processes together. */
export const workersRow: Row = { name: "workers", run: runWorkersRow };

async function runWorkersRow(context: BenchContext): Promise<Result[]> {
  const registry = await context.started(startRegistry());
  const start = (name: string, workers: number) =>
    context.started(
      startGateway({ name, config: { ...gatewayBefore([registry]), workers }, folder: newFolder(context) }),
    );
  const servers = [];
  for (let i = 0; i < PROCESSES; i += 1) servers.push(await start("two workers", 2), await start(ONE, 1));
  const measured = await compareHits({ ...context, warmUp: 2 * context.warmUp }, servers);
  return cpuResults(measured, "memory hit with two workers", servers.slice(0, 2), { [ONE]: { bound: 1.1 } });
}
