import { setTimeout as sleep } from "node:timers/promises";
import { cacheKey, type Entry } from "../../src/sharing/entries.ts";
import { crc32 } from "node:zlib";
import { afterEach, describe, expect, test } from "vitest";
import { digestOf } from "../../src/digest.ts";
import { clock } from "../support/redis-replicas.ts";
import { closeAll, entryOf, redisServer, replicaOn, usable } from "../support/redis-scene.ts";
import { type RedisServer } from "../support/redis.ts";
import { until } from "../support/until.ts";
import { infoKey, makeEntry, put } from "../support/store-suite.ts";

afterEach(closeAll);

function withChecksum(checked: Buffer): Buffer {
  const checksum = Buffer.alloc(4);
  checksum.writeUInt32BE(crc32(checked), 0);
  return Buffer.concat([checksum, checked]);
}

/** The stored value with another header, and the checksum that belongs to it. */
function withHeader(value: Buffer, change: (header: unknown[]) => unknown): Buffer {
  const [stamp, length] = [value.subarray(4, 17), value.readUInt32BE(17)];
  const header = JSON.parse(value.toString("utf8", 21, 21 + length)) as unknown[];
  change(header);
  const json = Buffer.from(JSON.stringify(header));
  const size = Buffer.alloc(4);
  size.writeUInt32BE(json.length, 0);
  return withChecksum(Buffer.concat([stamp, size, json, value.subarray(21 + length)]));
}

