import { setTimeout as sleep } from "node:timers/promises";
import { HttpCache } from "../../src/cache/http-cache.ts";
import type { CachePolicy, Fetched, Resource } from "../../src/cache/resource.ts";
import { MemoryStore } from "../../src/cache/stores/memory-store.ts";
import { type CacheKey, cacheKey } from "../../src/sharing/entries.ts";
import type { PurgeReach } from "../../src/sharing/ports.ts";
import { mulberry32 } from "../../src/sandbox/random.ts";
import { type SlowProxy, startSlowProxy } from "./redis-proxy.ts";
import { clock, type Post, type Replica, startReplica } from "./redis-replicas.ts";
import { type RedisServer, startRedis } from "./redis.ts";

export interface PurgeStoryOptions {
  seed: number;
  replicas: number;
  /** Milliseconds. */
  duration: number;
  /** Kill Redis and start it again, empty. */
  redisDies?: boolean;
}

/** What a story was made of, and what was served against the promise. */
export interface PurgeStory {
  served: number;
  fetched: number;
  fromRedis: number;
  messagesLost: number;
  purges: Record<PurgeReach, number>;
  mishaps: Record<string, number>;
  /** Milliseconds that the slowest answer took. */
  slowest: number;
  violations: string[];
}

interface Purge {
  readonly by: Member;
  readonly keys: ReadonlySet<string>;
  readonly reach: PurgeReach;
  readonly startedAt: number;
  readonly answeredAt: number;
}

/** After this long a purge holds though messages were lost, with some time for the test's machine. */
const BOUND = 2_000 + 1_500;

const policy: CachePolicy = {
  ttl: 60_000,
  notFoundTtl: undefined,
  maxTtl: 60_000,
  honorUpstream: true,
  errors: "never",
  honorClient: false,
  clientFloor: 0,
  clientTtl: 0,
  staleWhileRevalidate: 30_000,
  staleIfError: 60_000,
  forwardRequestHeaders: [],
  forwardResponseHeaders: [],
  sharedAuthorization: false,
};

/** So many that a purge that was missed is not covered up by the next one. */
const PARTITIONS = 20;

const keys: readonly CacheKey[] = Array.from({ length: PARTITIONS }, (_, i) => `party${i}::1220`).flatMap(
  (partition) => [
    cacheKey({ partition, scopes: ["all", "info"], id: "info" }),
    cacheKey({ partition, scopes: ["all", "list"], id: "list" }),
  ],
);

const nameOf = (key: CacheKey): string => `${key.partition}/${key.id}`;

const silent = {
  lookup: () => {},
  skipped: () => {},
  collapsed: () => {},
  servedStale: () => {},
  revalidated: () => {},
  refreshed: () => {},
  evicted: () => {},
};

/** One gateway process's cache, which a restart empties. */
interface Member {
  readonly replica: Replica;
  readonly cache: HttpCache;
  readonly proxy: SlowProxy;
}

/**
 * Replicas that share a Redis serve, purge, restart and lose messages at random for a while. The answer to every request
 * says when it was asked for upstream; one that was asked for before a purge and served after that purge's bound is a
 * violation. A purge that reached one replica only binds that one.
 */
