import { afterEach, describe, expect, it } from "vitest";
import { cacheKey } from "../../src/cache/store.ts";
import { startCluster } from "../support/redis-cluster.ts";
import { startSentinel } from "../support/redis-sentinel.ts";
import { until } from "../support/redis.ts";
import { ask, closeAll, entryOf, healing, later, replicaOn } from "./redis-scene.ts";
import { infoKey, put } from "./store-suite.ts";

afterEach(closeAll);

describe("fail-over", () => {
  it("a cluster goes on while one of its masters dies and its replica takes over", async () => {
    const cluster = later(await startCluster({ replicas: true }));
    const replica = await replicaOn({ cluster: { nodes: cluster.urls } });
    const keys = Array.from({ length: 12 }, (_, i) => cacheKey({ ...infoKey, partition: `party${i}::1220` }));
    for (const key of keys) await put(replica, key, entryOf(replica, {}, key));
    await (await cluster.masterOf("{*}")).kill();
    const start = performance.now();
    for (const key of keys) await replica.store.get(key);
    expect(performance.now() - start).toBeLessThan(2_000);
    for (const key of keys) await put(replica, key, entryOf(replica, { body: Buffer.from("after") }, key));
    // A second of it is the cluster's own time to notice.
    expect(performance.now() - start).toBeLessThan(8_000);
  });

  const PASSWORDS = { server: "of the servers", sentinel: "of the sentinel" };

  it.each([
    ["", undefined],
    [", logged in to all of them", PASSWORDS],
  ])("sentinel promotes the replica, which is found and used%s", async (_how, passwords) => {
    const sentinel = later(await startSentinel(passwords));
    const logins = passwords && {
      auth: { password: passwords.server },
      sentinelAuth: { password: passwords.sentinel },
    };
    const replica = await replicaOn({ sentinel: { name: sentinel.name, nodes: sentinel.nodes, ...logins } });
    await put(replica, infoKey, entryOf(replica));
    await sentinel.master.kill();
    const start = performance.now();
    await ask(replica);
    expect(await replica.coordinator.acquire("key")).toBeDefined();
    await until(async () => (await sentinel.replica.client.info("replication")).includes("role:master"));
    expect(await healing(replica)).toBeLessThan(5_000);
    expect(performance.now() - start).toBeLessThan(10_000);
  });
});