describe("what is in Redis", () => {
  const entryKey = `rg:{${digestOf(infoKey.partition)}}:6:${digestOf(infoKey.id)}`;
  const epochsKey = `rg:{${digestOf(infoKey.partition)}}:e`;
  const ALL_EPOCHS = "rg:{*}:e";

  test("serves the first request of a replica that has just started", async () => {
    const server = await redisServer();
    const replica = await replicaOn({ url: server.url });
    await put(replica, infoKey, entryOf(replica, { body: Buffer.from("warm") }));
    const fresh = await replicaOn({ url: server.url });
    expect(await usable(fresh)).toBe("warm");
  });

  test("holds no party id, token or instrument id in its keys, and nothing for ever but tables", async () => {
    const server = await redisServer();
    const { coordinator, ...replica } = await replicaOn({ url: server.url });
    const key = cacheKey({ ...infoKey, id: "page SECRET", chain: "25:SECRET" });
    await replica.store.get(key);
    coordinator.chains.issueChain(key.partition, key.chain, "digest");
    await put(replica, key, makeEntry(coordinator.epochs.epochOf(key)!, clock.now()));
    coordinator.facts.remember("contract SECRET", "DSO::1220aa", 60_000);
    await coordinator.limits.take({
      kind: "upstream",
      id: "upstream SECRET",
      windows: [{ name: "calls", requests: 1, per: 60_000 }],
    });
    await coordinator.leases.acquire("lease SECRET");
    await until(async () => (await server.client.dbsize()) >= 8);
    const keys = await server.client.keys("*");
    expect(keys.filter((name) => /SECRET|1220/.test(name))).toEqual([]);
    const lasting: string[] = [];
    for (const name of keys) if ((await server.client.pttl(name)) < 0) lasting.push(name);
    expect(lasting.filter((name) => !name.endsWith(":e") && !name.startsWith("rg:2:"))).toEqual([]);
  });

  test.for<[string, (value: Buffer) => Buffer]>([
    ["cut off", (value) => value.subarray(0, value.length - 1)],
    ["changed in one bit of its body", (value) => Buffer.concat([value.subarray(0, -1), Buffer.from([0x7c])])],
    ["without its stamp", (value) => withChecksum(value.subarray(17))],
    ["changed in its stamp", (value) => Buffer.concat([value.subarray(0, 16), Buffer.from("x"), value.subarray(17)])],
    ["of a status that is not stored", (value) => withHeader(value, (header) => (header[2] = 99_999))],
    ["of a status that is no number", (value) => withHeader(value, (header) => (header[2] = "x"))],
    ["whose instants are none", (value) => withHeader(value, (header) => (header[8] = null))],
    ["without fields", (value) => withHeader(value, (header) => (header[16] = null))],
    ["with half a field", (value) => withHeader(value, (header) => (header[16] = ["etag"]))],
    ["with a field of two lines", (value) => withHeader(value, (header) => (header[16] = ["x", "a\r\nb: c"]))],
    ["with parts left out", (value) => withHeader(value, (header) => header.pop())],
    ["empty", () => Buffer.alloc(0)],
    ["of an older format", () => Buffer.from('{"status":200,"body":"old"}')],
    ["from the future", (value) => withChecksum(Buffer.concat([Buffer.from("9".repeat(13)), value.subarray(17)]))],
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

  test.for<[string, (server: RedisServer) => Promise<unknown>]>([
    ["a string for the epochs of a partition", ({ client }) => client.set(epochsKey, "junk")],
    [
      "a list for those of all",
      async ({ client }) => [await client.del(ALL_EPOCHS), await client.rpush(ALL_EPOCHS, "x")],
    ],
    ["a scope's epoch that is none", ({ client }) => client.hset(epochsKey, "info", "junk")],
    ["a base that is none", ({ client }) => client.hset(epochsKey, "=", "junk")],
    ["a base beyond all counting", ({ client }) => client.hset(epochsKey, "=", "99999999999999999999999.x")],
  ])("%s gives way: what is shared is shared again, and purges hold", async ([, spoil]) => {
    const server = await redisServer();
    const [a, b] = [await replicaOn({ url: server.url }), await replicaOn({ url: server.url })];
    await put(a, infoKey, entryOf(a, { body: Buffer.from("before") }));
    expect(await usable(b)).toBe("before");
    await spoil(server);
    await until(async () => {
      a.store.set(infoKey, entryOf(a, { body: Buffer.from("after") }));
      return (await usable(b)) === "after" && (await usable(a)) === "after";
    });
    expect(await a.coordinator.epochs.purge(infoKey.partition, ["info"])).toBe("fleet");
    await until(async () => (await usable(b)) === undefined);
    expect([a, b].map(({ coordinator }) => coordinator.status().state)).toEqual(["up", "up"]);
  });

  test("what is no lease keeps nobody from fetching", async () => {
    const server = await redisServer();
    const replica = await replicaOn({ url: server.url });
    const first = await replica.coordinator.leases.acquire("key");
    const name = (await server.client.keys("*")).find((each) => each.includes(digestOf("key")));
    first!.release("uncacheable");
    expect(name).toBeDefined();
    await server.client.set(name!, "somebody else's");
    const second = await replica.coordinator.leases.acquire("key");
    expect(second).toBeDefined();
    second!.release("uncacheable");
    await server.client.del(name!);
    await server.client.rpush(name!, "x");
    expect(await replica.coordinator.leases.acquire("key")).toBeDefined();
  });

  test("a value of another key is a miss", async () => {
    const server = await redisServer();
    const replica = await replicaOn({ url: server.url });
    await put(replica, infoKey, entryOf(replica));
    const moved = cacheKey({ ...infoKey, id: "other" });
    await server.client.rename(entryKey, entryKey.replace(digestOf(infoKey.id), digestOf(moved.id)));
    expect(await replica.store.get(moved)).toBeUndefined();
    expect(replica.events.valuesRejected).toBe(1);
  });

  test("a value of another type is a miss, and is replaced", async () => {
    const server = await redisServer();
    const replica = await replicaOn({ url: server.url });
    await replica.store.get(infoKey);
    await server.client.set(entryKey, "somebody else's");
    expect(await replica.store.get(infoKey)).toBeUndefined();
    await put(replica, infoKey, entryOf(replica));
    expect(replica.events.states).toEqual(["up"]);
  });

  test("after FLUSHALL what was purged stays purged, and what memory holds stays usable", async () => {
    const server = await redisServer();
    const [a, b] = [await replicaOn({ url: server.url }), await replicaOn({ url: server.url })];
    await put(a, infoKey, entryOf(a, { body: Buffer.from("purged") }));
    await usable(b);
    const purged = a.coordinator.epochs.epochOf(infoKey);
    await a.coordinator.epochs.purge(infoKey.partition, ["info"]);
    await until(() => b.coordinator.epochs.epochOf(infoKey) === a.coordinator.epochs.epochOf(infoKey));
    const epoch = a.coordinator.epochs.epochOf(infoKey);
    await server.client.flushall();
    await put(a, infoKey, entryOf(a, { body: Buffer.from("after") }));
    expect(a.coordinator.epochs.epochOf(infoKey)).toBe(epoch);
    await until(async () => (await usable(b)) === "after");
    expect(purged).not.toBe(epoch);
  });

  test("loss of the epochs alone never brings a purged entry back, not even to a replica that just started", async () => {
    const server = await redisServer();
    const a = await replicaOn({ url: server.url });
    await put(a, infoKey, entryOf(a, { body: Buffer.from("purged") }));
    const dump = await server.client.dumpBuffer(entryKey);
    await a.coordinator.epochs.purge(infoKey.partition, ["info"]);
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

  test("a purge that a failover lost is made again", async () => {
    const server = await redisServer();
    const replica = await replicaOn({ url: server.url });
    await put(replica, infoKey, entryOf(replica, { body: Buffer.from("purged") }));
    const epochs = await server.client.dumpBuffer(epochsKey);
    const entry = await server.client.dumpBuffer(entryKey);
    await replica.coordinator.epochs.purge(infoKey.partition, ["info"]);
    await server.client.restore(epochsKey, 0, epochs, "REPLACE");
    await server.client.restore(entryKey, 60_000, entry, "REPLACE");
    expect(await usable(replica)).toBeUndefined();
    await until(async () => (await server.client.hget(epochsKey, "info")) !== null);
    const fresh = await replicaOn({ url: server.url });
    expect(await usable(fresh)).toBeUndefined();
  });

  test("a purge whose message was lost holds within 2 s, and at once for what is read from Redis", async () => {
    const server = await redisServer();
    const replica = await replicaOn({ url: server.url });
    await put(replica, infoKey, entryOf(replica));
    const before = replica.coordinator.epochs.epochOf(infoKey);
    await server.client.hset(epochsKey, "all", "1.elsewhere");
    expect(await usable(replica)).toBeUndefined();
    expect(replica.coordinator.epochs.epochOf(infoKey)).not.toBe(before);
    const known = replica.coordinator.epochs.epochOf(infoKey);
    await server.client.hset("rg:{*}:e", "all", "1.everywhere");
    await until(() => replica.coordinator.epochs.epochOf(infoKey) !== known);
  });

  test("an answer asked for before a purge elsewhere is not stored, though the message was lost", async () => {
    const server = await redisServer();
    const replica = await replicaOn({ url: server.url });
    await replica.store.get(infoKey);
    const entry = entryOf(replica);
    await server.client.hset(epochsKey, "all", "1.elsewhere");
    replica.store.set(infoKey, entry);
    // On a busy machine the epochs may have been read again before.
    await until(
      () => replica.events.sent("entry_write") > 0 || replica.coordinator.epochs.epochOf(infoKey) !== entry.epoch,
    );
    expect(await server.client.exists(entryKey)).toBe(0);
  });

  test("takes 16 MiB at a time, and more once that is written", async () => {
    const server = await redisServer();
    const replica = await replicaOn({ url: server.url });
    await replica.store.get(infoKey);
    const large = Buffer.alloc(3.5 * 1024 * 1024);
    const keys = Array.from({ length: 5 }, (_, i) => cacheKey({ ...infoKey, id: `large ${i}` }));
    for (const key of keys) replica.store.set(key, entryOf(replica, { body: large }, key));
    expect(replica.events.writesDropped).toBe(1);
    await until(() => replica.events.sent("entry_write") === 4);
    await put(replica, infoKey, entryOf(replica));
    expect(await usable(replica, keys[4])).toBeUndefined();
    expect(replica.events.writesDropped).toBe(1);
  });

  test("time spent in a frozen server counts as age", async () => {
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
    // A second went by; how far Redis' clock is ahead is known to a round trip.
    expect(found!.bornAt).toBeLessThanOrEqual(entry.bornAt + 500);
    expect(found!.usableUntil).toBeLessThanOrEqual(entry.usableUntil + 500);
  });

  // It was served again as soon as that clock had caught up, younger by as much as it was set back.
  test("nothing is stored that was sent later than now, by a clock that Redis no longer has", async () => {
    const server = await redisServer();
    const replica = await replicaOn({ url: server.url });
    await put(replica, infoKey, entryOf(replica));
    await server.client.del(entryKey);
    const sent = replica.events.sent("entry_write");
    replica.coordinator.epochs.view(infoKey.partition).clockOffset += 30_000;
    replica.store.set(infoKey, entryOf(replica));
    await until(() => replica.events.sent("entry_write") > sent);
    expect(await server.client.exists(entryKey)).toBe(0);
  });

  test("an entry leaves Redis when it is no longer useful", async () => {
    const server = await redisServer();
    const replica = await replicaOn({ url: server.url });
    const now = clock.now();
    await put(
      replica,
      infoKey,
      entryOf(replica, { freshUntil: now + 100, revalidateUntil: now + 200, usableUntil: now + 300 }),
    );
    await until(async () => (await server.client.exists(entryKey)) === 0);
  });
});