export async function tellPurgeStory(options: PurgeStoryOptions): Promise<PurgeStory> {
  const random = mulberry32(options.seed);
  const between = (low: number, high: number): number => low + random() * (high - low);
  const story: PurgeStory = {
    served: 0,
    fetched: 0,
    fromRedis: 0,
    messagesLost: 0,
    purges: { replica: 0, fleet: 0, pending: 0 },
    mishaps: {},
    slowest: 0,
    violations: [],
  };
  const server = await startRedis();
  const purges: Purge[] = [];
  const end = clock.now() + options.duration;

  const resourceOf = (key: CacheKey): Resource => ({
    key,
    policy,
    timeout: 5_000,
    fetch: async (): Promise<Fetched> => {
      const requestedAt = clock.now();
      story.fetched += 1;
      await sleep(between(0, 250));
      const body = Buffer.from(String(requestedAt));
      return { status: 200, fields: ["date", new Date().toUTCString()], body, requestedAt, receivedAt: clock.now() };
    },
  });

  /** Half of all messages come at once, the others late or never. */
  const post: Post = (_message, deliver) => {
    const fate = random();
    if (fate < 0.5) deliver();
    else if (fate < 0.75) setTimeout(deliver, between(0, 3_000));
    else story.messagesLost += 1;
  };

  const members = await Promise.all(Array.from({ length: options.replicas }, () => startMember(server, post)));

  async function serve(index: number): Promise<void> {
    while (clock.now() < end) {
      const key = keys[Math.floor(random() * keys.length)]!;
      const askedAt = clock.now();
      const member = members[index]!;
      const connectedSince = member.replica.events.upSince;
      const request = { method: "GET" as const, headers: {}, deadline: askedAt + 5_000 };
      const answer = await member.cache.respond(resourceOf(key), request);
      story.served += 1;
      story.slowest = Math.max(story.slowest, clock.now() - askedAt);
      if (answer.tier === "shared") story.fromRedis += 1;
      const fetchedAt = Number(answer.body);
      for (const purge of purges) {
        if (!purge.keys.has(nameOf(key)) || fetchedAt >= purge.startedAt) continue;
        if (purge.reach !== "fleet" && purge.by !== member) continue;
        // Who is cut off from Redis cannot know; it has to once it is back.
        const heardAt = purge.by === member ? purge.answeredAt : Math.max(purge.answeredAt, connectedSince);
        if (askedAt < heardAt + BOUND) continue;
        story.violations.push(
          `replica ${index} served ${nameOf(key)} asked for ${Math.round(purge.startedAt - fetchedAt)} ms before a purge, ` +
            `${Math.round(askedAt - purge.answeredAt)} ms after it (${purge.reach}, ${answer.tier})`,
        );
      }
      await sleep(between(0, 4));
    }
  }

  async function purge(): Promise<void> {
    while (clock.now() < end) {
      await sleep(between(20, 300));
      const by = members[Math.floor(random() * members.length)]!;
      const key = keys[Math.floor(random() * keys.length)]!;
      const scope = random() < 0.8 ? key.scopes[1]! : "all";
      const partition = random() < 0.03 ? undefined : key.partition;
      const startedAt = clock.now();
      const reach = await by.replica.coordinator.epochs.purge(partition, [scope]);
      const hit = keys.filter(
        (each) => (partition ?? each.partition) === each.partition && each.scopes.includes(scope),
      );
      story.purges[reach] += 1;
      purges.push({ by, keys: new Set(hit.map(nameOf)), reach, startedAt, answeredAt: clock.now() });
    }
  }

  const mishaps: [name: string, happen: () => Promise<unknown>][] = [
    ["subscriptions lost", () => server.client.call("CLIENT", "KILL", "TYPE", "pubsub")],
    ["all connections lost", () => server.client.call("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")],
    ["emptied", () => server.client.flushall()],
    ["epochs lost", async () => server.client.del(...(await server.client.keys("*:e")), "none")],
    [
      "replica restarted",
      async () => {
        const index = Math.floor(random() * members.length);
        const last = members[index]!;
        members[index] = await startMember(server, post);
        await last.replica.close();
        await last.proxy.stop();
      },
    ],
    [
      "a slow connection",
      async () => {
        const { proxy } = members[Math.floor(random() * members.length)]!;
        proxy.latency = between(5, 120);
        await sleep(between(50, 300));
        proxy.latency = 0;
      },
    ],
  ];
  if (options.redisDies === true) {
    mishaps.push([
      "Redis died",
      async () => {
        await server.kill();
        await sleep(between(50, 500));
        await server.start();
      },
    ]);
  }

  async function interfere(): Promise<void> {
    while (clock.now() < end - BOUND) {
      await sleep(between(50, 1_500));
      const [name, happen] = mishaps[Math.floor(random() * mishaps.length)]!;
      story.mishaps[name] = (story.mishaps[name] ?? 0) + 1;
      await happen();
    }
  }

  try {
    await Promise.all([...members.flatMap((_, index) => [serve(index), serve(index)]), purge(), interfere()]);
  } finally {
    for (const { replica, proxy } of members) {
      await replica.close();
      await proxy.stop();
    }
    await server.stop();
  }
  return story;
}

async function startMember(server: RedisServer, post: Post): Promise<Member> {
  const proxy = await startSlowProxy(server.port);
  const replica = await startReplica({ url: `redis://127.0.0.1:${proxy.port}` }, { isReady: false, post });
  await replica.coordinator.whenReady(1_000);
  const cache = new HttpCache({
    memory: new MemoryStore({ maxBytes: 10_000_000, maxObject: 1_000_000 }),
    shared: replica.store,
    coordinator: replica.coordinator,
    clock,
    random: () => 0,
    observer: silent,
  });
  return { replica, cache, proxy };
}
