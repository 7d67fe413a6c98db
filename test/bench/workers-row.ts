import { fileURLToPath } from "node:url";
import { PAGE } from "./bodies.ts";
import { requestText } from "./client.ts";
import { compare } from "./comparison.ts";
import { type BenchGateway, startGateway } from "./gateway.ts";
import { PAGE_PATH } from "./hit-rows.ts";
import { compareHits } from "./hits.ts";
import { gatewayBefore, startRegistry } from "./registry.ts";
import { type BenchContext, cpuResults, newFolder, type Result, type Row } from "./row.ts";

const ONE = "one process";
const UNPURGED = "before any purge";
const UNSHARED = "workers without a shared tier";

/** Equal processes differ by some per cent for as long as they live: so two of each. */
const PROCESSES = 2;

export const workersRows: readonly Row[] = [
  { name: "workers", run: runWorkersRow },
  { name: "workers-purged", run: runPurgedRow },
  { name: "workers-shared", run: runSharedRow },
];

/** What a memory hit costs where two workers share the port: all processes together. */
async function runWorkersRow(context: BenchContext): Promise<Result[]> {
  const registry = await context.started(startRegistry());
  const start = (name: string, workers: number) =>
    context.started(
      startGateway({ name, config: { ...gatewayBefore([registry]), workers }, folder: newFolder(context) }),
    );
  const servers = [];
  for (let i = 0; i < PROCESSES; i += 1) servers.push(await start("two workers", 2), await start(ONE, 1));
  const measured = await compareHits({ ...context, warmUp: 2 * context.warmUp }, servers);
  return cpuResults(measured, "memory hit with two workers", servers.slice(0, 2), { [ONE]: { bound: 1.3 } });
}

/** What purges leave behind on the way of a hit. */
async function runPurgedRow(context: BenchContext): Promise<Result[]> {
  const registry = await context.started(startRegistry());
  const config = { ...gatewayBefore([registry]), workers: 2 };
  const start = (name: string) => context.started(startGateway({ name, config, folder: newFolder(context) }));
  const servers = [];
  for (let i = 0; i < PROCESSES; i += 1) {
    const purged = await start("after purges");
    for (const body of [{}, { upstream: "amulet" }, { upstream: "amulet", endpoint: "info" }])
      await purge(purged, body);
    servers.push(purged, await start(UNPURGED));
  }
  const measured = await compareHits({ ...context, warmUp: 2 * context.warmUp }, servers);
  return cpuResults(measured, "memory hit with two workers after three purges", servers.slice(0, 2), {
    [UNPURGED]: { bound: 1.05 },
  });
}

async function purge({ operationsPort }: BenchGateway, body: object): Promise<void> {
  const response = await fetch(`http://127.0.0.1:${operationsPort}/purge`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify(body),
  });
  if (!response.ok) throw new Error(`the purge was refused: ${await response.text()}`);
}

/** Connections of all workers ask for the same page, then for the next. */
const CLIENTS = 32;
const WAVES = 40;

/** What it brings that workers share what they fetched: calls to the registry, and CPU, for pages that all ask for. */
async function runSharedRow(context: BenchContext): Promise<Result[]> {
  const shared = await context.started(startRegistry());
  const unshared = await context.started(startRegistry());
  const start = (name: string, registry: typeof shared, program?: string) =>
    context.started(
      startGateway({
        name,
        config: { ...gatewayBefore([registry]), workers: 2 },
        folder: newFolder(context),
        ...(program === undefined ? {} : { program: fileURLToPath(new URL(program, import.meta.url)) }),
      }),
    );
  const servers = [await start("workers", shared), await start(UNSHARED, unshared, "unshared-gateway.ts")];
  const plan = {
    connections: CLIENTS,
    count: CLIENTS * WAVES,
    request: requestText({ method: "GET", path: `${PAGE_PATH}?pageSize={n}` }),
    numbering: "wave" as const,
    expected: { status: 200, bodyLength: Buffer.byteLength(PAGE) },
  };
  const contestants = servers.map((server) => ({ server, plan }));
  const measured = await compare(context.load, contestants, {
    rounds: Math.ceil(context.rounds / 3),
    warmUp: context.warmUp / 2,
    vary: (each, run) => ({ ...each, from: 1 + run * WAVES }),
  });
  const calls = [await shared.calls(), await unshared.calls()];
  const asked = servers.map(({ name }, i) => `${name} ${(calls[i]! / measured.runs / WAVES).toFixed(2)}`);
  context.note(`Calls upstream for each cold page that both workers are asked for: ${asked.join(", ")}`);
  return cpuResults(measured, "cold page that both of two workers are asked for", servers);
}
