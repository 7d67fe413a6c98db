import { randomBytes } from "node:crypto";
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { findProgram, REDIS_SERVER } from "../support/programs.ts";
import { startSlowProxy } from "../support/redis-proxy.ts";
import { type RedisServer, startRedis } from "../support/redis.ts";
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
import { spreadOf } from "./spread.ts";

/** Pages that are asked for in turn, and a memory that holds but a few of them. */
const PAGES = 300;
const SMALL_MEMORY = { maxBytes: "128KiB", maxObject: "64KiB" };

const EXPECTED = { status: 200, bodyLength: Buffer.byteLength(PAGE) };
const PAGE_REQUEST = requestText({ method: "GET", path: PAGE_PATH });
const SHARED = { ...EXPECTED, headHolds: "detail=shared" };
const NUMBERED_REQUEST = requestText({ method: "GET", path: `${PAGE_PATH}?pageSize={n}` });

const NUMBERED = { request: NUMBERED_REQUEST, numbering: "each" as const, from: 1, period: PAGES };

const MEMORY_HIT = "a memory hit";
const UNSEALED = "the same without a seal key";
const REDIS_WELL = "the same with Redis well";

/** The shared tier. */
export const redisRows: readonly Row[] = [
  { name: "redis-hit", run: withRedis(runHitRow) },
  { name: "redis-sealed", run: withRedis(runSealedRow) },
  { name: "redis-latency", run: withRedis(runLatencyRow) },
  { name: "redis-lone", run: withRedis(runLoneRow) },
  { name: "redis-slow", run: withRedis(runSlowRow) },
];

function withRedis(run: (context: BenchContext, redis: RedisServer) => Promise<Result[]>): Row["run"] {
  return async (context) => {
    if (findProgram(REDIS_SERVER) === undefined) {
      context.note("redis-server is not installed (Debian: redis-server): left out");
      return [];
    }
    const redis = await context.started(startRedis());
    return run(context, redis);
  };
}

/** A gateway that has to ask Redis for each of the numbered pages. */
async function startForgetful(
  context: BenchContext,
  config: Record<string, unknown>,
  name = "gateway",
): Promise<BenchServer> {
  const cache = { ...LASTING, memory: SMALL_MEMORY };
  const gateway = await context.started(
    startGateway({ name, config: { ...config, cache }, folder: newFolder(context) }),
  );
  const fill: LoadPlan = { ...NUMBERED, port: gateway.port, connections: 8, count: PAGES, expected: EXPECTED };
  await context.load.run(fill, gateway.pid);
  return gateway;
}

async function runHitRow(context: BenchContext, redis: RedisServer): Promise<Result[]> {
  const registry = await context.started(startRegistry());
  const config = { ...gatewayBefore([registry]), redis: { url: redis.url } };
  const forgetful = await startForgetful(context, config);
  const other = await context.started(startGateway({ name: MEMORY_HIT, config, folder: newFolder(context) }));
  await capture(other.port, { method: "GET", path: PAGE_PATH });
  const contestants = [
    {
      server: forgetful,
      plan: { ...NUMBERED, connections: CONNECTIONS, count: 4 * PAGES, expected: SHARED },
    },
    {
      server: other,
      plan: { connections: CONNECTIONS, count: 4 * PAGES, request: PAGE_REQUEST, expected: EXPECTED },
    },
  ];
  const measured = await compare(context.load, contestants, context);
  // A lookup that a busy machine delays beyond its bound is a miss.
  if (measured.holding(forgetful.name) < 0.95) throw new Error("too few of the answers were Redis hits");
  return cpuResults(measured, "Redis hit, page of 8.9 kB", [forgetful, other], { [MEMORY_HIT]: { bound: 4 } });
}

/** What it costs a Redis hit that its entry is sealed. */
async function runSealedRow(context: BenchContext, redis: RedisServer): Promise<Result[]> {
  const registry = await context.started(startRegistry());
  const folder = newFolder(context);
  mkdirSync(folder, { recursive: true });
  const sealKeyFile = join(folder, "seal-key");
  writeFileSync(sealKeyFile, randomBytes(32).toString("base64"), { mode: 0o600 });
  const start = (name: string, keys: Record<string, unknown>) =>
    startForgetful(context, { ...gatewayBefore([registry]), redis: { url: redis.url, ...keys } }, name);
  const sealed = await start("gateway", { keyPrefix: "sealed:", sealKeyFile });
  const plain = await start(UNSEALED, {});
  const contestants = [sealed, plain].map((server) => ({
    server,
    plan: { ...NUMBERED, connections: CONNECTIONS, count: 4 * PAGES, expected: SHARED },
  }));
  const measured = await compare(context.load, contestants, context);
  for (const { name } of [sealed, plain]) {
    if (measured.holding(name) < 0.95) throw new Error("too few of the answers were Redis hits");
  }
  return cpuResults(measured, "sealed Redis hit, page of 8.9 kB", [sealed, plain], { [UNSEALED]: { bound: 1.4 } });
}

