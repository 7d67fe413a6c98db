import { expect, it } from "vitest";
import { startRedis } from "../../../support/redis.ts";
import { startCluster } from "../../../support/redis-groups.ts";
import { callAll, expectAway, startReplica, WITH } from "../../../support/sharing.ts";
import { until } from "../../../support/until.ts";

it("a cluster is used with keys on all of its nodes, and goes on with what takes over from a node that dies", async () => {
  const cluster = await startCluster();
  const [first, second] = [startReplica({ cluster: cluster.urls }), startReplica({ cluster: cluster.urls })];
  await Promise.all([first.whenUp(), second.whenUp()]);
  await until(() => first.replicas.count() === 2);
  expect(await callAll(first)).toMatchObject(WITH);

  const keys = Array.from({ length: 30 }, (_none, i) => ({ party: `party ${i}::1220`, name: "info" }));
  const entry = { head: "x", body: Buffer.from("body"), remaining: 600_000 };
  const fillAll = async (): Promise<void> => {
    for (const key of keys) first.entries.set(key, entry);
    await until(async () => (await Promise.all(keys.map((key) => second.entries.get(key)))).every(Boolean));
  };
  await until(() => fillAll().then(() => true));
  for (const { client } of cluster.masters) expect(await client.dbsize()).toBeGreaterThan(3);
  await first.purges.purge("a");
  await until(() => second.purges.epochOf("a") === first.purges.epochOf("a"), 250);

  const dying = await cluster.masterOf("rg:1:epochs");
  await dying.kill();
  // Nothing rejects, and nothing takes long, while a part of the keys has no master.
  const end = performance.now() + 1_500;
  while (performance.now() < end) {
    const start = performance.now();
    await Promise.all([
      ...keys.map((key) => second.entries.get(key)),
      ...keys.map((key) => second.leases.acquire(key)),
    ]);
    expect(performance.now() - start).toBeLessThan(500);
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
  await until(async () => (await first.purges.purge("b")) === "done");
  await until(() => second.purges.epochOf("b") === first.purges.epochOf("b"), 3_000);
  await fillAll();
});

it.each([
  { what: "a server is no cluster", isThere: true, cause: "is no cluster" },
  { what: "no node is there", isThere: false, cause: "cannot be reached" },
])("Redis is away, with the cause, where $what", async ({ isThere, cause }) => {
  const server = await startRedis();
  if (!isThere) await server.kill();
  await expectAway(startReplica({ cluster: [server.url] }), cause);
});

it("keys that move to another node are found there, while they move and after it", async () => {
  const cluster = await startCluster();
  const replica = startReplica({ cluster: cluster.urls });
  await replica.whenUp();
  const key = { party: "moving", name: "info" };
  replica.entries.set(key, { head: "x", body: Buffer.from("body"), remaining: 600_000 });
  await until(() => replica.entries.get(key));
  await cluster.moveSlotOf("rg:1:{moving}:entry:info", async () => {
    expect((await until(() => replica.entries.get(key))).body.toString()).toBe("body");
    expect(await replica.leases.acquire(key)).toBeTypeOf("object");
  });
  expect((await until(() => replica.entries.get(key))).body.toString()).toBe("body");
});
