import { setTimeout as sleep } from "node:timers/promises";
import { Agent, request } from "undici";
import { spreadOf } from "../bench/spread.ts";
import { startCluster } from "../support/redis-cluster.ts";
import { type RedisServer, startRedis } from "../support/redis.ts";
import { type ScaledGateway, startScaled } from "./gateways.ts";
import { NUMBER_FIELD, pagePath, type Registries, startRegistries } from "./registries.ts";
import { round, type ScaleContext, type ScaleTable } from "./table.ts";

/** Each page of a run is that of another registry. */
const REGISTRIES = 50;

/** All of them are on each page, however many it is asked for: all pages are as long. */
const INSTRUMENTS = 20;

/** Purges of a run, and how long all replicas are asked after each. */
const PURGES = 5;
const WATCH = 1_000;

/** Seconds without requests. */
const IDLE = 5;

/** So long after the last request all has been written to Redis. */
const SETTLED = 500;

/** What some requests cost Redis, each of them. */
interface RedisCost {
  /** By name, as `INFO commandstats` counts them: scripts, and what they call. */
  readonly commands: ReadonlyMap<string, number>;
  readonly bytesIn: number;
  readonly bytesOut: number;
}

interface Measured {
  /** A second, with a page of each registry in each memory. */
  readonly idle: RedisCost;
  readonly miss: RedisCost;
  /** Undefined with one replica: what it fetched is in its memory. */
  readonly hit: RedisCost | undefined;
  /** Calls to the registry for each page that all replicas are asked for at once. */
  readonly calls: number;
  /** Bytes that a page more takes in Redis. */
  readonly bytes: number;
  /** Milliseconds from the answer to a purge to the last request that still got what was purged. */
  readonly purge: { readonly median: number; readonly most: number };
}

/** What more replicas cost that share a Redis, or a Cluster of three. */
export async function measureReplicas(context: ScaleContext): Promise<ScaleTable> {
  const counts = context.isSmall ? [1, 2] : [1, 2, 4, 8];
  const registries = await context.started(startRegistries({ count: REGISTRIES, instruments: INSTRUMENTS }));
  const redis = await context.started(startRedis());
  const single = await measureGrowth(context, { counts, registries, config: { url: redis.url }, servers: [redis] });
  const cluster = await context.started(startCluster());
  const config = { cluster: { nodes: cluster.urls } };
  const sharded = await measureGrowth(context, { counts, registries, config, servers: cluster.masters });
  return {
    what: "replicas",
    sizes: counts.map(String),
    rows: [...rowsOf("one Redis", single), ...rowsOf("a Cluster of three", sharded)],
  };
}

function rowsOf(where: string, measured: readonly Measured[]): (readonly [string, ...string[]])[] {
  const cost = (what: string, of: (each: Measured) => RedisCost | undefined) => {
    const costs = measured.map(of);
    return [
      [`${where}: commands of ${what}`, ...costs.map((each) => (each === undefined ? "–" : formatCommands(each)))],
      [
        `${where}: bytes in and out, of ${what}`,
        ...costs.map((each) => (each === undefined ? "–" : `${round(each.bytesIn)}, ${round(each.bytesOut)}`)),
      ],
    ] as const;
  };
  return [
    ...cost("a miss", ({ miss }) => miss),
    ...cost("a Redis hit", ({ hit }) => hit),
    ...cost("an idle second", ({ idle }) => idle),
    [`${where}: memory of a page of 5 kB`, ...measured.map(({ bytes }) => `${round(bytes / 1000, 1)} kB`)],
    [`${where}: calls to the registry for a cold page, asked of all`, ...measured.map(({ calls }) => round(calls, 2))],
    [
      `${where}: last old answer after that to a purge, median and most of ${PURGES}`,
      ...measured.map(({ purge }) => `${round(purge.median)} ms, ${round(purge.most)} ms`),
    ],
  ];
}

/** How many in all, and which most of all. */
function formatCommands({ commands }: RedisCost): string {
  const sum = [...commands.values()].reduce((total, count) => total + count, 0);
  const sorted = [...commands].toSorted(([, a], [, b]) => b - a);
  const named = sorted.filter(([, count]) => count >= 0.5 && count >= sum / 20);
  return `${round(sum)} (${named.map(([name, count]) => `${name} ${round(count, 1)}`).join(", ")})`;
}

interface Growth {
  readonly counts: readonly number[];
  readonly registries: Registries;
  /** `redis` of the gateways. */
  readonly config: Record<string, unknown>;
  readonly servers: readonly RedisServer[];
}

/** Starts one replica after the other, and measures at each of the `counts`. */
async function measureGrowth(context: ScaleContext, growth: Growth): Promise<Measured[]> {
  const { counts, registries, config } = growth;
  const replicas: ScaledGateway[] = [];
  const measured: Measured[] = [];
  try {
    for (const count of counts) {
      while (replicas.length < count) {
        replicas.push(await startScaled(context, { ...registries.configOf(REGISTRIES), redis: config }));
      }
      measured.push(await measure(new Fleet(replicas, growth)));
    }
  } finally {
    await Promise.all(replicas.map((replica) => replica.stop()));
  }
  return measured;
}

