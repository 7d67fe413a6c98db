import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, describe, expect, test } from "vitest";
import { clock, type Replica } from "../support/redis-replicas.ts";
import { acquaintedReplicas, closeAll, redisServer, replicaOn, replicasOfOne } from "../support/redis-scene.ts";
import { until } from "../support/redis.ts";

// All at once: each waits most of its time, on a Redis of its own.
afterAll(closeAll);

/** A call was granted between these instants. */
interface Granted {
  readonly from: number;
  readonly to: number;
  readonly member?: string | undefined;
}

describe.concurrent("rate limits", () => {
  const limit = { requests: 20, per: 600 };

  /**
   * Takes calls from all replicas for a while, and until so many are granted: on a busy machine Redis may be too slow to
   * be asked now and then. The instants of those granted.
   */
  async function takeFor(
    replicas: readonly Replica[],
    duration: number,
    least = 0,
    members: readonly (string | undefined)[] = [undefined],
  ): Promise<Granted[]> {
    const granted: Granted[] = [];
    const end = clock.now() + duration;
    await Promise.all(
      replicas.flatMap(({ coordinator }) =>
        members.map(async (member) => {
          while (clock.now() < end || granted.length < least) {
            const from = clock.now();
            const grant = await coordinator.takeCall("budget", { ...limit, member });
            if (grant.granted) granted.push({ from, to: clock.now(), member });
            else await sleep(Math.min(grant.retryIn, 20));
          }
        }),
      ),
    );
    return granted.sort((a, b) => a.from - b.from);
  }

  /** In no window of `per` there are more than `requests` calls. */
  function expectExact(granted: readonly Granted[]): void {
    for (let i = limit.requests; i < granted.length; i += 1) {
      expect(granted[i]!.to - granted[i - limit.requests]!.from).toBeGreaterThanOrEqual(limit.per - 1);
    }
  }

  test("are one for all replicas, exact in any window", async () => {
    const { replicas } = await acquaintedReplicas(3);
    const granted = await takeFor(replicas, 4_000, 120);
    expectExact(granted);
  });

  test("of three upstreams on two replicas are one, exact in any window, and each upstream has its part", async () => {
    const { server, replicas } = await acquaintedReplicas(2);
    // The first asks three times as often.
    const members = ["a", "a", "a", "b", "c"];
    const granted = await takeFor(replicas, 4_000, 120, members);
    expectExact(granted);
    // In any order of asking: once the first window has gone by, none has less than half of its part.
    const later = granted.slice(40);
    for (const member of ["a", "b", "c"]) {
      const own = later.filter((each) => each.member === member).length;
      expect(own / later.length).toBeGreaterThan(1 / 6);
    }
    // What counts the members is lost, or nonsense, and made anew from the calls.
    const key = (await server.client.keys("rg:b:*")).find((name) => name.endsWith(":m"))!;
    await server.client.hset(key, { a: "junk", z: "-3", "?z": "junk" });
    expectExact([...granted.slice(-40), ...(await takeFor(replicas, 1_000, 20, members))]);
    await server.client.set(key, "junk");
    expectExact(await takeFor(replicas, 1_000, 20, members));
    expect(replicas.map(({ coordinator }) => coordinator.status().state)).toEqual(["up", "up"]);
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
    const { server, replicas } = await acquaintedReplicas(2);
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
