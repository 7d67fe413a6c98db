import { findRedisServer } from "../support/redis-binary.ts";
import { startSlowProxy } from "../support/redis-proxy.ts";
import { startRedis } from "../support/redis.ts";
import { PAGE } from "./bodies.ts";
import { capture, requestText } from "./client.ts";
import { compare } from "./comparison.ts";
import { startGateway } from "./gateway.ts";
import { CONNECTIONS, PAGE_PATH } from "./hit-rows.ts";
import { Load } from "./load.ts";
import type { LoadPlan } from "./load-plan.ts";
import { gatewayBefore, LASTING, startRegistry } from "./registry.ts";
import { type BenchContext, cpuResults, newFolder, type Result, type Row } from "./row.ts";
import type { BenchServer } from "./server.ts";

/** Pages that are asked for in turn, and a memory that holds but a few of them. */
const PAGES = 300;
const SMALL_MEMORY = { maxBytes: "128KiB", maxObject: "64KiB" };

const EXPECTED = { status: 200, bodyLength: Buffer.byteLength(PAGE) };
const PAGE_REQUEST = requestText({ method: "GET", path: PAGE_PATH });
const NUMBERED_REQUEST = requestText({ method: "GET", path: `${PAGE_PATH}?pageSize={n}` });

const MEMORY_HIT = "a memory hit";
const REDIS_WELL = "the same with Redis well";

/** The shared tier. */
export const redisRows: readonly Row[] = [
  { name: "redis-hit", run: withRedis(runHitRow) },
  { name: "redis-slow", run: withRedis(runSlowRow) },
];

function withRedis(run: (context: BenchContext, redisPort: number) => Promise<Result[]>): Row["run"] {
  return async (context) => {
    if (findRedisServer() === undefined) {
      context.note("redis-server is not installed (Debian: redis-server): left out");
      return [];
    }
    const redis = await context.started(startRedis());
    return run(context, redis.port);
  };
}

async function runHitRow(context: BenchContext, redisPort: number): Promise<Result[]> {
  const registry = await context.started(startRegistry());
  const config = { ...gatewayBefore([registry]), redis: { url: urlOf(redisPort) } };
  const start = (name: string, cache: Record<string, unknown>) =>
    context.started(startGateway({ name, config: { ...config, cache }, folder: newFolder(context) }));
  const forgetful = await start("gateway", { ...LASTING, memory: SMALL_MEMORY });
  const other = await start(MEMORY_HIT, LASTING);
  await capture(other.port, { method: "GET", path: PAGE_PATH });

  const numbered = { request: NUMBERED_REQUEST, numbering: "each" as const, from: 1, period: PAGES };
  const fill: LoadPlan = { ...numbered, port: forgetful.port, connections: 8, count: PAGES, expected: EXPECTED };
  await context.load.run(fill, forgetful.pid);
  const shared = { ...EXPECTED, headHolds: "detail=shared" };
  const contestants = [
    {
      server: forgetful,
      plan: { ...numbered, connections: CONNECTIONS, count: 4 * PAGES, expected: shared },
    },
    {
      server: other,
      plan: { connections: CONNECTIONS, count: 4 * PAGES, request: PAGE_REQUEST, expected: EXPECTED },
    },
  ];
  const measured = await compare(context.load, contestants, context);
  // A lookup that a busy machine delays beyond its bound is a miss.
  if (measured.holding(forgetful.name) < 0.95) throw new Error("too few of the answers were Redis hits");
  return cpuResults(measured, "Redis hit, page of 8.9 kB", [forgetful, other], { [MEMORY_HIT]: { bound: 3 } });
}

/** Milliseconds that a slow Redis takes in each direction. */
const SLOWNESS = 250;

/** Memory hits at moderate load, beside misses that have to wait for Redis. */
async function runSlowRow(context: BenchContext, redisPort: number): Promise<Result[]> {
  const registry = await context.started(startRegistry());
  const proxy = await context.started(startSlowProxy(redisPort));
  const misses = await context.started(Load.start());
  const start = (name: string, port: number) =>
    context.started(
      startGateway({
        name,
        config: { ...gatewayBefore([registry]), redis: { url: urlOf(port) } },
        folder: newFolder(context),
      }),
    );
  const slow = await start("gateway", proxy.port);
  const well = await start(REDIS_WELL, redisPort);
  for (const { port } of [slow, well]) await capture(port, { method: "GET", path: PAGE_PATH });
  proxy.latency = SLOWNESS;

  let missed = 0;
  const load: Pick<Load, "run"> = {
    async run(plan, pid) {
      const cold: LoadPlan = {
        port: plan.port,
        connections: 2,
        count: 10,
        request: NUMBERED_REQUEST,
        numbering: "each",
        from: (missed += 10),
        expected: EXPECTED,
      };
      const [measurement] = await Promise.all([context.load.run(plan, pid), misses.run(cold, pid)]);
      return measurement;
    },
  };
  const plan = { connections: 4, count: 1_000, request: PAGE_REQUEST, expected: EXPECTED };
  const servers: BenchServer[] = [slow, well];
  const contestants = servers.map((server) => ({ server, plan }));
  const measured = await compare(load, contestants, { ...context, warmUp: context.warmUp / 4 });
  const against = REDIS_WELL;
  return (["p50", "p99"] as const).map((quantile) => ({
    what: `${quantile} latency of memory hits, Redis taking 500 ms`,
    against,
    ratio: measured.ratio(slow.name, against, quantile),
  }));
}

function urlOf(port: number): string {
  return `redis://127.0.0.1:${port}`;
}
