import { afterAll, describe, expect, test } from "vitest";
import { cacheKey } from "../../src/sharing/entries.ts";
import { startSlowProxy } from "../support/redis-proxy.ts";
import { clock } from "../support/redis-replicas.ts";
import { ask, closeAll, entryOf, healing, later, redisServer, replicaOn, usable } from "../support/redis-scene.ts";
import { type RedisServer } from "../support/redis.ts";
import { until } from "../support/until.ts";
import { infoKey, put } from "../support/store-suite.ts";

afterAll(closeAll);

/** The server on its own port, or behind something that fails. */
type Fault = (server: RedisServer, proxy: Awaited<ReturnType<typeof startSlowProxy>>) => unknown;

const faults: [name: string, begin: Fault, end: Fault][] = [
  ["killed", (server) => server.kill(), (server) => server.start()],
  ["frozen", (server) => server.pause(), (server) => server.resume()],
  ["slowed down by 5 s", (_, proxy) => (proxy.latency = 5_000), (_, proxy) => (proxy.latency = 0)],
  ["swallowing everything", (_, proxy) => (proxy.blackhole = true), (_, proxy) => (proxy.blackhole = false)],
];

describe.for(faults)("Redis %s", ([, begin, end]) => {
  test("costs a request one bounded pause at most, later ones none, and heals by itself", async () => {
    const server = await redisServer();
    const proxy = later(await startSlowProxy(server.port));
    const replica = await replicaOn({ url: `redis://127.0.0.1:${proxy.port}` });
    await put(replica, infoKey, entryOf(replica, { body: Buffer.from("before") }));
    const epoch = replica.coordinator.epochs.epochOf(infoKey);

    await begin(server, proxy);
    const first = await ask(replica);
    expect(first.found).toBeUndefined();
    // 50 ms by promise; the rest is the test machine's.
    expect(first.took).toBeLessThan(2_000);
    for (let i = 0; i < 20; i += 1) expect(replica.store.get(infoKey)).toBeUndefined();
    replica.store.set(infoKey, entryOf(replica));
    expect(await replica.coordinator.leases.acquire("key")).toBeDefined();
    // Nor while it is tried again.
    const triedAgain = clock.now() + 1_200;
    await until(async () => {
      const asked = await Promise.all(Array.from({ length: 20 }, () => ask(replica)));
      expect(Math.max(...asked.map(({ took }) => took))).toBeLessThan(2_000);
      return clock.now() >= triedAgain;
    });

    await end(server, proxy);
    expect(await healing(replica)).toBeLessThan(20_000);
    // What memory holds stays usable, whatever Redis has lost.
    expect(replica.coordinator.epochs.epochOf(infoKey)).toBe(epoch);
  });
});

// All at once: each waits most of its time, on a Redis of its own.
test.concurrent.for(faults)(
  "Redis %s: a purge made meanwhile is written before anything is read again",
  async ([, begin, end]) => {
    const server = await redisServer();
    const proxy = later(await startSlowProxy(server.port));
    const replica = await replicaOn({ url: `redis://127.0.0.1:${proxy.port}` });
    const other = await replicaOn({ url: server.url });
    await put(replica, infoKey, entryOf(replica, { body: Buffer.from("before") }));
    expect(await usable(other)).toBe("before");

    await begin(server, proxy);
    await ask(replica);
    const purge = replica.coordinator.epochs.purge(infoKey.partition, ["info"]);
    expect(await usable(replica)).toBeUndefined();
    // Behind a slow connection a purge arrives all the same.
    expect(["pending", "fleet"]).toContain(await purge);
    await end(server, proxy);
    const body = Buffer.from("after");
    await until(() => replica.coordinator.status().state === "up" && replica.coordinator.status().pendingPurges === 0);
    expect(await usable(replica)).not.toBe("before");
    await put(replica, infoKey, entryOf(replica, { body }));
    await until(async () => (await usable(other)) === "after");
  },
);

