import { afterEach, describe, expect, test } from "vitest";
import { digestOf } from "../../src/digest.ts";
import { Keys } from "../../src/sharing/redis/keys.ts";
import { closeAll, entryOf, redisServer, replicaOn, usable } from "../support/redis-scene.ts";
import { type RedisServer, until } from "../support/redis.ts";
import { infoKey, put } from "../support/store-suite.ts";

afterEach(closeAll);

const MIB = 1024 * 1024;
const HUGE = Buffer.alloc(60 * MIB, "x");

const keys = new Keys("rg:");
const tag = digestOf(infoKey.partition);
const action = { upstream: "amulet", mode: "cache-only", by: "token", from: "loopback" } as const;

/** Bytes that Redis has sent to all its clients. */
async function sentBy({ client }: RedisServer): Promise<number> {
  return Number(/total_net_output_bytes:(\d+)/.exec(await client.info("stats"))![1]);
}

describe("a huge value that another party wrote to Redis", () => {
  test.for<[string, string]>([
    ["actions", keys.actions],
    ["pins", keys.pins],
    ["replicas", keys.replicas],
    ["epochs", keys.epochs(tag)],
    ["epochs of everything", keys.epochs("*")],
  ])("is not read among the %s, and what is the gateway's goes on", async ([, key]) => {
    const server = await redisServer();
    const [a, b] = [await replicaOn({ url: server.url }), await replicaOn({ url: server.url })];
    await put(a, infoKey, entryOf(a));
    expect(await usable(b)).toBeDefined();
    const before = await sentBy(server);
    const rejected = a.events.valuesRejected + b.events.valuesRejected;
    // Its version is another one, so that it would be read.
    await server.client.hset(key, key.endsWith(":e") ? { huge: HUGE } : { huge: HUGE, "=version": "1" });
    await until(() => a.events.valuesRejected + b.events.valuesRejected > rejected, 20_000);
    expect(await a.coordinator.act({ action, lasts: undefined })).toBe("fleet");
    expect(await a.coordinator.purge(infoKey.partition, ["info"])).toBe("fleet");
    await until(() => b.coordinator.actions.all().length === 1, 20_000);
    await until(async () => (await usable(b)) === undefined, 20_000);
    // Whoever saw it took it away: it costs Redis nothing any more either.
    await until(async () => (await server.client.hexists(key, "huge")) === 0, 20_000);
    expect((await sentBy(server)) - before).toBeLessThan(MIB);
    expect([a, b].map(({ coordinator }) => coordinator.status().state)).toEqual(["up", "up"]);
  });

  test("is not read in the place of entries: a miss, and other variants are found", async () => {
    const server = await redisServer();
    const replica = await replicaOn({ url: server.url });
    await put(replica, infoKey, entryOf(replica, { body: Buffer.from("genuine") }));
    const [name] = await server.client.keys(`rg:{${tag}}:*:${digestOf(infoKey.id)}`);
    const before = await sentBy(server);
    await server.client.hset(name!, { "v:one": HUGE, "v:two": HUGE, "v:three": HUGE });
    // A look-up that Redis answers too late, busy with these values, is a miss.
    for (let i = 0; i < 10; i += 1) await until(async () => (await usable(replica)) === "genuine", 20_000);
    expect((await sentBy(server)) - before).toBeLessThan(MIB);
    expect(replica.events.rejected).toContain("entry form");
    expect(replica.coordinator.status().state).toBe("up");
  });

  test("is not read in the place of facts and leases, nor of a whole table in parts", async () => {
    const server = await redisServer();
    const replica = await replicaOn({ url: server.url });
    const before = await sentBy(server);
    await server.client.set(keys.fact("fact"), HUGE);
    await server.client.set(keys.lease(digestOf("key")), HUGE, "PX", 1_000);
    expect(await replica.coordinator.recall("fact")).toBeUndefined();
    expect(await replica.coordinator.acquire("key")).toBeDefined();
    // Each row is within its bound, and all together are not.
    const rows = Object.fromEntries(Array.from({ length: 100 }, (_, i) => [`row${i}`, HUGE.subarray(0, 200 * 1024)]));
    await server.client.hset(keys.actions, { ...rows, "=version": "1" });
    await until(() => replica.events.rejected.includes("action form"), 20_000);
    expect(await replica.coordinator.act({ action, lasts: undefined })).toBe("fleet");
    expect((await sentBy(server)) - before).toBeLessThan(MIB);
  });
});
