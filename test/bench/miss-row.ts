import { PAGE } from "./bodies.ts";
import { requestText } from "./client.ts";
import { compare, type Contestant } from "./comparison.ts";
import { startGateway } from "./gateway.ts";
import { PAGE_PATH } from "./hit-rows.ts";
import { startHttpProxy } from "./node-servers.ts";
import { type BenchRegistry, gatewayBefore, startRegistry } from "./registry.ts";
import { type BenchContext, cpuResults, newFolder, type Result, type Row } from "./row.ts";
import type { BenchServer } from "./server.ts";
import { findVarnish, startVarnish } from "./varnish.ts";

const CLIENTS = 100;
const WAVES = 15;

/** How long the registry takes: long enough for all clients to come in between. */
const DELAY = 20;

/** A hundred clients ask for the same cold page at once, then for the next: per client, against joining by others. */
export const missRow: Row = { name: "miss", run: runMissRow };

async function runMissRow(context: BenchContext): Promise<Result[]> {
  // A registry each, to tell how often each of them asks.
  const registries = new Map<BenchServer, BenchRegistry>();
  async function startBefore(start: (registry: BenchRegistry) => Promise<BenchServer>): Promise<void> {
    const registry = await context.started(startRegistry({ delay: DELAY }));
    registries.set(await context.started(start(registry)), registry);
  }
  await startBefore((registry) => startGateway({ config: gatewayBefore([registry]), folder: newFolder(context) }));
  await startBefore((registry) => startHttpProxy(registry.port));
  if (findVarnish() === undefined) context.note("Varnish is not installed (Debian: varnish): left out");
  else await startBefore((registry) => startVarnish(registry.port, newFolder(context)));

  const servers = [...registries.keys()];
  const contestants = servers.map((server): Contestant => {
    const path = server === servers[0] ? PAGE_PATH : "/registry/metadata/v1/instruments";
    const plan = {
      connections: CLIENTS,
      count: CLIENTS * WAVES,
      request: requestText({ method: "GET", path: `${path}?pageSize={n}` }),
      numbering: "wave" as const,
      expected: { status: 200, bodyLength: Buffer.byteLength(PAGE) },
    };
    return { server, plan };
  });
  const measured = await compare(context.load, contestants, {
    rounds: Math.ceil(context.rounds / 3),
    warmUp: context.warmUp / 2,
    vary: (plan, run) => ({ ...plan, from: 1 + run * WAVES }),
  });
  const asked = await Promise.all(
    [...registries].map(
      async ([{ name }, registry]) => `${name} ${((await registry.calls()) / measured.runs / WAVES).toFixed(2)}`,
    ),
  );
  context.note(`Calls upstream for each cold page that ${CLIENTS} clients ask for: ${asked.join(", ")}`);
  return cpuResults(measured, `miss that ${CLIENTS} clients join, page of 8.9 kB`, servers);
}