describe.concurrent("Redis that refuses", () => {
  test("read-only: it is read, and purges wait until it can be written", async () => {
    const server = await redisServer();
    const replica = await replicaOn({ url: server.url });
    await put(replica, infoKey, entryOf(replica, { body: Buffer.from("before") }));
    await server.client.replicaof("127.0.0.1", "1");
    await until(async () => (await usable(replica)) === "before");
    replica.store.set(infoKey, entryOf(replica));
    const lease = await replica.coordinator.leases.acquire("key");
    lease!.release("stored");
    expect(await replica.coordinator.epochs.purge(infoKey.partition, ["info"])).toBe("pending");
    expect(replica.coordinator.status()).toMatchObject({ state: "away", pendingPurges: 1 });
    await server.client.replicaof("NO", "ONE");
    expect(await healing(replica)).toBeLessThan(20_000);
    expect(replica.coordinator.status().pendingPurges).toBe(0);
  });

  // Each reading that went well had it used again, and each call or lease found that it may not be written: all calls to
  // upstreams waited for a moment, over and over.
  test.for([
    ["it has too few replicas", ["CONFIG", "SET", "min-replicas-to-write"], "1", "0"],
    ["its ACL forbids it", ["ACL", "SETUSER", "default"], "-@write", "+@write"],
  ] as const)("no writes, as %s: it is away once, until it takes them", async ([, [command, ...names], off, on]) => {
    const server = await redisServer();
    const replica = await replicaOn({ url: server.url });
    const { events, coordinator } = replica;
    const windows = [{ name: "calls", requests: 100_000, per: 60_000 }];
    const take = async () => (await coordinator.limits.take({ kind: "upstream", id: "amulet", windows })).granted;
    await until(take);
    await server.client.call(command, ...names, off);
    await until(async () => !(await take()));
    // Held back for a moment, and then granted without a break.
    await until(take);
    const sent = events.sent("table_read");
    await until(async () => {
      expect(await take()).toBe(true);
      return events.sent("table_read") >= sent + 8;
    });
    expect(events.states).toEqual(["up", "away"]);
    await server.client.call(command, ...names, on);
    await until(() => coordinator.status().state === "up");
    // On a busy machine an answer may come too late: such a call is not granted, and Redis may be away for a moment more.
    await until(take);
    expect(events.states.slice(0, 3)).toEqual(["up", "away", "up"]);
  });

  test("full: it is read, purged and leased, and nothing is stored", async () => {
    const server = await redisServer();
    const replica = await replicaOn({ url: server.url });
    const other = await replicaOn({ url: server.url });
    await put(replica, infoKey, entryOf(replica, { body: Buffer.from("before") }));
    await server.client.config("SET", "maxmemory", "1mb");
    expect(await usable(replica)).toBe("before");
    const key = cacheKey({ ...infoKey, id: "new" });
    replica.store.set(key, entryOf(replica));
    expect(await usable(replica, key)).toBeUndefined();
    const lease = await replica.coordinator.leases.acquire("key");
    expect(await other.coordinator.leases.acquire("key")).toBeUndefined();
    lease!.release("stored");
    expect(await replica.coordinator.epochs.purge(infoKey.partition, ["info"])).toBe("fleet");
    expect(await usable(replica)).toBeUndefined();
    await until(async () => (await usable(other)) === undefined);
    expect(replica.events.states).toEqual(["up"]);
  });

  // A subscription that was refused was tried again with the next connection alone, and there came none.
  test("messages, as its ACL forbids them: they are heard once it allows them", async () => {
    const server = await redisServer();
    await server.client.call("ACL", "SETUSER", "default", "resetchannels");
    const { coordinator } = await replicaOn(server, { isReady: false });
    const heard: (string | undefined)[] = [];
    coordinator.announcements.onAnnounced((event) => heard.push(event));
    const refused = /^cmdstat_subscribe:.*rejected_calls=[1-9]/m;
    await until(async () => refused.test(await server.client.info("commandstats")));
    await server.client.call("ACL", "SETUSER", "default", "&rg:*");
    // What was said meanwhile may have been missed.
    await until(() => heard.includes(undefined));
    await until(() => coordinator.status().lastError === undefined);
    const other = await replicaOn(server);
    other.coordinator.announcements.announce("news");
    await until(() => heard.includes("news"));
  });

  test("a replica that starts without it goes on alone and shares once it is there", async () => {
    const server = await redisServer();
    await server.kill();
    const replica = await replicaOn({ url: server.url }, { isReady: false });
    expect(await replica.coordinator.whenReady(100)).toBe(false);
    const epoch = replica.coordinator.epochs.epochOf(infoKey);
    await server.start();
    expect(await healing(replica)).toBeLessThan(20_000);
    expect(replica.coordinator.epochs.epochOf(infoKey)).toBe(epoch);
  });
});

test("why Redis was away is said no more once it is back", async () => {
  const server = await redisServer();
  const { coordinator } = await replicaOn(server);
  await until(() => coordinator.status().state === "up");
  await server.kill();
  await until(() => coordinator.status().state === "away" && coordinator.status().lastError !== undefined);
  await server.start();
  await until(() => coordinator.status().state === "up");
  await until(() => coordinator.status().lastError === undefined);
});
