import { setTimeout as sleep } from "node:timers/promises";
import { Agent, request } from "undici";
import { afterEach, describe, expect, test } from "vitest";
import { systemClock } from "../../../src/clock.ts";
import { GatewayProcess } from "../../support/gateway-process.ts";
import { startSlowProxy, type SlowProxy } from "../../support/redis-proxy.ts";
import { startRedis, type RedisServer } from "../../support/redis.ts";
import { SampleRegistry } from "../../support/sample-registry.ts";
import { until } from "../../support/until.ts";

/** Gateway processes that share a Redis before one slow registry, and what their clients see when things go wrong. */

const admin = `sample::1220${"ab".repeat(32)}`;
const pages = "/registry/metadata/v1/instruments";
const info = "/registry/metadata/v1/info";

const closing: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0).toReversed()) await close();
});

const killed = new Set<GatewayProcess>();

interface Fleet {
  readonly registry: SampleRegistry;
  readonly server: RedisServer;
  readonly proxy: SlowProxy | undefined;
  readonly gateways: readonly GatewayProcess[];
}

async function startFleet(count: number, options: { cache?: object; isSlowable?: boolean } = {}): Promise<Fleet> {
  const registry = new SampleRegistry({ admin, clock: systemClock() });
  await registry.start();
  closing.push(() => registry.stop());
  const server = await startRedis();
  closing.push(() => server.stop());
  // A proxy runs in this process, which is busy being a thousand clients in other tests.
  const proxy = options.isSlowable === true ? await startSlowProxy(server.port) : undefined;
  if (proxy !== undefined) closing.push(() => proxy.stop());
  const keys = {
    redis: { url: proxy === undefined ? server.url : `redis://127.0.0.1:${proxy.port}` },
    cache: options.cache ?? {},
    upstreams: [{ name: "sample", admin, urls: [registry.url] }],
  };
  const gateways = await Promise.all(Array.from({ length: count }, () => GatewayProcess.start(keys)));
  for (const gateway of gateways) closing.push(() => (killed.has(gateway) ? Promise.resolve() : gateway.stop()));
  await until(async () => {
    const states = await Promise.all(gateways.map((gateway) => stateOf(gateway)));
    return states.every(({ redis, upstreams }) => redis.state === "up" && upstreams[0]!.state === "up");
  });
  return { registry, server, proxy, gateways };
}

interface State {
  readonly redis: { readonly state: string };
  readonly upstreams: readonly { readonly state: string; readonly running: number }[];
}

async function stateOf(gateway: GatewayProcess): Promise<State> {
  return (await (await request(`${gateway.operations}/status`)).body.json()) as State;
}

/** The status of each of `count` GETs sent at once, or why there was none. */
async function getAtOnce(gateway: GatewayProcess, path: string, count: number): Promise<(number | string)[]> {
  const dispatcher = new Agent({ connections: count, pipelining: 1 });
  const answers = Array.from({ length: count }, async () => {
    try {
      const response = await request(`${gateway.url}${path}`, { dispatcher });
      await response.body.dump();
      return response.statusCode;
    } catch (error) {
      return String(error);
    }
  });
  const statuses = await Promise.all(answers);
  await dispatcher.destroy();
  return statuses;
}

describe("one fetch for all", () => {
  test("1,000 concurrent cold GETs over 4 processes make one upstream call", async () => {
    const { registry, gateways } = await startFleet(4);
    registry.slow(2_000);
    const before = registry.calls.count("instruments");
    const statuses = (await Promise.all(gateways.map((gateway) => getAtOnce(gateway, pages, 250)))).flat();
    const calls = registry.calls.count("instruments") - before;
    console.log(`1,000 cold GETs over 4 processes: ${calls} upstream call`);
    expect(statuses.filter((status) => status !== 200)).toEqual([]);
    expect(calls).toBe(1);
  });

  test("at most two when the process that fetches is killed, and clients of the others are answered", async () => {
    const { registry, gateways } = await startFleet(4);
    registry.slow(2_000);
    const before = registry.calls.count("instruments");
    const answers = gateways.map((gateway) => getAtOnce(gateway, pages, 250));
    const leader = await findLeader(gateways);
    gateways[leader]!.signal("SIGKILL");
    killed.add(gateways[leader]!);
    const statuses = await Promise.all(answers);
    const others = statuses.filter((_, index) => index !== leader).flat();
    const calls = registry.calls.count("instruments") - before;
    console.log(`the same with the fetching process killed: ${calls} upstream calls`);
    expect(others).toHaveLength(750);
    expect(others.filter((status) => status !== 200)).toEqual([]);
    expect(calls).toBeLessThanOrEqual(2);
  });
});

async function findLeader(gateways: readonly GatewayProcess[]): Promise<number> {
  let leader = -1;
  await until(async () => {
    const states = await Promise.all(gateways.map((gateway) => stateOf(gateway)));
    leader = states.findIndex(({ upstreams }) => upstreams[0]!.running > 0);
    return leader >= 0;
  });
  return leader;
}

