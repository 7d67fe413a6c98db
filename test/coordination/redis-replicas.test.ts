import { setTimeout as sleep } from "node:timers/promises";
import { afterEach, describe, expect, test } from "vitest";
import { cacheKey } from "../../src/cache/stores/store.ts";
import { clock, startReplica, type Replica } from "../support/redis-replicas.ts";
import { startSlowProxy } from "../support/redis-proxy.ts";
import { startRedis, until, type RedisServer } from "../support/redis.ts";

const closing: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0).toReversed()) await close();
});

const info = { partition: "DSO::1220aa", scopes: ["all", "info"] };

async function startFleet(count: number): Promise<{ server: RedisServer; replicas: Replica[] }> {
  const server = await startRedis();
  closing.push(() => server.stop());
  const replicas = await Promise.all(Array.from({ length: count }, () => join(server)));
  return { server, replicas };
}

/** A fleet in which every replica has seen the others, and goes by the count in Redis alone. */
async function startAcquaintedFleet(count: number): ReturnType<typeof startFleet> {
  const fleet = await startFleet(count);
  await until(() =>
    fleet.replicas.every(
      ({ coordinator, events }) => coordinator.status().replicas === count && clock.now() - events.upSince > 1_700,
    ),
  );
  return fleet;
}

async function join(server: { url: string }): Promise<Replica> {
  const replica = await startReplica({ url: server.url });
  closing.push(() => replica.close());
  return replica;
}

/** Every replica has met the partition: the same epoch everywhere. */
async function meet(replicas: readonly Replica[]): Promise<string> {
  await until(async () => {
    for (const { store } of replicas) await store.get(cacheKey({ ...info, id: "info" }));
    return new Set(replicas.map(({ coordinator }) => coordinator.epochOf(info))).size === 1;
  });
  return replicas[0]!.coordinator.epochOf(info)!;
}

describe("news", () => {
  function listen(replica: Replica): (string | undefined)[] {
    const heard: (string | undefined)[] = [];
    replica.coordinator.onAnnounced((news) => heard.push(news));
    return heard;
  }

  test("reach the whole fleet", async () => {
    const { replicas } = await startFleet(3);
    const heard = replicas.map(listen);
    replicas[0]!.coordinator.announce("something");
    await until(() => heard.every((news) => news.includes("something")));
  });

  test("announced while Redis was away reach it afterwards, and those who were away learn that they may have missed some", async () => {
    const { server, replicas } = await startFleet(2);
    const heard = replicas.map(listen);
    await server.kill();
    await until(() => replicas.every(({ coordinator }) => !coordinator.status().connected));
    replicas[0]!.coordinator.announce("something");
    await server.start();
    await until(() => heard.every((news) => news.includes(undefined)));
  });
});

