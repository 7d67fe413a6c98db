import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, describe, expect, test } from "vitest";
import type { CallLimit } from "../../src/coordination/coordinator.ts";
import { Keys } from "../../src/coordination/redis/protocol.ts";
import { clock, type Replica } from "../support/redis-replicas.ts";
import { closeAll, isAcquainted, redisServer, replicaOn } from "../support/redis-scene.ts";
import { type RedisServer, until } from "../support/redis.ts";
import { useSealKeys } from "../support/seal-keys.ts";

// All at once: each waits most of its time, on a Redis of its own.
afterAll(closeAll);

const sealKeys = useSealKeys();
const keys = new Keys("rg:", true);
const LIMIT = { requests: 6, per: 60_000 };
const KEY = keys.rateLimit("limit");
const FORGED_SEAL = "a".repeat(22);

/** Replicas with a seal key that go by the count in Redis alone. */
async function sealedReplicas(count: number, ...names: string[]): Promise<{ server: RedisServer; all: Replica[] }> {
  const server = await redisServer();
  const sealKeyFile = sealKeys(["key", ...names].join("-"), ...(names.length === 0 ? ["one"] : names));
  const all = await Promise.all(Array.from({ length: count }, () => replicaOn({ url: server.url, sealKeyFile })));
  await until(() => all.every((replica) => isAcquainted(replica, count)));
  return { server, all };
}

/** Redis's clock (ms). */
async function redisTime({ client }: RedisServer): Promise<number> {
  const [seconds, microseconds] = await client.time();
  return Number(seconds) * 1_000 + Number(microseconds) / 1_000;
}

/** Takes calls until one is refused. */
async function takeAll({ coordinator }: Replica, limit: CallLimit, name = "limit"): Promise<number> {
  for (let taken = 0; ; taken += 1) if (!(await coordinator.takeCall(name, limit)).granted) return taken;
}

function rejections({ events }: Replica): number {
  return events.rejected.filter((each) => each === "limit seal").length;
}

/** Nothing was an error, and Redis is still asked. */
function expectUnharmed(all: readonly Replica[]): void {
  for (const { events, coordinator } of all) {
    expect(events.commands.filter(({ outcome }) => outcome !== "ok")).toEqual([]);
    expect(coordinator.status().state).toBe("up");
  }
}

/** Takes calls by all until so many are granted: each time a replica is refused, it removes some of what is forged. */
async function takeInTime(all: readonly Replica[], limit: CallLimit, count: number): Promise<number> {
  let granted = 0;
  await until(async () => {
    for (const replica of all) granted += await takeAll(replica, limit);
    return granted >= count;
  }, 10_000);
  return granted;
}

