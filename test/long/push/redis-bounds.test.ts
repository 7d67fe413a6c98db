import { afterEach, describe, expect, test } from "vitest";
import { digestOf } from "../../../src/digest.ts";
import { Keys } from "../../../src/sharing/redis/keys.ts";
import type { Replica } from "../../support/redis-replicas.ts";
import { closeAll, entryOf, redisServer, replicaOn, usable } from "../../support/redis-scene.ts";
import { type RedisServer } from "../../support/redis.ts";
import { until } from "../../support/until.ts";
import { useSealKeys } from "../../support/seal-keys.ts";
import { infoKey, put } from "../../support/store-suite.ts";

const sealKeys = useSealKeys();
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
    // Its version is another one, so that it would be read.
    await server.client.hset(key, key.endsWith(":e") ? { huge: HUGE } : { huge: HUGE, "=version": "1" });
    // Whoever saw it first took it away.
    await until(async () => (await server.client.hexists(key, "huge")) === 0);
    await until(async () => (await a.coordinator.actions.act({ action, lasts: undefined })) === "fleet");
    await until(async () => (await a.coordinator.epochs.purge(infoKey.partition, ["info"])) === "fleet");
    await until(() => b.coordinator.actions.all().length === 1);
    await until(async () => (await usable(b)) === undefined);
    expect((await sentBy(server)) - before).toBeLessThan(MIB);
    // A Redis that is busy with such a value may be too slow for a moment.
    await until(() => [a, b].every(({ coordinator }) => coordinator.status().state === "up"));
  });

  test("is not read in the place of entries: a miss, and other variants are found", async () => {
    const server = await redisServer();
    const replica = await replicaOn({ url: server.url });
    await put(replica, infoKey, entryOf(replica, { body: Buffer.from("genuine") }));
    const [name] = await server.client.keys(`rg:{${tag}}:*:${digestOf(infoKey.id)}`);
    const before = await sentBy(server);
    await server.client.hset(name!, { "v:one": HUGE, "v:two": HUGE, "v:three": HUGE });
    // A look-up that Redis answers too late, busy with these values, is a miss.
    for (let i = 0; i < 10; i += 1) await until(async () => (await usable(replica)) === "genuine");
    expect((await sentBy(server)) - before).toBeLessThan(MIB);
    expect(replica.events.rejected).toContain("entry form");
    await until(() => replica.coordinator.status().state === "up");
  });

  test("is not read in the place of facts and leases, nor of a whole table in parts", async () => {
    const server = await redisServer();
    const replica = await replicaOn({ url: server.url });
    const before = await sentBy(server);
    await server.client.set(keys.fact("fact"), HUGE);
    await server.client.set(keys.lease(digestOf("key")), HUGE, "PX", 1_000);
    expect(await replica.coordinator.facts.recall("fact")).toEqual([]);
    expect(await replica.coordinator.leases.acquire("key")).toBeDefined();
    // Each row is within its bound, and all together are not.
    const rows = Object.fromEntries(Array.from({ length: 100 }, (_, i) => [`row${i}`, HUGE.subarray(0, 200 * 1024)]));
    await server.client.hset(keys.actions, { ...rows, "=version": "1" });
    await until(() => replica.events.rejected.includes("action form"));
    expect(await replica.coordinator.actions.act({ action, lasts: undefined })).toBe("fleet");
    expect((await sentBy(server)) - before).toBeLessThan(MIB);
  });
});

describe("a huge message that another party publishes", () => {
  const listen = ({ coordinator }: Replica) => {
    const heard: (string | undefined)[] = [];
    coordinator.announcements.onAnnounced((news) => void heard.push(news));
    return heard;
  };

  // It was read whole, by every replica.
  test.each(["plain", "sealed"])("is given up before it is read, and messages come again (%s)", async (form) => {
    const keysOfRedis = form === "sealed" ? { sealKeyFile: sealKeys("key", "one") } : {};
    const server = await redisServer();
    // Redis itself would end the connection at 32 MB as it comes.
    await server.client.config("SET", "client-output-buffer-limit", "pubsub 0 0 0");
    const [a, b] = [
      await replicaOn({ url: server.url, ...keysOfRedis }),
      await replicaOn({ url: server.url, ...keysOfRedis }),
    ];
    const heard = listen(b);
    a.coordinator.announcements.announce("before");
    await until(() => heard.includes("before"));
    const before = await sentBy(server);
    expect(await server.client.publish(keys.channel, HUGE)).toBe(2);
    await until(() => [a, b].every(({ events }) => events.rejected.includes("message form")));
    // They are told that they may have missed some.
    await until(() => heard.includes(undefined));
    let sent = 0;
    await until(async () => {
      a.coordinator.announcements.announce(`after ${(sent += 1)}`);
      return heard.some((news) => news?.startsWith("after"));
    });
    // What the sockets' buffers hold, of the 120 MB for both.
    expect((await sentBy(server)) - before).toBeLessThan(60 * MIB);
    // A Redis that is busy with such a value may be too slow for a moment.
    await until(() => [a, b].every(({ coordinator }) => coordinator.status().state === "up"));
  });

  test("of the gateway's own, which is longer than others read, says only that something changed", async () => {
    const server = await redisServer();
    const [a, b] = [await replicaOn({ url: server.url }), await replicaOn({ url: server.url })];
    const scope = `instrument:${"x".repeat(100_000)}`;
    const dependencies = { partition: infoKey.partition, scopes: ["all", scope] };
    await until(() => a.coordinator.epochs.epochOf(dependencies) === b.coordinator.epochs.epochOf(dependencies));
    const epoch = b.coordinator.epochs.epochOf(dependencies);
    expect(await a.coordinator.epochs.purge(infoKey.partition, [scope])).toBe("fleet");
    await until(() => b.coordinator.epochs.epochOf(dependencies) !== epoch);
    expect([a, b].flatMap(({ events }) => events.rejected)).toEqual([]);
  });
});