describe("purges", () => {
  test("reach the whole fleet within 250 ms, which then agrees on an epoch", async () => {
    const { replicas } = await startFleet(3);
    const before = await meet(replicas);
    expect(await replicas[0]!.coordinator.purge(info.partition, ["info"])).toBe("fleet");
    const answered = performance.now();
    await until(() => replicas.every(({ coordinator }) => coordinator.epochOf(info) !== before));
    expect(performance.now() - answered).toBeLessThan(250);
    await meet(replicas);
    expect(replicas[1]!.events.purgeLags).toHaveLength(1);
    expect(replicas[1]!.events.purgeLags[0]!).toBeLessThan(250);
  });

  test("of everything reach a replica that met the partition only afterwards", async () => {
    const { server, replicas } = await startFleet(2);
    const before = await meet(replicas);
    expect(await replicas[0]!.coordinator.purge(undefined, ["all"])).toBe("fleet");
    await until(() => replicas[1]!.coordinator.epochOf(info) !== before);
    const late = await join(server);
    await meet([...replicas, late]);
    expect(late.coordinator.epochOf(info)).not.toBe(before);
  });

  test("made at the same time by all leave nothing valid that was stored before", async () => {
    const { replicas } = await startFleet(3);
    const before = await meet(replicas);
    await Promise.all(replicas.map(({ coordinator }) => coordinator.purge(info.partition, ["info"])));
    const after = await meet(replicas);
    expect(after).not.toBe(before);
  });

  test("of more scopes than are remembered agree everywhere", async () => {
    const { replicas } = await startFleet(2);
    const before = await meet(replicas);
    const [a, b] = replicas as [Replica, Replica];
    for (let i = 0; i < 300; i += 1) await a.coordinator.purge(info.partition, [`instrument:${i}`]);
    const keys = Array.from({ length: 300 }, (_, i) => ({ ...info, scopes: ["all", `instrument:${i}`] }));
    const epochs = (replica: Replica) => keys.map((key) => replica.coordinator.epochOf(key)).join();
    await until(() => epochs(a) === epochs(b));
    expect(keys.filter((key) => b.coordinator.epochOf(key) === before)).toEqual([]);
  });

  // What memory answered was never looked for in Redis, so nothing ever learned of its partition.
  test("reach a partition that came into memory while Redis was away", async () => {
    const { server, replicas } = await startFleet(1);
    await meet(replicas);
    await server.kill();
    const late = await startReplica({ url: server.url }, { isReady: false });
    closing.push(() => late.close());
    late.coordinator.epochOf(info);
    await server.start();
    await until(() => late.coordinator.epochOf(info) === replicas[0]!.coordinator.epochOf(info));
    const before = late.coordinator.epochOf(info);
    await replicas[0]!.coordinator.purge(info.partition, ["info"]);
    await until(() => late.coordinator.epochOf(info) !== before, 2_000);
  });

  test("a replica cut off from Redis follows purges within 2 s of its return", async () => {
    const { server, replicas } = await startFleet(1);
    const proxy = await startSlowProxy(server.port);
    closing.push(() => proxy.stop());
    const cutOff = await join({ url: `redis://127.0.0.1:${proxy.port}` });
    const before = await meet([...replicas, cutOff]);
    proxy.blackhole = true;
    await replicas[0]!.coordinator.purge(info.partition, ["info"]);
    await until(() => proxy.swallowed.includes("message"));
    proxy.blackhole = false;
    proxy.cut();
    await until(() => cutOff.coordinator.epochOf(info) !== before, 2_000);
    await meet([...replicas, cutOff]);
  });

  test("two replicas that purged without Redis agree with it and each other afterwards", async () => {
    const { server, replicas } = await startFleet(2);
    const before = await meet(replicas);
    await server.kill();
    const [a, b] = replicas as [Replica, Replica];
    await until(() => replicas.every(({ coordinator }) => !coordinator.status().connected));
    expect(await a.coordinator.purge(info.partition, ["info"])).toBe("pending");
    const ofA = a.coordinator.epochOf(info);
    expect(await b.coordinator.purge(info.partition, ["info"])).toBe("pending");
    const ofB = b.coordinator.epochOf(info);
    await server.start();
    await until(() => replicas.every(({ coordinator }) => coordinator.status().state === "up"));
    const after = await meet(replicas);
    expect(after).not.toBe(before);
    // Whose purge reached Redis first is not known, so what either stored in between may not survive the other's.
    expect([ofA, ofB].filter((epoch) => epoch === after).length).toBeLessThanOrEqual(1);
  });

  test("a page that another replica issued is known here when it is looked for, and its change is told", async () => {
    const { replicas } = await startFleet(2);
    await meet(replicas);
    const [a, b] = replicas as [Replica, Replica];
    const page = cacheKey({ ...info, chain: "25:token", id: "page" });
    const { chain } = page;
    a.coordinator.issueChain(info.partition, chain, "one");
    await until(async () => {
      await b.store.get(page);
      return b.coordinator.epochOf(page) === a.coordinator.epochOf(page);
    });
    a.coordinator.issueChain(info.partition, chain, "two");
    await until(() => b.coordinator.epochOf(page) === a.coordinator.epochOf(page));
    expect(b.coordinator.epochOf(page)).toMatch(/two$/);
  });
});