describe.concurrent("calls that no gateway with the seal key made", () => {
  const many = (count: number, name: (i: number) => string | Buffer) => (server: RedisServer, now: number) =>
    server.client.zadd(KEY, ...Array.from({ length: count }, (_, i) => [String(now), name(i)]).flat());

  test.each<[string, number, (server: RedisServer, now: number) => Promise<unknown>]>([
    ["without a seal", 50, many(50, (i) => `x:${i}`)],
    ["with a made-up seal", 50, many(50, (i) => `abcdefghijkl:9999999999999.${i}!${FORGED_SEAL}`)],
    ["of bytes that are no text", 7, many(7, (i) => Buffer.from([0xff, 0xfe, i]))],
    ["two thousand of them", 2_000, many(2_000, (i) => `x:${i}`)],
    ["of a far future", 50, (server, now) => many(50, (i) => `x:${i}`)(server, now + 59_000)],
  ])("do not count: %s", async (_what, count, forge) => {
    const { server, all } = await sealedReplicas(2);
    expect(await takeInTime(all.slice(0, 1), { ...LIMIT, requests: 2 }, 2)).toBe(2);
    await forge(server, await redisTime(server));
    expect(await takeInTime(all, LIMIT, LIMIT.requests - 2)).toBe(LIMIT.requests - 2);
    expect(all.map(rejections).reduce((a, b) => a + b)).toBeGreaterThanOrEqual(count);
    // What is genuine still counts, for those who come later too.
    expect(await takeAll(all[1]!, LIMIT)).toBe(0);
    expectUnharmed(all);
  });

  test("do not count where they are of another limit, or sealed with another key", async () => {
    const { server, all } = await sealedReplicas(1);
    const [replica] = all as [Replica];
    const other = await replicaOn({ url: server.url, sealKeyFile: sealKeys("other", "other") });
    await until(() => isAcquainted(other, 1));
    expect(await takeAll(replica, LIMIT, "other")).toBe(LIMIT.requests);
    const swapped = await server.client.zrange(keys.rateLimit("other"), "0", "-1");
    expect(await takeAll(other, LIMIT)).toBe(LIMIT.requests);
    const now = await redisTime(server);
    for (const name of swapped) await server.client.zadd(KEY, String(now), name);
    expect(await server.client.zcard(KEY)).toBe(2 * LIMIT.requests);
    expect(await takeInTime(all, LIMIT, LIMIT.requests)).toBe(LIMIT.requests);
    expect(rejections(replica)).toBe(2 * LIMIT.requests);
    expectUnharmed(all);
  });

  test("do not count where they are put back after their window", async () => {
    const { server, all } = await sealedReplicas(2);
    const [a, b] = all as [Replica, Replica];
    const short = { requests: 5, per: 300 };
    expect(await takeAll(a, short)).toBe(5);
    const old = await server.client.zrange(KEY, "0", "-1");
    // The clock of Redis may be misjudged by two seconds.
    const takenAt = clock.now();
    await until(() => clock.now() - takenAt > short.per + 2_500);
    const now = await redisTime(server);
    for (const name of old) await server.client.zadd(KEY, String(now + short.per - 1), name);
    expect((await b.coordinator.takeCall("limit", short)).granted).toBe(true);
    expect(rejections(b)).toBe(5);
    expectUnharmed(all);
  });

  test("count where their key is on its way out", async () => {
    const { server, all } = await sealedReplicas(1, "old", "new");
    expect(await takeAll(all[0]!, LIMIT)).toBe(LIMIT.requests);
    const next = await replicaOn({ url: server.url, sealKeyFile: sealKeys("next", "new", "old") });
    await until(() => isAcquainted(next, 2));
    expect(await takeAll(next, LIMIT)).toBe(0);
    expect(rejections(next)).toBe(0);
  });

  test("are told again where genuine ones were removed, and look the same", async () => {
    const { server, all } = await sealedReplicas(2);
    const [a, b] = all as [Replica, Replica];
    expect(await takeAll(a, { ...LIMIT, requests: 4 })).toBe(4);
    const before = await server.client.zrange(KEY, "0", "-1");
    await server.client.del(KEY);
    expect((await a.coordinator.takeCall("limit", LIMIT)).granted).toBe(true);
    await until(async () => (await server.client.zcard(KEY)) === 5);
    expect(await server.client.zrange(KEY, "0", "-1")).toEqual(expect.arrayContaining(before));
    expect(await takeAll(b, LIMIT)).toBe(1);
    expect([rejections(a), rejections(b)]).toEqual([0, 0]);
  });
});

