import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, describe, expect, test } from "vitest";
import { clock, type Replica } from "../../support/redis-replicas.ts";
import {
  acquaintedReplicas,
  closeAll,
  isAcquainted,
  redisServer,
  replicaOn,
  replicasOfOne,
} from "../../support/redis-scene.ts";
import type { RedisServer } from "../../support/redis.ts";
import { until } from "../../support/until.ts";

// All at once: each waits most of its time, on a Redis of its own.
afterAll(closeAll);

/** A call was granted between these instants. */
interface Granted {
  readonly from: number;
  readonly to: number;
}

describe.concurrent("rate limits", () => {
  const limit = { requests: 20, per: 600 };
  const windows = [
    { name: "calls", ...limit },
    { name: "burst", requests: 10, per: 150 },
  ];
  const claim = { kind: "upstream", id: "budget", windows } as const;

  /** Whether a call of a limit with one window is granted. */
  const takeOf = async ({ coordinator }: Replica, requests: number, id = "budget") =>
    (await coordinator.limits.take({ kind: "upstream", id, windows: [{ name: "calls", requests, per: 60_000 }] }))
      .granted;

  /** Takes what each of these replicas is granted of a limit of 20, up to so many. */
  async function takeAll(replicas: readonly Replica[], most = 40): Promise<number> {
    let granted = 0;
    for (const replica of replicas) while (granted < most && (await takeOf(replica, 20))) granted += 1;
    return granted;
  }

  /** One more replica, which has seen the others. */
  async function joined(server: RedisServer, count: number): Promise<Replica> {
    const replica = await replicaOn({ url: server.url });
    await until(() => isAcquainted(replica, count));
    return replica;
  }

  /**
   * Takes calls from all replicas for a while, and until so many are granted: on a busy machine Redis may be too slow to
   * be asked now and then. The instants of those granted.
   */
  async function takeFor(replicas: readonly Replica[], duration: number, least = 0): Promise<Granted[]> {
    const granted: Granted[] = [];
    const end = clock.now() + duration;
    await Promise.all(
      replicas.map(async ({ coordinator }) => {
        while (clock.now() < end || granted.length < least) {
          const from = clock.now();
          const answer = await coordinator.limits.take(claim);
          if (answer.granted) granted.push({ from, to: clock.now() });
          else await sleep(Math.min(...answer.retryIn.filter((each) => each > 0), 20));
        }
      }),
    );
    return granted.sort((a, b) => a.from - b.from);
  }

  /** In no window of either length there are more calls than allowed. */
  function expectExact(granted: readonly Granted[]): void {
    for (const { requests, per } of windows) {
      for (let i = requests; i < granted.length; i += 1) {
        expect(granted[i]!.to - granted[i - requests]!.from).toBeGreaterThanOrEqual(per - 1);
      }
    }
  }

  test("are one for all replicas, exact in any window", async () => {
    const { replicas } = await acquaintedReplicas(3);
    const granted = await takeFor(replicas, 4_000, 120);
    expectExact(granted);
  });

  // Each took the whole budget until it had seen the other: 27 to 30 calls in a window of 20.
  test.each([1, 2])("are exact for replicas that start together, from their first call on (%i)", async () => {
    const server = await redisServer();
    const replicas = await Promise.all([0, 1].map(() => replicaOn({ url: server.url }, { isReady: false })));
    const granted = await takeFor(replicas, 3_000, 41);
    expectExact(granted);
  });

  test("are exact while replicas come and go", async () => {
    const { server, replicas } = await replicasOfOne(1);
    const granted = takeFor(replicas, 5_000);
    const others: Granted[] = [];
    for (let i = 0; i < 5; i += 1) {
      const pair = await Promise.all([0, 1].map(() => replicaOn({ url: server.url }, { isReady: false })));
      others.push(...(await takeFor(pair, 700)));
      await Promise.all(pair.map((replica) => replica.close()));
    }
    expect(others.length).toBeGreaterThan(5);
    expectExact([...(await granted), ...others].sort((a, b) => a.from - b.from));
  });

  test("are exact for replicas that were there before Redis, and when it comes", async () => {
    const server = await redisServer();
    await server.kill();
    const replicas = await Promise.all([0, 1, 2].map(() => replicaOn({ url: server.url }, { isReady: false })));
    const granted = takeFor(replicas, 6_000, 61);
    await sleep(1_500);
    await server.start();
    expectExact(await granted);
  });

  test("are exact when Redis goes away and comes back empty, whoever called most", async () => {
    const { server, replicas } = await acquaintedReplicas(2);
    // All from one, so that the other has much of its share left.
    const first = await takeFor([replicas[0]!], 1_000);
    const granted = takeFor(replicas, 6_000, 81);
    await sleep(50);
    await server.kill();
    await sleep(1_500);
    await server.start();
    expectExact([...first, ...(await granted)]);
  });

  test("are shared out by the number of replicas last seen while Redis is away", async () => {
    const { server, replicas } = await acquaintedReplicas(3);
    await server.kill();
    await until(() => replicas.every(({ coordinator }) => coordinator.status().state === "away"));
    // For a moment nothing is granted: Redis might be back at once.
    const take = (replica: Replica) => takeOf(replica, 20);
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

  // A share was of the whole limit, whoever had called before: the window was given away a second time.
  test.each<[when: string, begin: (server: RedisServer) => Promise<Replica[]>, left?: number]>([
    [
      "was used up before a restart",
      async (server) => {
        const before = await joined(server, 1);
        expect(await takeAll([before])).toBe(20);
        await before.close();
        return [await joined(server, 1)];
      },
    ],
    [
      "was used up before one of them started",
      async (server) => {
        const first = await joined(server, 1);
        expect(await takeAll([first])).toBe(20);
        const second = await joined(server, 2);
        await until(() => isAcquainted(first, 2));
        return [first, second];
      },
    ],
    [
      "was used up before they were replaced one by one",
      async (server) => {
        const before = [await joined(server, 1), await joined(server, 2)];
        for (const each of before) expect(await takeAll([each], 10)).toBe(10);
        const after: Replica[] = [];
        for (const each of before) {
          await each.close();
          after.push(await joined(server, 2));
        }
        await until(() => after.every((each) => isAcquainted(each, 2)));
        return after;
      },
    ],
    [
      "was used up in part by one that stopped",
      async (server) => {
        const [one, other] = [await joined(server, 1), await joined(server, 2)];
        expect(await takeAll([other], 8)).toBe(8);
        await other.close();
        await until(() => one.coordinator.status().replicas === 1);
        expect(await takeAll([one], 1)).toBe(1);
        return [one];
      },
      11,
    ],
  ])("are not given away a second time without Redis, where a window %s", async (_when, begin, left = 0) => {
    const server = await redisServer();
    const replicas = await begin(server);
    if (left === 0) expect(await takeAll(replicas)).toBe(0);
    await server.kill();
    // One that nobody called shows when calls are not held back any more.
    for (const replica of replicas) await until(() => takeOf(replica, 20, "other"));
    expect(await takeAll(replicas)).toBe(left);
  });

  // Each took the whole limit: no replica could say any more that it lives.
  test("stay shared out while Redis is read and takes no writes, for as long as that is", async () => {
    const { server, replicas } = await acquaintedReplicas(3);
    await server.client.config("SET", "min-replicas-to-write", "1");
    await until(async () => {
      const rows = await server.client.hgetall("rg:2:replicas");
      const [seconds] = await server.client.time();
      const ends = Object.values(rows).flatMap((text) => /^\d+ (\d+) /.exec(text)?.[1] ?? []);
      return ends.length === 3 && ends.every((end) => Number(end) < Number(seconds) * 1_000 - 1_000);
    });
    const shares = replicas.map(({ coordinator }) => coordinator.replicas.members.shareOf(20));
    expect(shares.sort((a, b) => a - b)).toEqual([6, 7, 7]);
    expect(replicas.flatMap(({ coordinator }) => coordinator.replicas.lost())).toEqual([]);
    await server.client.config("SET", "min-replicas-to-write", "0");
    await until(() => replicas.every(({ coordinator }) => coordinator.status().state === "up"));
    expect(replicas.map(({ coordinator }) => coordinator.status().replicas)).toEqual([3, 3, 3]);
  });

  test("count what was called without Redis when it is back, even empty", async () => {
    const { server, replicas } = await acquaintedReplicas(2);
    const take = (replica: Replica) => takeOf(replica, 10);
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
    for (const [i, replica] of replicas.entries()) {
      const takeOther = () => takeOf(replica, 2, `other ${i}`);
      expect(await takeOther()).toBe(true);
      await until(takeOther);
    }
    let more = 0;
    while (await take(replicas[more % 2]!)) more += 1;
    expect(more).toBe(4);
  });

  test.each([
    [
      "absurd numbers",
      (slot: number) => `1\ncalls 60000 ${slot}=99999999999999999999 ${slot + 1e3}=1000 x=y\nburst -1 1=1\n`,
    ],
    [
      "calls of the future",
      (slot: number) => `1\ncalls 60000 ${Array.from({ length: 40 }, (_, i) => `${slot + 1e3 + i}=50`).join(" ")}\n`,
    ],
    ["calls of long ago", (slot: number) => `1\ncalls 60000 ${slot - 51}=2000\n`],
    ["too long a text", (slot: number) => `1\ncalls 60000${` ${slot}=1`.repeat(100_000)}\n`],
    ["a name without an end", () => "9".repeat(10_000)],
  ])("count no forged calls: %s", async (_what, forge) => {
    const { server, replicas } = await acquaintedReplicas(1);
    const replica = replicas[0]!;
    await until(() => takeOf(replica, 5));
    const [key] = await server.client.keys("rg:n:*");
    const { 0: seconds } = await server.client.time();
    await server.client.set(key!, forge(Math.floor((Number(seconds) * 1_000) / 1_200)));
    let more = 0;
    while (await takeOf(replica, 5)) more += 1;
    // What this replica itself called is not forgotten with the text that was written over.
    expect(more).toBe(4);
    expect(await server.client.strlen(key!)).toBeLessThan(1_000);
    expect(replica.coordinator.status().state).toBe("up");
  });

  // Each length had a window of its own, which was empty after a reload.
  test.each([30_000, 90_000])(
    "go on with what others called when a reload makes a window one of %i ms",
    async (per) => {
      const { replicas } = await acquaintedReplicas(2);
      expect(await takeAll([replicas[0]!], 12)).toBe(12);
      const windows = [{ name: "calls", requests: 20, per }];
      const { limits } = replicas[1]!.coordinator;
      let granted = 0;
      while ((await limits.take({ kind: "upstream", id: "budget", windows })).granted) granted += 1;
      expect(granted).toBe(8);
    },
  );

  // What was counted before the step was taken for calls of the future, and forgotten.
  test("still count what was called when Redis's clock steps back by a part of a window", async () => {
    const { server, replicas } = await acquaintedReplicas(2);
    expect(await takeAll([replicas[0]!], 12)).toBe(12);
    const [key] = await server.client.keys("rg:n:*");
    const text = await server.client.get(key!);
    // As if they had been counted three seconds later.
    await server.client.set(
      key!,
      text!.replace(/(\d+)=/g, (_, slot) => `${Number(slot) + 3}=`),
      "KEEPTTL",
    );
    expect(await takeAll([replicas[1]!])).toBe(8);
    const { 0: seconds } = await server.client.time();
    const slots = [...(await server.client.get(key!))!.matchAll(/(\d+)=/g)].map(([, slot]) => Number(slot));
    expect(Math.max(...slots)).toBeLessThanOrEqual((Number(seconds) * 1_000) / 1_200 + 1);
  });

  test("believe forged calls that look genuine, and ask again within a second: a limit is free when they are gone", async () => {
    const { server, replicas } = await acquaintedReplicas(1);
    const replica = replicas[0]!;
    await until(() => takeOf(replica, 5));
    const [key] = await server.client.keys("rg:n:*");
    const genuine = await server.client.get(key!);
    const { 0: seconds } = await server.client.time();
    const slot = Math.floor((Number(seconds) * 1_000) / 1_200);
    await server.client.set(key!, `${genuine!.split("\n")[0]}\ncalls 60000 ${slot}=2000\n`);
    expect(await takeOf(replica, 5)).toBe(false);
    await server.client.set(key!, genuine!);
    await until(() => takeOf(replica, 5));
  });
});