describe("leases", () => {
  test("of many who ask in all replicas one gets it", async () => {
    const { replicas } = await startFleet(3);
    const asked = Array.from({ length: 60 }, async (_, i) => replicas[i % 3]!.coordinator.acquire("key"));
    const leases = (await Promise.all(asked)).filter((lease) => lease !== undefined);
    expect(leases).toHaveLength(1);
    const waiting = replicas.map(({ coordinator }) => coordinator.whenReleased("key", clock.now() + 5_000));
    leases[0]!.release("uncacheable");
    expect(await Promise.all(waiting)).toEqual(["uncacheable", "uncacheable", "uncacheable"]);
  });

  test("is kept for as long as its holder lives, and goes to one other when it dies", async () => {
    const { server, replicas } = await startFleet(2);
    const proxy = await startSlowProxy(server.port);
    closing.push(() => proxy.stop());
    const holder = await join({ url: `redis://127.0.0.1:${proxy.port}` });
    expect(await holder.coordinator.acquire("key")).toBeDefined();
    // Renewed three times a lease, it is older by then than one that is not renewed gets.
    await until(() => holder.events.sent("lease_renew") >= 4);
    expect(await replicas[0]!.coordinator.acquire("key")).toBeUndefined();
    const waiting = replicas.map(({ coordinator }) => coordinator.whenReleased("key", clock.now() + 10_000));
    const died = performance.now();
    proxy.blackhole = true;
    expect(await Promise.all(waiting)).toEqual(["failed", "failed"]);
    expect(performance.now() - died).toBeLessThan(3_000);
    const next = await Promise.all(replicas.map(async ({ coordinator }) => coordinator.acquire("key")));
    expect(next.filter((lease) => lease !== undefined)).toHaveLength(1);
  });

  test("is given up by a replica that stops", async () => {
    const { replicas } = await startFleet(2);
    await replicas[0]!.coordinator.acquire("key");
    const waiting = replicas[1]!.coordinator.whenReleased("key", clock.now() + 10_000);
    const stopped = performance.now();
    await replicas[0]!.close();
    expect(await waiting).toBe("failed");
    expect(performance.now() - stopped).toBeLessThan(1_000);
  });

  test("an outcome reaches those whose message was lost", async () => {
    const { server, replicas } = await startFleet(2);
    const [a, b] = replicas as [Replica, Replica];
    const lease = await a.coordinator.acquire("key");
    await server.client.call("CLIENT", "KILL", "TYPE", "pubsub");
    const waiting = b.coordinator.whenReleased("key", clock.now() + 5_000);
    lease!.release("stored");
    expect(await waiting).toBe("stored");
  });

  test("who asks right after it was stored is sent back to look", async () => {
    const { replicas } = await startFleet(2);
    const [a, b] = replicas as [Replica, Replica];
    const lease = await a.coordinator.acquire("key");
    const waiting = b.coordinator.whenReleased("key", clock.now() + 5_000);
    lease!.release("stored");
    expect(await waiting).toBe("stored");
    expect(await b.coordinator.acquire("key")).toBeUndefined();
    expect(await b.coordinator.whenReleased("key", clock.now() + 5_000)).toBe("stored");
  });

  test("those who wait are let go when Redis goes away", async () => {
    const { server, replicas } = await startFleet(2);
    await replicas[0]!.coordinator.acquire("key");
    const waiting = replicas[1]!.coordinator.whenReleased("key", clock.now() + 30_000);
    await server.kill();
    expect(await waiting).toBe("failed");
  });
});