describe.concurrent("of a limit that members share", () => {
  const ofA = { requests: 10, per: 60_000, member: "a" };

  test("what others are said to have called or wanted does not count where it is forged", async () => {
    const { server, all } = await sealedReplicas(1);
    const [replica] = all as [Replica];
    const now = Math.floor(await redisTime(server));
    await server.client.hset(`${KEY}:m`, { "?b": now, "?c": `${now} ${now}.000!${FORGED_SEAL}`, "?d": "junk" });
    // A member that is alone leaves a tenth to the others.
    expect(await takeInTime(all, ofA, 9)).toBe(9);
    expect(rejections(replica)).toBeGreaterThanOrEqual(2);
    await server.client.hset(`${KEY}:m`, { a: 1, b: 8 });
    expect(await takeInTime(all, { ...ofA, member: "b" }, 1)).toBe(1);
    expect(replica.events.rejected).toContain("limit form");
    expectUnharmed(all);
  });

  test("what others called and wanted counts where it is genuine", async () => {
    const { server, all } = await sealedReplicas(2);
    const [a, b] = all as [Replica, Replica];
    expect(await takeAll(a, ofA)).toBe(9);
    expect(await takeAll(b, { ...ofA, member: "b" })).toBe(1);
    expect(await takeAll(b, { ...ofA, member: "c" })).toBe(0);
    const fields = Object.keys(await server.client.hgetall(`${KEY}:m`));
    expect(fields.toSorted()).toEqual(["?b", "?c", "a", "b"]);
    for (let i = 0; i < 3; i += 1) {
      await sleep(120);
      expect(await takeAll(a, ofA)).toBe(0);
    }
    expect(Object.keys(await server.client.hgetall(`${KEY}:m`)).toSorted()).toEqual(fields.toSorted());
    expect([rejections(a), rejections(b)]).toEqual([0, 0]);
  });
});

describe.concurrent("of a client's limit", () => {
  const buckets = [{ burst: 4, interval: 60_000, spent: 0, missing: 0 }];
  const take = ({ coordinator }: Replica, name: string, count: number) =>
    coordinator.clientLimits.takeTokens(name, { buckets, wanted: [count] });
  const hold = ({ coordinator }: Replica, name: string, wanted: number) =>
    coordinator.clientLimits.holdSlots(name, { running: 0, wanted, max: 4 });

  test.each<[string, (server: RedisServer, key: string, other: string) => Promise<unknown>]>([
    ["without a seal", async ({ client }, key) => client.set(key, (await client.get(key))!.replace(/!.*/, ""))],
    ["with a made-up seal", async ({ client }, key) => client.set(key, `9999999999999 4!${FORGED_SEAL}`)],
    [
      "changed",
      async ({ client }, key) =>
        client.set(
          key,
          (await client.get(key))!.replace(/\d!/, (end) => (end === "0!" ? "1!" : "0!")),
        ),
    ],
    ["of another client", ({ client }, key, other) => client.copy(other, key, "REPLACE")],
    ["in bytes that are no text", ({ client }, key) => client.set(key, Buffer.from([0xff, 0xfe, 0x20, 0x34]))],
    ["of a mebibyte", ({ client }, key) => client.set(key, "7".repeat(2 ** 20))],
    ["in a list", ({ client }, key) => client.del(key).then(() => client.rpush(key, "x"))],
    ["in nothing", ({ client }, key) => client.set(key, "")],
  ])("what is missing, forged %s, counts for nothing, and the next is counted again", async (what, forge) => {
    const { server, all } = await sealedReplicas(2);
    const [a, b] = all as [Replica, Replica];
    expect((await take(a, "client", 9))?.granted).toEqual([4]);
    expect((await take(a, "other", 9))?.granted).toEqual([4]);
    await forge(server, keys.tokens("client"), keys.tokens("other"));
    expect((await take(b, "client", 3))?.granted).toEqual([3]);
    expect((await take(a, "client", 3))?.granted).toEqual([1]);
    expect(await hold(a, "client", 3)).toBe(3);
    expect(await hold(a, "other", 4)).toBe(4);
    await forge(server, keys.slots("client"), keys.slots("other"));
    expect(await hold(b, "client", 4)).toBe(4);
    expect(await hold(a, "client", 4)).toBe(0);
    const rejected = all.flatMap(({ events }) => events.rejected);
    expect(rejected).toHaveLength(what === "in nothing" ? 0 : 2);
    expectUnharmed(all);
  });

  test("is not lost among many who change it at once", async () => {
    const { all } = await sealedReplicas(6);
    const granted = await Promise.all(
      Array.from({ length: 4 }, () => all.map(async (each) => (await take(each, "client", 1))?.granted[0])).flat(),
    );
    expect(granted.filter((count) => count === 1)).toHaveLength(4);
    expect(granted).not.toContain(undefined);
    const held = await Promise.all(all.map((each) => hold(each, "client", 1)));
    expect(held.filter((count) => count === 1)).toHaveLength(4);
  });
});