async function measure(fleet: Fleet): Promise<Measured> {
  const used = fleet.newPages();
  for (let at = 0; at < fleet.size; at += 1) await fleet.askEach(used, at);
  await sleep(SETTLED);
  const idle = await fleet.cost(IDLE, () => sleep(IDLE * 1_000 - SETTLED));
  const misses = [...fleet.newPages(), ...fleet.newPages()];
  const stored = await fleet.redisBytes();
  const miss = await fleet.cost(misses.length, () => fleet.askEach(misses, 0), idle);
  const bytes = ((await fleet.redisBytes()) - stored) / misses.length;
  const hit =
    fleet.size === 1 ? undefined : await fleet.cost(misses.length, () => fleet.askEach(misses, fleet.size - 1), idle);
  const before = await fleet.registries.pages();
  for (const page of fleet.newPages()) await Promise.all(fleet.replicas.map((_, at) => fleet.ask(page, at)));
  const calls = ((await fleet.registries.pages()) - before) / REGISTRIES;
  const lags: number[] = [];
  for (let i = 0; i < PURGES; i += 1) lags.push(await fleet.purgeLag());
  await fleet.close();
  return {
    idle,
    miss,
    hit,
    calls,
    bytes,
    purge: { median: spreadOf(lags).median, most: Math.max(...lags) },
  };
}

/** Pages that no run has asked for yet. */
let pageSize = 20;

/** The replicas of a run, and their Redis. */
class Fleet {
  readonly replicas: readonly ScaledGateway[];
  readonly registries: Registries;
  private readonly servers: readonly RedisServer[];
  private readonly agent = new Agent();

  constructor(replicas: readonly ScaledGateway[], { registries, servers }: Growth) {
    this.replicas = [...replicas];
    this.registries = registries;
    this.servers = servers;
  }

  get size(): number {
    return this.replicas.length;
  }

  /** Paths of cold pages, one of each registry. */
  newPages(): string[] {
    pageSize += 1;
    return Array.from({ length: REGISTRIES }, (_, at) => pagePath(at, pageSize));
  }

  /** Asks a replica for a page. Returns which page of the registries it is, and fails where it is none. */
  async ask(path: string, at: number): Promise<number> {
    const { statusCode, headers, body } = await request(`http://127.0.0.1:${this.replicas[at]!.port}${path}`, {
      dispatcher: this.agent,
    });
    const text = await body.text();
    if (statusCode !== 200) throw new Error(`${path}: ${text}`);
    return Number(headers[NUMBER_FIELD]);
  }

  async askEach(paths: readonly string[], at: number): Promise<void> {
    for (const path of paths) await this.ask(path, at);
  }

  /** What `work` costs Redis for each of its `count` requests, without what goes on by itself. */
  async cost(count: number, work: () => Promise<unknown>, idle?: RedisCost): Promise<RedisCost> {
    const before = await this.total();
    const begun = performance.now();
    await work();
    await sleep(SETTLED);
    const after = await this.total();
    const seconds = (performance.now() - begun) / 1000;
    const share = (used: number, idleUse = 0) => Math.max(0, used - idleUse * seconds) / count;
    const commands = [...after.commands].map(([name, calls]) => {
      return [name, share(calls - (before.commands.get(name) ?? 0), idle?.commands.get(name))] as const;
    });
    return {
      commands: new Map(commands),
      bytesIn: share(after.bytesIn - before.bytesIn, idle?.bytesIn),
      bytesOut: share(after.bytesOut - before.bytesOut, idle?.bytesOut),
    };
  }

  /** Of all servers, without what is asked here. */
  private async total(): Promise<RedisCost> {
    const commands = new Map<string, number>();
    let [bytesIn, bytesOut] = [0, 0];
    for (const { client } of this.servers) {
      const stats = await client.info("commandstats");
      for (const [, name, calls] of stats.matchAll(/^cmdstat_([^:]+):calls=(\d+)/gm)) {
        if (name !== "info") commands.set(name!, (commands.get(name!) ?? 0) + Number(calls));
      }
      const traffic = await client.info("stats");
      bytesIn += Number(/total_net_input_bytes:(\d+)/.exec(traffic)![1]);
      bytesOut += Number(/total_net_output_bytes:(\d+)/.exec(traffic)![1]) - (stats.length + traffic.length);
    }
    return { commands, bytesIn, bytesOut };
  }

  async redisBytes(): Promise<number> {
    let bytes = 0;
    for (const { client } of this.servers) {
      bytes += Number(/used_memory_dataset:(\d+)/.exec(await client.info("memory"))![1]);
    }
    return bytes;
  }

  /** Milliseconds after the answer to a purge at which a replica was asked that still served what was purged; 0: none. */
  async purgeLag(): Promise<number> {
    const [path] = this.newPages();
    for (let at = 0; at < this.size; at += 1) await this.ask(path!, at);
    const last = await this.registries.pages();
    const { statusCode, body } = await request(`http://127.0.0.1:${this.replicas[0]!.operationsPort}/purge`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ upstream: "r0" }),
    });
    const answeredAt = performance.now();
    const said = await body.text();
    if (statusCode !== 200) throw new Error(`the purge was refused: ${said}`);
    const lags = await Promise.all(this.replicas.map((_, at) => this.lastOld(path!, at, { last, answeredAt })));
    return Math.max(...lags);
  }

  private async lastOld(
    path: string,
    at: number,
    { last, answeredAt }: { readonly last: number; readonly answeredAt: number },
  ): Promise<number> {
    let lag = 0;
    while (performance.now() - answeredAt < WATCH) {
      const askedAt = performance.now();
      if ((await this.ask(path, at)) <= last) lag = askedAt - answeredAt;
      await sleep(1);
    }
    return lag;
  }

  close(): Promise<void> {
    return this.agent.close();
  }
}
