import { FACTORY_REQUEST, FACTORY_RESPONSE } from "./bodies.ts";
import { requestText } from "./client.ts";
import { compare, type Contestant } from "./comparison.ts";
import { startGateway } from "./gateway.ts";
import { REGISTRAR } from "./hit-rows.ts";
import { type BenchRegistry, gatewayBefore, startRegistry } from "./registry.ts";
import { type BenchContext, cpuResults, newFolder, type Result, type Row } from "./row.ts";
import type { BenchServer } from "./server.ts";

export const FACTORY_PLAN = {
  connections: 16,
  count: 1_500,
  request: requestText({
    method: "POST",
    path: `${REGISTRAR}/registry/transfer-instruction/v1/transfer-factory`,
    body: FACTORY_REQUEST,
  }),
  expected: { status: 200, bodyLength: Buffer.byteLength(FACTORY_RESPONSE) },
} as const;

const ONE_NODE = "one node's word";
const EACH_A_CALL = "a call for each";
const CLIENTS = 100;
const WAVES = 15;

/** How long the registry takes: long enough for all clients to come in between. */
const DELAY = 20;

/** What it costs to ask two nodes, and what it spares to ask once for many clients. */
export const agreementRows: readonly Row[] = [
  { name: "agreement", run: runAgreementRow },
  { name: "share", run: runShareRow },
];

async function runAgreementRow(context: BenchContext): Promise<Result[]> {
  const nodes = [await context.started(startRegistry()), await context.started(startRegistry())];
  const agreement = { agreement: { contexts: 2 } };
  const servers = [
    await context.started(startGateway({ config: gatewayBefore(nodes, agreement), folder: newFolder(context) })),
    await context.started(
      startGateway({ config: gatewayBefore(nodes.slice(0, 1)), folder: newFolder(context), name: ONE_NODE }),
    ),
  ];
  const contestants = servers.map((server) => ({ server, plan: FACTORY_PLAN }));
  const measured = await compare(context.load, contestants, context);
  return cpuResults(measured, "POST factory that 2 of 2 nodes agree on, 13 kB out", servers, {
    [ONE_NODE]: { bound: 3 },
  });
}

/** A hundred clients ask the same at once, again and again. */
async function runShareRow(context: BenchContext): Promise<Result[]> {
  const registries = new Map<BenchServer, BenchRegistry>();
  for (const [name, share] of [
    ["gateway", true],
    [EACH_A_CALL, false],
  ] as const) {
    const registry = await context.started(startRegistry({ delay: DELAY }));
    // So that no call waits for its turn.
    const config = gatewayBefore([registry], { contexts: { share }, concurrency: { max: CLIENTS } });
    registries.set(await context.started(startGateway({ config, folder: newFolder(context), name })), registry);
  }
  const plan = { ...FACTORY_PLAN, connections: CLIENTS, count: CLIENTS * WAVES, numbering: "wave" as const };
  const servers = [...registries.keys()];
  const contestants = servers.map((server): Contestant => ({ server, plan }));
  // The gateway's own checks are no calls of clients.
  for (const registry of registries.values()) await registry.calls();
  const measured = await compare(context.load, contestants, {
    rounds: Math.ceil(context.rounds / 3),
    warmUp: context.warmUp / 2,
  });
  const asked = await Promise.all(
    [...registries].map(
      async ([{ name }, registry]) => `${name} ${((await registry.calls()) / measured.runs / WAVES).toFixed(2)}`,
    ),
  );
  context.note(`Calls for a factory that ${CLIENTS} clients ask for at once: ${asked.join(", ")}`);
  return cpuResults(measured, `POST factory that ${CLIENTS} clients share, 13 kB out`, servers, {
    [EACH_A_CALL]: { bound: 1 },
  });
}