describe("call budgets", () => {
  const limit = { requests: 20, per: 600 };

  /** Takes calls from all replicas for a while; the instants of those granted. */
  async function takeFor(replicas: readonly Replica[], duration: number): Promise<{ from: number; to: number }[]> {
    const granted: { from: number; to: number }[] = [];
    const end = clock.now() + duration;
    await Promise.all(
      replicas.map(async ({ coordinator }) => {
        while (clock.now() < end) {
          const from = clock.now();
          const grant = await coordinator.takeCall("budget", limit);
          if (grant.granted) granted.push({ from, to: clock.now() });
          else await sleep(Math.min(grant.retryIn, 20));
        }
      }),
    );
    return granted.sort((a, b) => a.from - b.from);
  }

  /** In no window of `per` there are more than `requests` calls. */
  function expectExact(granted: readonly { from: number; to: number }[]): void {
    for (let i = limit.requests; i < granted.length; i += 1) {
      expect(granted[i]!.to - granted[i - limit.requests]!.from).toBeGreaterThanOrEqual(limit.per - 1);
    }
  }

  test("are one for all replicas, exact in any window", async () => {
    const { replicas } = await startAcquaintedFleet(3);
    const granted = await takeFor(replicas, 4_000);
    expect(granted.length).toBeGreaterThanOrEqual(120);
    expectExact(granted);
  });

  // Each took the whole budget until it had seen the other: 27 to 30 calls in a window of 20.
  test.each([1, 2])("are exact for replicas that start together, from their first call on (%i)", async () => {
    const server = await startRedis();
    closing.push(() => server.stop());
    const replicas = await Promise.all([0, 1].map(() => startReplica({ url: server.url }, { isReady: false })));
    for (const replica of replicas) closing.push(() => replica.close());
    const granted = await takeFor(replicas, 3_000);
    expect(granted.length).toBeGreaterThan(40);
    expectExact(granted);
  });

  test("are exact while replicas come and go", async () => {
    const { server, replicas } = await startFleet(1);
    const granted = takeFor(replicas, 5_000);
    const others: { from: number; to: number }[] = [];
    for (let i = 0; i < 5; i += 1) {
      const pair = await Promise.all([0, 1].map(() => startReplica({ url: server.url }, { isReady: false })));
      others.push(...(await takeFor(pair, 700)));
      await Promise.all(pair.map((replica) => replica.close()));
    }
    expect(others.length).toBeGreaterThan(5);
    expectExact([...(await granted), ...others].sort((a, b) => a.from - b.from));
  });

  test("are exact for replicas that were there before Redis, and when it comes", async () => {
    const server = await startRedis();
    closing.push(() => server.stop());
    await server.kill();
    const replicas = await Promise.all([0, 1, 2].map(() => startReplica({ url: server.url }, { isReady: false })));
    for (const replica of replicas) closing.push(() => replica.close());
    const granted = takeFor(replicas, 6_000);
    await sleep(1_500);
    await server.start();
    const all = await granted;
    expect(all.length).toBeGreaterThan(60);
    expectExact(all);
  });

  test("are exact when Redis goes away and comes back empty, whoever called most", async () => {
    const { server, replicas } = await startAcquaintedFleet(2);
    // All from one, so that the other has much of its share left.
    const first = await takeFor([replicas[0]!], 1_000);
    const granted = takeFor(replicas, 6_000);
    await sleep(50);
    await server.kill();
    await sleep(1_500);
    await server.start();
    const all = [...first, ...(await granted)];
    expect(all.length).toBeGreaterThan(80);
    expectExact(all);
  });

  test("are shared out by the number of replicas last seen while Redis is away", async () => {
    const { server, replicas } = await startAcquaintedFleet(3);
    await server.kill();
    await until(() => replicas.every(({ coordinator }) => coordinator.status().state === "away"));
    // For a moment nothing is granted: Redis might be back at once.
    const take = async ({ coordinator }: Replica) =>
      (await coordinator.takeCall("budget", { requests: 20, per: 60_000 })).granted;
    expect(await take(replicas[0]!)).toBe(false);
    const counts = await Promise.all(
      replicas.map(async (replica) => {
        await until(() => take(replica));
        let count = 1;
        while (await take(replica)) count += 1;
        return count;
      }),
    );
    expect(counts.sort((a, b) => a - b)).toEqual([6, 7, 7]);
  });

  test("count what was called without Redis when it is back, even empty", async () => {
    const { server, replicas } = await startAcquaintedFleet(2);
    const budget = { requests: 10, per: 60_000 };
    const take = async (replica: Replica) => (await replica.coordinator.takeCall("budget", budget)).granted;
    for (let i = 0; i < 4; i += 1) expect(await take(replicas[0]!)).toBe(true);
    await server.kill();
    await until(() => replicas.every(({ coordinator }) => coordinator.status().state === "away"));
    // After a moment; half of the budget each: the first replica has one call left of its own.
    await until(() => take(replicas[0]!));
    expect(await take(replicas[0]!)).toBe(false);
    await until(() => take(replicas[1]!));
    await server.start();
    await until(() => replicas.every(({ coordinator }) => coordinator.status().state === "up"));
    // For a moment each has its share besides, which is one call of two, until all count in Redis.
    for (const [i, { coordinator }] of replicas.entries()) {
      const takeOther = async () => (await coordinator.takeCall(`other ${i}`, { requests: 2, per: 60_000 })).granted;
      expect(await takeOther()).toBe(true);
      await until(takeOther);
    }
    let more = 0;
    while (await take(replicas[more % 2]!)) more += 1;
    expect(more).toBe(4);
  });
});
