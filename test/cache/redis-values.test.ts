import { setTimeout as sleep } from "node:timers/promises";
import { afterEach, describe, expect, it } from "vitest";
import type { Entry } from "../../src/cache/entry.ts";
import { cacheKey } from "../../src/cache/store.ts";
import { digest } from "../../src/redis/keys.ts";
import { clock } from "../support/redis-fleet.ts";
import { until } from "../support/redis.ts";
import { closeAll, entryOf, redisServer, replicaOn, usable } from "./redis-scene.ts";
import { infoKey, makeEntry, put } from "./store-suite.ts";

afterEach(closeAll);

describe("what is in Redis", () => {
  const entryKey = `rg:{${digest(infoKey.partition)}}:2:${digest(infoKey.id)}`;
  const epochsKey = `rg:{${digest(infoKey.partition)}}:e`;

  it("serves the first request of a replica that has just started", async () => {
    const server = await redisServer();
    const replica = await replicaOn({ url: server.url });
    await put(replica, infoKey, entryOf(replica, { body: Buffer.from("warm") }));
    const fresh = await replicaOn({ url: server.url });
    expect(await usable(fresh)).toBe("warm");
  });

  it("holds no party id, token or instrument id in its keys, and nothing for ever but epochs", async () => {
    const server = await redisServer();
    const { coordinator, ...replica } = await replicaOn({ url: server.url });
    const key = cacheKey({ ...infoKey, id: "page SECRET", chain: "25:SECRET" });
    await replica.store.get(key);
    coordinator.issueChain(key.partition, key.chain, "digest");
    await put(replica, key, makeEntry(coordinator.generation(key)!, clock.now()));
    coordinator.remember("contract SECRET", "DSO::1220aa", 60_000);
    await coordinator.takeCall("upstream SECRET", { requests: 1, per: 60_000 });
    await coordinator.acquire("lease SECRET");
    await until(async () => (await server.client.dbsize()) >= 8);
    const keys = await server.client.keys("*");
    expect(keys.filter((name) => /SECRET|1220/.test(name))).toEqual([]);
    const lasting: string[] = [];
    for (const name of keys) if ((await server.client.pttl(name)) < 0) lasting.push(name);
    expect(lasting.filter((name) => !name.endsWith(":e"))).toEqual([]);
  });

  it.for<[string, (value: Buffer) => Buffer]>([
    ["cut off", (value) => value.subarray(0, value.length - 1)],
    ["changed in one bit of its body", (value) => Buffer.concat([value.subarray(0, -1), Buffer.from([0x7c])])],
    ["without its stamp", (value) => value.subarray(13)],
    ["empty", () => Buffer.alloc(0)],
    ["of an older format", () => Buffer.from('{"status":200,"body":"old"}')],
    ["from the future", (value) => Buffer.concat([Buffer.from("9999999999999"), value.subarray(13)])],
  ])("a value %s is a miss", async ([, damage]) => {
    const server = await redisServer();
    const replica = await replicaOn({ url: server.url });
    await put(replica, infoKey, entryOf(replica));
    const value = (await server.client.hgetBuffer(entryKey, "v"))!;
    await server.client.hset(entryKey, "v", damage(value));
    expect(await replica.store.get(infoKey)).toBeUndefined();
    expect(replica.events.valuesRejected).toBeGreaterThan(0);
    expect(replica.events.states).toEqual(["up"]);
  });

  it("a value of another key is a miss", async () => {
    const server = await redisServer();
    const replica = await replicaOn({ url: server.url });
    await put(replica, infoKey, entryOf(replica));
    const moved = cacheKey({ ...infoKey, id: "other" });
    await server.client.rename(entryKey, entryKey.replace(digest(infoKey.id), digest(moved.id)));
    expect(await replica.store.get(moved)).toBeUndefined();
    expect(replica.events.valuesRejected).toBe(1);
  });

  it("a value of another type is a miss, and is replaced", async () => {
    const server = await redisServer();
    const replica = await replicaOn({ url: server.url });
    await replica.store.get(infoKey);
    await server.client.set(entryKey, "somebody else's");
    expect(await replica.store.get(infoKey)).toBeUndefined();
    await put(replica, infoKey, entryOf(replica));
    expect(replica.events.states).toEqual(["up"]);
  });

  it("after FLUSHALL what was purged stays purged, and what memory holds stays usable", async () => {
    const server = await redisServer();
    const [a, b] = [await replicaOn({ url: server.url }), await replicaOn({ url: server.url })];
    await put(a, infoKey, entryOf(a, { body: Buffer.from("purged") }));
    await usable(b);
    const purged = a.coordinator.generation(infoKey);
    await a.coordinator.purge(infoKey.partition, ["info"]);
    await until(() => b.coordinator.generation(infoKey) === a.coordinator.generation(infoKey));
    const generation = a.coordinator.generation(infoKey);
    await server.client.flushall();
    await put(a, infoKey, entryOf(a, { body: Buffer.from("after") }));
    expect(a.coordinator.generation(infoKey)).toBe(generation);
    await until(async () => (await usable(b)) === "after");
    expect(purged).not.toBe(generation);
  });

  it("loss of the epochs alone never brings a purged entry back, not even to a replica that just started", async () => {
    const server = await redisServer();
    const a = await replicaOn({ url: server.url });
    await put(a, infoKey, entryOf(a, { body: Buffer.from("purged") }));
    const dump = await server.client.dumpBuffer(entryKey);
    await a.coordinator.purge(infoKey.partition, ["info"]);
    await server.client.restore(entryKey, 60_000, dump, "REPLACE");
    await server.client.del(epochsKey);
    const fresh = await replicaOn({ url: server.url });
    expect(await usable(fresh)).toBeUndefined();
    expect(await usable(a)).toBeUndefined();
    await a.close();
    await fresh.close();
    await server.client.del(epochsKey, "rg:{*}:e");
    await server.client.restore(entryKey, 60_000, dump, "REPLACE");
    const later = await replicaOn({ url: server.url });
    expect(await usable(later)).toBeUndefined();
  });

  it("a purge that a failover lost is made again", async () => {
    const server = await redisServer();
    const replica = await replicaOn({ url: server.url });
    await put(replica, infoKey, entryOf(replica, { body: Buffer.from("purged") }));
    const epochs = await server.client.dumpBuffer(epochsKey);
    const entry = await server.client.dumpBuffer(entryKey);
    await replica.coordinator.purge(infoKey.partition, ["info"]);
    await server.client.restore(epochsKey, 0, epochs, "REPLACE");
    await server.client.restore(entryKey, 60_000, entry, "REPLACE");
    expect(await usable(replica)).toBeUndefined();
    await until(async () => (await server.client.hget(epochsKey, "info")) !== null, 2_000);
    const fresh = await replicaOn({ url: server.url });
    expect(await usable(fresh)).toBeUndefined();
  });

  it("a purge whose message was lost holds within 2 s, and at once for what is read from Redis", async () => {
    const server = await redisServer();
    const replica = await replicaOn({ url: server.url });
    await put(replica, infoKey, entryOf(replica));
    const before = replica.coordinator.generation(infoKey);
    await server.client.hset(epochsKey, "all", "1.elsewhere");
    expect(await usable(replica)).toBeUndefined();
    expect(replica.coordinator.generation(infoKey)).not.toBe(before);
    const known = replica.coordinator.generation(infoKey);
    await server.client.hset("rg:{*}:e", "all", "1.everywhere");
    await until(() => replica.coordinator.generation(infoKey) !== known, 2_000);
  });

  it("an answer asked for before a purge elsewhere is not stored, though the message was lost", async () => {
    const server = await redisServer();
    const replica = await replicaOn({ url: server.url });
    await replica.store.get(infoKey);
    await server.client.hset(epochsKey, "all", "1.elsewhere");
    replica.store.set(infoKey, entryOf(replica));
    await until(() => replica.events.sent("entry_write") > 0);
    expect(await server.client.exists(entryKey)).toBe(0);
  });

  it("time spent in a frozen server counts as age", async () => {
    const server = await redisServer();
    const replica = await replicaOn({ url: server.url });
    await put(replica, infoKey, entryOf(replica));
    const entry = entryOf(replica, { body: Buffer.from("late") });
    server.pause();
    replica.store.set(infoKey, entry);
    await sleep(1_000);
    server.resume();
    let found: Entry | undefined;
    await until(async () => {
      found = (await replica.store.get(infoKey))?.[0];
      return found?.body.toString() === "late";
    });
    expect(found!.bornAt).toBeLessThanOrEqual(entry.bornAt + 1);
    expect(found!.usableUntil).toBeLessThanOrEqual(entry.usableUntil + 1);
  });

  it("an entry leaves Redis when it is no longer useful", async () => {
    const server = await redisServer();
    const replica = await replicaOn({ url: server.url });
    const now = clock.now();
    await put(
      replica,
      infoKey,
      entryOf(replica, { freshUntil: now + 100, revalidateUntil: now + 200, usableUntil: now + 300 }),
    );
    await until(async () => (await server.client.exists(entryKey)) === 0, 2_000);
  });
});
