import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { createKey, digestOfKey } from "../../src/clients/api-key.ts";
import { PAGE } from "./bodies.ts";
import { capture, type HttpRequest, requestText } from "./client.ts";
import { compare, type Contestant } from "./comparison.ts";
import { startGateway } from "./gateway.ts";
import { CONNECTIONS, PAGE_PATH } from "./hit-rows.ts";
import { startBare } from "./node-servers.ts";
import { gatewayBefore, startRegistry } from "./registry.ts";
import { type BenchContext, cpuResults, newFolder, type Result, type Row } from "./row.ts";
import type { BenchServer } from "./server.ts";

const REQUESTS = 3_000;

/** Equal processes differ by some per cent for as long as they live: so three of each. */
const PROCESSES = 3;

const WITHOUT = "the same without clients";

/** What it costs to know who calls, and to send a client away. */
export const clientRows: readonly Row[] = [
  { name: "client-hit", run: runHitRow },
  { name: "over-limit", run: runOverLimitRow },
];

/** A gateway without clients and one with a client of each tier, in three processes each. */
async function startGateways(context: BenchContext) {
  const registry = await context.started(startRegistry());
  const folder = newFolder(context);
  mkdirSync(folder, { recursive: true });
  const keys = { large: createKey(), small: createKey() };
  const entries = Object.entries(keys).map(([tier, key]) => ({ name: tier, tier, digest: digestOfKey(key) }));
  const keysFile = join(folder, "clients.jsonl");
  writeFileSync(keysFile, entries.map((entry) => `${JSON.stringify(entry)}\n`).join(""));
  const posts = { requests: 1_000_000, per: "1m" };
  const tiers = {
    large: { requests: 10_000_000, per: "1m", posts, concurrency: 100, upstreams: ["amulet"] },
    // Its window stays full for the day.
    small: { requests: 1, per: "24h" },
  };
  const without = gatewayBefore([registry]);
  const knowing = { ...without, clients: { keysFile, tiers } };
  const start = (name: string, config: Record<string, unknown>) =>
    Promise.all(
      Array.from({ length: PROCESSES }, () =>
        context.started(startGateway({ config, folder: newFolder(context), name })),
      ),
    );
  return { keys, plain: await start(WITHOUT, without), knowing: await start("gateway", knowing) };
}

async function runHitRow(context: BenchContext): Promise<Result[]> {
  const { keys, plain, knowing } = await startGateways(context);
  const contestants = await Promise.all([...knowing, ...plain].map((server) => asking(server, keys.large, 200)));
  const measured = await compare(context.load, contestants, context);
  const what = "memory hit with a key and a tier's limits";
  return cpuResults(measured, what, [knowing[0]!, plain[0]!], { [WITHOUT]: { bound: 1.15 } });
}

async function runOverLimitRow(context: BenchContext): Promise<Result[]> {
  const { keys, plain, knowing } = await startGateways(context);
  const refused = await Promise.all(knowing.map((server) => asking(server, keys.small, 429)));
  const hits = await Promise.all(plain.map((server) => asking(server, keys.small, 200)));
  const answer = await capture(knowing[0]!.port, requestWith(keys.small));
  const bare = await Promise.all(Array.from({ length: PROCESSES }, () => context.started(startBare(answer))));
  const same = bare.map((server) => ({ server, plan: refused[0]!.plan }));
  const measured = await compare(context.load, [...refused, ...hits, ...same], context);
  const servers = [knowing[0]!, plain[0]!, bare[0]!];
  const limits = { [WITHOUT]: { bound: 0.8 }, [bare[0]!.name]: { bound: 0.8 } };
  const what = "request of a client over its limit";
  const [besideHit, besideBare] = cpuResults(measured, what, servers, limits);
  return [{ ...besideHit!, against: "a memory hit without clients" }, besideBare!];
}

function requestWith(key: string): HttpRequest {
  return { method: "GET", path: PAGE_PATH, fields: ["x-api-key", key] };
}

/** Asks for a page with a key, until the answer is the one that is to be measured. */
async function asking(server: BenchServer, key: string, status: number): Promise<Contestant> {
  const request = requestWith(key);
  await capture(server.port, request);
  const answer = await capture(server.port, request);
  const bodyLength = Buffer.from(answer.body, "base64").length;
  const isExpected = answer.status === status && (status !== 200 || bodyLength === Buffer.byteLength(PAGE));
  if (!isExpected) throw new Error(`${server.name}: ${answer.status} ${Buffer.from(answer.body, "base64").toString()}`);
  return {
    server,
    plan: {
      connections: CONNECTIONS,
      count: REQUESTS,
      request: requestText(request),
      // A refusal's body has the id of its request, which is a count.
      expected: { status, bodyLength: status === 200 ? bodyLength : undefined },
    },
  };
}
