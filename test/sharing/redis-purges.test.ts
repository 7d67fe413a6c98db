import { afterAll, expect, test } from "vitest";
import { digestOf } from "../../src/digest.ts";
import { softScope } from "../../src/sharing/epochs.ts";
import { closeAll, entryOf, redisServer, replicaOn } from "../support/redis-scene.ts";
import { clock } from "../support/redis-replicas.ts";
import { until } from "../support/until.ts";
import { infoKey, put } from "../support/store-suite.ts";
import { tellPurgeStory } from "../support/redis-purges.ts";

afterAll(closeAll);

test("no answer asked for before a purge is served after its bound, whatever replicas, messages and Redis go through", async () => {
  const seed = Math.floor(Math.random() * 2 ** 31);
  const story = await tellPurgeStory({ seed, replicas: 3, duration: 8_000, redisDies: true });
  expect(story.violations, `seed ${seed}`).toEqual([]);
  expect(story.served).toBeGreaterThan(50);
  expect(story.fromRedis).toBeGreaterThan(0);
  expect(story.purges.fleet).toBeGreaterThan(5);
});

test("a soft purge reaches a replica whose messages are lost within 2 s, with its time, and one that begins later", async () => {
  const server = await redisServer();
  const a = await replicaOn({ url: server.url });
  const deaf = await replicaOn({ url: server.url }, { post: () => undefined });
  const key = { partition: "DSO::1220aa", scopes: ["all", "info"] };
  for (const { coordinator } of [a, deaf])
    expect([coordinator.epochs.softEpochOf(key), coordinator.epochs.epochOf(key)]).toEqual(["", expect.any(String)]);
  await until(() => deaf.coordinator.epochs.epochOf(key) === a.coordinator.epochs.epochOf(key));
  const epoch = a.coordinator.epochs.epochOf(key);
  const at = Date.now();
  expect(await a.coordinator.epochs.purge(key.partition, [softScope("all")])).toBe("fleet");
  await until(() => deaf.coordinator.epochs.softEpochOf(key) === a.coordinator.epochs.softEpochOf(key));
  const late = await replicaOn({ url: server.url });
  late.coordinator.epochs.epochOf(key);
  await until(() => late.coordinator.epochs.softEpochOf(key) === a.coordinator.epochs.softEpochOf(key));
  for (const { coordinator } of [a, deaf, late]) {
    expect(coordinator.epochs.softPurgedAt(key, "")! - at).toBeLessThan(2_000);
    expect(coordinator.epochs.softPurgedAt(key, "")).toBeGreaterThanOrEqual(at - 1);
    expect(coordinator.epochs.epochOf(key)).toBe(epoch);
  }
});

test("a soft purge of one instrument too many is a soft one of all, and in Redis when it is said to be", async () => {
  const server = await redisServer();
  const { coordinator } = await replicaOn({ url: server.url });
  const partition = "DSO::1220aa";
  const table = `rg:{${digestOf(partition)}}:e`;
  const soften = (i: number) => coordinator.epochs.purge(partition, [softScope(`instrument:I-${i}`)]);
  await until(async () => (await soften(0)) === "fleet");
  for (let i = 1; i < 256; i += 1) expect(await soften(i)).toBe("fleet");
  expect(await server.client.hexists(table, softScope("all"))).toBe(0);
  expect(await soften(256)).toBe("fleet");
  expect(await server.client.hexists(table, softScope("all"))).toBe(1);
});

test("what a replica reads from Redis after a soft purge elsewhere is known to be of before", async () => {
  const server = await redisServer();
  const a = await replicaOn({ url: server.url });
  const deaf = await replicaOn({ url: server.url }, { post: () => undefined });
  await put(a, infoKey, entryOf(a));
  await a.coordinator.epochs.purge(infoKey.partition, [softScope("all")]);
  const found = await until(async () => (await deaf.store.get(infoKey)) !== undefined).then(() =>
    deaf.store.get(infoKey),
  );
  expect(found![0]!.softEpoch).toBe("");
  expect(deaf.coordinator.epochs.softPurgedAt(infoKey, found![0]!.softEpoch)).toBeGreaterThan(0);
});

test("the epochs of many registries are read together, and a purge of any that no message told of holds within 2 s", async () => {
  const server = await redisServer();
  const a = await replicaOn({ url: server.url });
  const deaf = await replicaOn({ url: server.url }, { post: () => undefined });
  const keys = Array.from({ length: 300 }, (_, i) => ({ partition: `admin-${i}::1220aa`, scopes: ["all", "info"] }));
  const agree = () => {
    const epochs = keys.map((key) => [deaf.coordinator.epochs.epochOf(key), a.coordinator.epochs.epochOf(key)]);
    return epochs.every(([one, other]) => one === other);
  };
  await until(agree);
  const before = deaf.events.sent("table_read");
  const began = clock.now();
  await until(() => clock.now() - began > 1_500);
  // Three or four times each: 1,000 scripts and more, were they read one by one.
  expect(deaf.events.sent("table_read") - before).toBeLessThan(300);
  for (const at of [0, 150, 299]) {
    expect(await a.coordinator.epochs.purge(keys[at]!.partition, ["all"])).toBe("fleet");
  }
  await until(agree);
});