/** Requests a second of all connections together, nearly; and how many a round has. */
const MODERATE = { connections: 4, pause: 10, count: 400 };
const ROUND_TRIPS = { count: 200, pause: 3 };

/** What a Redis hit may take beyond a round trip to Redis, milliseconds. */
const BEYOND_ROUND_TRIP = 2;

/** How long the slowest of a hundred Redis hits takes at moderate load, beside a round trip that brings as much. */
async function runLatencyRow(context: BenchContext, redis: RedisServer): Promise<Result[]> {
  const registry = await context.started(startRegistry());
  const gateway = await startForgetful(context, { ...gatewayBefore([registry]), redis: { url: redis.url } });
  const plan: LoadPlan = { ...NUMBERED, ...MODERATE, port: gateway.port, expected: SHARED };
  await redis.client.set("a page", PAGE);
  await context.load.run({ ...plan, pause: undefined, count: context.warmUp }, gateway.pid);
  const ratios: number[] = [];
  for (let round = 0; round < context.rounds; round += 1) {
    const { p99 } = await context.load.run(plan, gateway.pid);
    const allowed = (await roundTrip(redis)) + BEYOND_ROUND_TRIP;
    ratios.push(p99 / allowed);
  }
  return [
    {
      what: "p99 latency of Redis hits, 300 requests a second",
      against: "p99 of a round trip to Redis, and 2 ms",
      ratio: spreadOf(ratios),
      bound: 1,
    },
  ];
}

/** In memory hits, besides the round trip. */
const LONE = 2.5;

/** How long one Redis hit takes that comes alone, beside memory hits and a round trip that brings as much. */
async function runLoneRow(context: BenchContext, redis: RedisServer): Promise<Result[]> {
  const registry = await context.started(startRegistry());
  const config = { ...gatewayBefore([registry]), redis: { url: redis.url } };
  const forgetful = await startForgetful(context, config);
  const other = await context.started(startGateway({ name: MEMORY_HIT, config, folder: newFolder(context) }));
  await capture(other.port, { method: "GET", path: PAGE_PATH });
  await redis.client.set("a page", PAGE);
  const lone = { connections: 1, pause: 4, count: 200 };
  const shared: LoadPlan = { ...NUMBERED, ...lone, port: forgetful.port, expected: SHARED };
  const memory: LoadPlan = { ...lone, port: other.port, request: PAGE_REQUEST, expected: EXPECTED };
  for (const [plan, { pid }] of [[shared, forgetful] as const, [memory, other] as const]) {
    await context.load.run({ ...plan, pause: undefined, count: context.warmUp }, pid);
  }
  const ratios: number[] = [];
  for (let round = 0; round < context.rounds; round += 1) {
    const { p50 } = await context.load.run(shared, forgetful.pid);
    const hit = await context.load.run(memory, other.pid);
    ratios.push(p50 / (LONE * hit.p50 + (await roundTrip(redis, 0.5))));
  }
  return [
    {
      what: "p50 latency of a lone Redis hit",
      against: `${LONE} memory hits and a round trip to Redis`,
      ratio: spreadOf(ratios),
      bound: 1,
    },
  ];
}

/** One of a hundred at about the same rate, the slowest as a rule: a busy machine holds up both. Milliseconds. */
async function roundTrip({ client }: RedisServer, share = 0.99): Promise<number> {
  const times: number[] = [];
  for (let i = 0; i < ROUND_TRIPS.count; i += 1) {
    await sleep(ROUND_TRIPS.pause);
    const sentAt = performance.now();
    await client.getBuffer("a page");
    times.push(performance.now() - sentAt);
  }
  return times.toSorted((a, b) => a - b)[Math.floor((times.length - 1) * share)]!;
}

/** Milliseconds that a slow Redis takes in each direction. */
const SLOWNESS = 250;

/** Memory hits at moderate load, beside misses that have to wait for Redis. */
async function runSlowRow(context: BenchContext, redis: RedisServer): Promise<Result[]> {
  const registry = await context.started(startRegistry());
  const proxy = await context.started(startSlowProxy(redis.port));
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
  const well = await start(REDIS_WELL, redis.port);
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