describe("Redis in trouble under load", () => {
  const troubles: [name: string, begin: (fleet: Fleet) => unknown, end: (fleet: Fleet) => unknown][] = [
    ["killed", ({ server }) => server.kill(), ({ server }) => server.start()],
    ["frozen", ({ server }) => server.pause(), ({ server }) => server.resume()],
    ["slowed by 500 ms", ({ proxy }) => (proxy!.latency = 500), ({ proxy }) => (proxy!.latency = 0)],
    [
      "read-only",
      ({ server }) => server.client.replicaof("127.0.0.1", "1"),
      ({ server }) => server.client.replicaof("NO", "ONE"),
    ],
    [
      "full",
      ({ server }) => server.client.config("SET", "maxmemory", "1mb"),
      ({ server }) => server.client.config("SET", "maxmemory", "0"),
    ],
  ];

  test.for(troubles)(
    "%s: no client sees it, memory hits stay as fast, and it heals within 5 s",
    async ([name, begin, end]) => {
      const fleet = await startFleet(2, {
        cache: { ttl: { info: "10m", instruments: "500ms" }, staleWhileRevalidate: "0s" },
        isSlowable: true,
      });
      const load = new Load(fleet.gateways);
      await load.runFor(1_000);
      load.take();
      await load.runFor(5_000);
      const calm = load.take();
      await begin(fleet);
      await load.runFor(5_000);
      const trouble = load.take();
      await end(fleet);
      const endedAt = performance.now();
      let healed = Infinity;
      await Promise.all([
        load.runFor(6_000),
        until(async () => {
          const states = await Promise.all(fleet.gateways.map((gateway) => stateOf(gateway)));
          return states.every(({ redis }) => redis.state === "up");
        }, 6_000).then(() => (healed = performance.now() - endedAt)),
      ]);
      const after = load.take();
      console.log(
        `Redis ${name}: ${trouble.sent} requests, ${trouble.failures.length} errors; ` +
          `memory hits p99 ${calm.hitP99.toFixed(1)} → ${trouble.hitP99.toFixed(1)} ms; ` +
          `slowest miss ${trouble.slowestMiss.toFixed(0)} ms; healed after ${(healed / 1000).toFixed(1)} s`,
      );
      expect([...calm.failures, ...trouble.failures, ...after.failures]).toEqual([]);
      expect(trouble.sent).toBeGreaterThan(500);
      expect(trouble.hitP99).toBeLessThan(Math.max(3 * calm.hitP99, calm.hitP99 + 20));
      expect(healed).toBeLessThan(5_000);
    },
  );
});

interface Figures {
  readonly sent: number;
  readonly failures: readonly string[];
  /** Milliseconds; the median of the seconds' p99, as something else on the machine may spoil one of them. */
  readonly hitP99: number;
  readonly slowestMiss: number;
}

/** Requests at a steady rate: one half what is in memory, the other what has to be looked for in Redis. */
class Load {
  private readonly gateways: readonly GatewayProcess[];
  private readonly dispatcher = new Agent({ connections: 50, pipelining: 1 });
  private sent = 0;
  private failures: string[] = [];
  /** One list a second. */
  private hits: number[][] = [];
  private nextSecond = 0;
  private misses: number[] = [];

  constructor(gateways: readonly GatewayProcess[]) {
    this.gateways = gateways;
    closing.push(() => this.dispatcher.destroy());
  }

  async runFor(duration: number): Promise<void> {
    const end = performance.now() + duration;
    const running: Promise<void>[] = [];
    while (performance.now() < end) {
      if (performance.now() >= this.nextSecond) {
        this.hits.push([]);
        this.nextSecond = performance.now() + 1_000;
      }
      running.push(this.send(this.sent));
      this.sent += 1;
      await sleep(5);
    }
    await Promise.all(running);
  }

  /** The figures since the last time. */
  take(): Figures {
    const figures = {
      sent: this.sent,
      failures: this.failures,
      hitP99: quantile(
        this.hits.map((second) => quantile(second, 0.99)),
        0.5,
      ),
      slowestMiss: Math.max(0, ...this.misses),
    };
    this.sent = 0;
    this.failures = [];
    this.hits = [];
    this.nextSecond = 0;
    this.misses = [];
    return figures;
  }

  private async send(index: number): Promise<void> {
    const gateway = this.gateways[index % this.gateways.length]!;
    const isHit = index % 4 < 2;
    const path = isHit ? info : `${pages}?pageSize=${1 + (index % 40)}`;
    const start = performance.now();
    try {
      const { statusCode, body } = await request(`${gateway.url}${path}`, { dispatcher: this.dispatcher });
      const text = await body.text();
      if (statusCode !== 200) this.failures.push(`${statusCode} ${text}`);
    } catch (error) {
      this.failures.push(String(error));
    }
    const took = performance.now() - start;
    if (isHit) this.hits.at(-1)!.push(took);
    else this.misses.push(took);
  }
}

function quantile(values: readonly number[], share: number): number {
  const sorted = values.toSorted((a, b) => a - b);
  return sorted[Math.floor(sorted.length * share)] ?? 0;
}
