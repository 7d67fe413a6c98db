import { afterAll, describe, expect, test } from "vitest";
import { cacheKey } from "../../../src/sharing/entries.ts";
import { digestOf } from "../../../src/digest.ts";
import { measureLoopTime } from "../../support/loop-time.ts";
import { startCluster } from "../../support/redis-cluster.ts";
import { ask, closeAll, entryOf, healing, later, replicaOn } from "../../support/redis-scene.ts";
import { startSentinel } from "../../support/redis-sentinel.ts";
import { until } from "../../support/until.ts";
import { infoKey, put } from "../../support/store-suite.ts";

// All at once: each waits most of its time, on servers of its own.
afterAll(closeAll);

describe.concurrent("fail-over", () => {
  test("a cluster goes on while one of its masters dies and its replica takes over", async () => {
    const cluster = later(await startCluster({ replicas: true }));
    const replica = await replicaOn({ cluster: { nodes: cluster.urls } });
    const keys = Array.from({ length: 12 }, (_, i) => cacheKey({ ...infoKey, partition: `party${i}::1220` }));
    for (const key of keys) await put(replica, key, entryOf(replica, {}, key));
    await (await cluster.masterOf("{*}")).kill();
    const took = measureLoopTime();
    for (const key of keys) await replica.store.get(key);
    expect(took()).toBeLessThan(10_000);
    for (const key of keys) await put(replica, key, entryOf(replica, { body: Buffer.from("after") }, key));
    // A second of it is the cluster's own time to notice.
    expect(took()).toBeLessThan(30_000);
  });

  test("a cluster without one of its masters goes on sharing what lies on the others", async () => {
    const cluster = later(await startCluster());
    const replica = await replicaOn({ cluster: { nodes: cluster.urls } });
    const keys = Array.from({ length: 12 }, (_, i) => cacheKey({ ...infoKey, partition: `party${i}::1220` }));
    for (const key of keys) await put(replica, key, entryOf(replica, {}, key));
    const everywhere = await cluster.masterOf("{*}");
    const dead = cluster.masters.find((master) => master !== everywhere)!;
    const masters = await Promise.all(keys.map((key) => cluster.masterOf(`{${digestOf(key.partition)}}`)));
    const [lost, left] = [true, false].map((isLost) => keys.filter((_, i) => (masters[i] === dead) === isLost));
    expect(lost!.length * left!.length).toBeGreaterThan(0);
    await dead.kill();
    const areShared = async () => {
      const found = await Promise.all(left!.map(async (key) => replica.store.get(key)));
      return found.every((entries) => entries !== undefined);
    };
    await until(areShared);
    for (let i = 0; i < 20; i += 1) {
      // Of many leases some lie on the shard that is gone; each is had all the same.
      const lease = await replica.coordinator.leases.acquire(`key ${i}`);
      expect(lease).toBeDefined();
      lease!.release("uncacheable");
      for (const key of lost!) expect(await replica.store.get(key)).toBeUndefined();
      expect(await areShared()).toBe(true);
    }
    expect(replica.coordinator.status().state).toBe("up");
  });

  const PASSWORDS = { server: "of the servers", sentinel: "of the sentinel" };

  test.each([
    ["", undefined],
    [", logged in to all of them", PASSWORDS],
  ])("sentinel promotes the replica, which is found and used%s", async (_how, passwords) => {
    const sentinel = later(await startSentinel(passwords));
    const { name, nodes } = sentinel;
    const replica = await replicaOn(
      passwords === undefined
        ? { sentinel: { name, nodes } }
        : { sentinel: { name, nodes, sentinelAuth: { password: passwords.sentinel } }, password: passwords.server },
    );
    await put(replica, infoKey, entryOf(replica));
    await sentinel.master.kill();
    const took = measureLoopTime();
    await ask(replica);
    expect(await replica.coordinator.leases.acquire("key")).toBeDefined();
    await until(async () => (await sentinel.replica.client.info("replication")).includes("role:master"));
    expect(await healing(replica)).toBeLessThan(25_000);
    expect(took()).toBeLessThan(50_000);
  });
});
