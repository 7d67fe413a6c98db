import { afterEach, describe, expect, test } from "vitest";
import { instrumentsOf } from "../../support/aggregate-registries.ts";
import { clientRequest, openRegistryOf } from "../../support/registry-metadata.ts";
import { ADMIN, startRegistry } from "../../support/upstream-registries.ts";
import { cacheKey } from "../../../src/sharing/entries.ts";
import type { PurgeReach } from "../../../src/sharing/ports.ts";
import { measureLoopTime } from "../../support/loop-time.ts";
import { startSlowProxy } from "../../support/redis-proxy.ts";
import { clock, type Post, type Replica } from "../../support/redis-replicas.ts";
import { closeAll, later, redisServer, replicaOn, replicasOfOne } from "../../support/redis-scene.ts";
import { until } from "../../support/until.ts";

afterEach(closeAll);

const info = { partition: "DSO::1220aa", scopes: ["all", "info"] };

/** Every replica has met the partition: the same epoch everywhere. */
async function meet(replicas: readonly Replica[]): Promise<string> {
  await until(async () => {
    for (const { store } of replicas) await store.get(cacheKey({ ...info, id: "info" }));
    return new Set(replicas.map(({ coordinator }) => coordinator.epochs.epochOf(info))).size === 1;
  });
  return replicas[0]!.coordinator.epochs.epochOf(info)!;
}

test("a replica whose clock is wrong says by how much, and the others that theirs are right", async () => {
  const server = await redisServer();
  const [right, wrong] = [await replicaOn(server), await replicaOn(server, { wallAhead: -60_000 })];
  const aheadOf = ({ coordinator }: Replica) => coordinator.status().clockAheadMs;
  await until(() => aheadOf(right) !== undefined && aheadOf(wrong) !== undefined);
  expect(Math.abs(aheadOf(right)!)).toBeLessThan(10_000);
  expect(Math.abs(aheadOf(wrong)! + 60_000)).toBeLessThan(10_000);
});

test("a replica that ends without saying so is named by the others, until another takes its place", async () => {
  const server = await redisServer();
  const proxy = later(await startSlowProxy(server.port));
  const lostBy = ({ coordinator }: Replica) => coordinator.replicas.lost().map(({ name }) => name);
  const [a, b, stops] = [await replicaOn(server), await replicaOn(server), await replicaOn(server)];
  const dies = await replicaOn({ url: `redis://127.0.0.1:${proxy.port}` });
  const counts = (count: number) => [a, b].every(({ coordinator }) => coordinator.status().replicas === count);
  await until(() => counts(4));
  await stops.close();
  await until(() => counts(3));
  expect([lostBy(a), lostBy(b)]).toEqual([[], []]);
  proxy.blackhole = true;
  await until(() => counts(2));
  await until(() => lostBy(a).length === 1 && lostBy(b).length === 1);
  expect(lostBy(a)).toEqual([dies.coordinator.replicas.alive()[0]!.name]);
  await replicaOn(server);
  await until(() => lostBy(a).length === 0 && lostBy(b).length === 0);
});

describe("news", () => {
  function listen(replica: Replica): (string | undefined)[] {
    const heard: (string | undefined)[] = [];
    replica.coordinator.announcements.onAnnounced((news) => heard.push(news));
    return heard;
  }

  test("reach all replicas", async () => {
    const { replicas } = await replicasOfOne(3);
    const heard = replicas.map(listen);
    replicas[0]!.coordinator.announcements.announce("something");
    await until(() => heard.every((news) => news.includes("something")));
  });

  test("announced while Redis was away reach it afterwards, and those who were away learn that they may have missed some", async () => {
    const { server, replicas } = await replicasOfOne(2);
    const heard = replicas.map(listen);
    await server.kill();
    await until(() => replicas.every(({ coordinator }) => !coordinator.status().connected));
    replicas[0]!.coordinator.announcements.announce("something");
    await server.start();
    await until(() => heard.every((news) => news.includes(undefined)));
  });
});

describe("which replicas took what was done", () => {
  async function replicasAbc(reach: "directly" | "by proxy", post?: Post) {
    const server = await redisServer();
    const proxy = later(await startSlowProxy(server.port));
    const url = reach === "directly" ? server.url : `redis://127.0.0.1:${proxy.port}`;
    const a = await replicaOn({ url: server.url }, { name: "a" });
    const b = await replicaOn({ url: server.url }, { name: "b" });
    const c = await replicaOn({ url }, { name: "c", ...(post !== undefined && { post }) });
    await until(() => a.coordinator.status().replicas === 3);
    return { proxy, a, b, c };
  }

  /** By name. */
  async function reachedBy(coordinator: Replica["coordinator"], since: number, reach: PurgeReach) {
    const { took, missing, of } = await coordinator.replicas.whoTook(since, reach);
    const named = (all: typeof took) => all.map(({ name }) => name);
    return { took: named(took), missing: named(missing), of };
  }

  async function purgeAt({ coordinator }: Replica) {
    const since = clock.now();
    const reach = await coordinator.epochs.purge(info.partition, ["info"]);
    return { since, reach, reached: await reachedBy(coordinator, since, reach) };
  }

  test("is said by name and at once where all took it, though they never used the partition", async () => {
    const { a } = await replicasAbc("directly");
    const took = measureLoopTime();
    const { reach, reached } = await purgeAt(a);
    expect(took()).toBeLessThan(5_000);
    expect(reach).toBe("fleet");
    expect({ ...reached, took: reached.took.toSorted() }).toEqual({ took: ["a", "b", "c"], missing: [], of: 3 });
    const since = clock.now();
    const order = { action: { upstream: "amulet", mode: "cache-only", by: "no token", from: "loopback" } } as const;
    const acted = await a.coordinator.actions.act({ ...order, lasts: undefined });
    expect(await reachedBy(a.coordinator, since, acted)).toMatchObject({ missing: [], of: 3 });
  });

  test("names one that is frozen within 1.5 s, and counts it when it is back", async () => {
    const { proxy, a, b, c } = await replicasAbc("by proxy");
    await meet([a, b, c]);
    proxy.blackhole = true;
    const took = measureLoopTime();
    const { since, reach, reached } = await purgeAt(a);
    expect(took()).toBeLessThan(7_500);
    expect(reached).toEqual({ took: ["a", "b"], missing: ["c"], of: 3 });
    proxy.blackhole = false;
    proxy.cut();
    await until(async () => (await reachedBy(a.coordinator, since, reach)).took.includes("c"));
  });

  test("counts one that lost the message and does not use the partition: it goes by what it reads", async () => {
    const { a } = await replicasAbc("directly", ({ kind }, deliver) => {
      if (kind !== "epoch") deliver();
    });
    const { since, reach } = await purgeAt(a);
    await until(async () => (await a.coordinator.replicas.whoTook(since, reach)).took.length === 3);
  });
});

describe("purges", () => {
  test("reach all replicas within 250 ms, which then agree on an epoch", async () => {
    const { replicas } = await replicasOfOne(3);
    const before = await meet(replicas);
    const purgedAt = clock.now();
    expect(await replicas[0]!.coordinator.epochs.purge(info.partition, ["info"])).toBe("fleet");
    const took = measureLoopTime();
    await until(() => replicas.every(({ coordinator }) => coordinator.epochs.epochOf(info) !== before));
    expect(took()).toBeLessThan(2_500);
    await meet(replicas);
    const { purgeLags } = replicas[1]!.events;
    let purges = 1;
    // Where it looked into Redis before it heard of the purge, there was nothing new in that.
    for (; purgeLags.length === 0; purges += 1) {
      await replicas[0]!.coordinator.epochs.purge(info.partition, ["info"]);
      await meet(replicas);
    }
    expect(purgeLags.length).toBeLessThanOrEqual(purges);
    // The lag is told by wall clocks, which tick apart from this one.
    expect(purgeLags[0]!).toBeLessThan(clock.now() - purgedAt + 1_000);
  });

  test("of everything reach a replica that met the partition only afterwards", async () => {
    const { server, replicas } = await replicasOfOne(2);
    const before = await meet(replicas);
    expect(await replicas[0]!.coordinator.epochs.purge(undefined, ["all"])).toBe("fleet");
    await until(() => replicas[1]!.coordinator.epochs.epochOf(info) !== before);
    const late = await replicaOn(server);
    await meet([...replicas, late]);
    expect(late.coordinator.epochs.epochOf(info)).not.toBe(before);
  });

  test("made at the same time by all leave nothing valid that was stored before", async () => {
    const { replicas } = await replicasOfOne(3);
    const before = await meet(replicas);
    await Promise.all(replicas.map(({ coordinator }) => coordinator.epochs.purge(info.partition, ["info"])));
    const after = await meet(replicas);
    expect(after).not.toBe(before);
  });

  test("of more scopes than are remembered agree everywhere", async () => {
    const { replicas } = await replicasOfOne(2);
    const before = await meet(replicas);
    const [a, b] = replicas as [Replica, Replica];
    for (let i = 0; i < 300; i += 1) await a.coordinator.epochs.purge(info.partition, [`instrument:${i}`]);
    const keys = Array.from({ length: 300 }, (_, i) => ({ ...info, scopes: ["all", `instrument:${i}`] }));
    const epochs = (replica: Replica) => keys.map((key) => replica.coordinator.epochs.epochOf(key)).join();
    await until(() => epochs(a) === epochs(b));
    expect(keys.filter((key) => b.coordinator.epochs.epochOf(key) === before)).toEqual([]);
  });

  // What memory answered was never looked for in Redis, so nothing ever learned of its partition.
  test("reach a partition that came into memory while Redis was away", async () => {
    const { server, replicas } = await replicasOfOne(1);
    await meet(replicas);
    await server.kill();
    const late = await replicaOn({ url: server.url }, { isReady: false });
    late.coordinator.epochs.epochOf(info);
    await server.start();
    await until(() => late.coordinator.epochs.epochOf(info) === replicas[0]!.coordinator.epochs.epochOf(info));
    const before = late.coordinator.epochs.epochOf(info);
    await replicas[0]!.coordinator.epochs.purge(info.partition, ["info"]);
    await until(() => late.coordinator.epochs.epochOf(info) !== before);
  });

  test("a replica cut off from Redis follows purges within 2 s of its return", async () => {
    const { server, replicas } = await replicasOfOne(1);
    const proxy = later(await startSlowProxy(server.port));
    const cutOff = await replicaOn({ url: `redis://127.0.0.1:${proxy.port}` });
    const before = await meet([...replicas, cutOff]);
    proxy.blackhole = true;
    await replicas[0]!.coordinator.epochs.purge(info.partition, ["info"]);
    await until(() => proxy.swallowed.includes("message"));
    proxy.blackhole = false;
    proxy.cut();
    await until(() => cutOff.coordinator.epochs.epochOf(info) !== before);
    await meet([...replicas, cutOff]);
  });

  test("two replicas that purged without Redis agree with it and each other afterwards", async () => {
    const { server, replicas } = await replicasOfOne(2);
    const before = await meet(replicas);
    await server.kill();
    const [a, b] = replicas as [Replica, Replica];
    await until(() => replicas.every(({ coordinator }) => !coordinator.status().connected));
    expect(await a.coordinator.epochs.purge(info.partition, ["info"])).toBe("pending");
    const ofA = a.coordinator.epochs.epochOf(info);
    expect(await b.coordinator.epochs.purge(info.partition, ["info"])).toBe("pending");
    const ofB = b.coordinator.epochs.epochOf(info);
    await server.start();
    await until(() => replicas.every(({ coordinator }) => coordinator.status().state === "up"));
    const after = await meet(replicas);
    expect(after).not.toBe(before);
    // Whose purge reached Redis first is not known, so what either stored in between may not survive the other's.
    expect([ofA, ofB].filter((epoch) => epoch === after).length).toBeLessThanOrEqual(1);
  });

  test("a page that another replica issued is known here when it is looked for, and its change is told", async () => {
    const { replicas } = await replicasOfOne(2);
    await meet(replicas);
    const [a, b] = replicas as [Replica, Replica];
    const page = cacheKey({ ...info, chain: "25:token", id: "page" });
    const { chain } = page;
    a.coordinator.chains.issueChain(info.partition, chain, "one");
    await until(async () => {
      await b.store.get(page);
      return b.coordinator.epochs.epochOf(page) === a.coordinator.epochs.epochOf(page);
    });
    a.coordinator.chains.issueChain(info.partition, chain, "two");
    await until(() => b.coordinator.epochs.epochOf(page) === a.coordinator.epochs.epochOf(page));
    expect(b.coordinator.epochs.epochOf(page)).toMatch(/two$/);
  });
});

describe("a page that changed while messages are lost", () => {
  /** Two replicas before a registry of two pages, whose second one would be fresh for long; `post` brings the messages of b. */
  async function listingAtReplicas(post: Post) {
    const server = await redisServer();
    const [a, b] = [await replicaOn(server), await replicaOn(server, { post })];
    const registry = await startRegistry();
    let [list, maxAge] = ["old", 1];
    const pages = (isFirst: boolean) => ({
      instruments: [{ ...instrumentsOf("A", 1)[0], id: `${list} ${isFirst ? 1 : 2}` }],
      ...(isFirst && { nextPageToken: "t" }),
    });
    registry.script(({ operation, url }) => {
      if (operation !== "instruments") return undefined;
      const isFirst = !url.includes("pageToken");
      const age = `max-age=${isFirst ? maxAge : 600}`;
      const headers = ["content-type", "application/json", "cache-control", age];
      return { status: 200, headers, body: JSON.stringify(pages(isFirst)) };
    });
    const idAt = ({ coordinator, store }: Replica) => {
      const { metadata } = openRegistryOf([registry], {}, { clock, coordinator, shared: store });
      return async (pageToken?: string) => {
        const request = { ...clientRequest(), deadline: clock.now() + 10_000 };
        const { body } = await metadata.get(ADMIN, { operation: "instruments", pageToken }, request);
        return (JSON.parse(body!.toString()) as { instruments: { id: string }[] }).instruments[0]!.id;
      };
    };
    const change = () => {
      [list, maxAge] = ["new", 600];
    };
    return { server, change, idAtA: idAt(a), idAtB: idAt(b) };
  }

  const losingChains: Post = ({ kind }, deliver) => {
    if (kind !== "chain") deliver();
  };

  test("never has an old page behind it where it is taken from Redis", async () => {
    const { change, idAtA, idAtB } = await listingAtReplicas(losingChains);
    for (const idAt of [idAtA, idAtB]) expect([await idAt(), await idAt("t")]).toEqual(["old 1", "old 2"]);
    change();
    for (const idAt of [idAtA, idAtB]) await until(async () => (await idAt()) === "new 1");
    expect(await idAtB("t")).toBe("new 2");
  });

  test("has no old page behind it at a replica that uses that one alone, once it hears messages again", async () => {
    const { server, change, idAtA, idAtB } = await listingAtReplicas(losingChains);
    expect([await idAtA(), await idAtA("t"), await idAtB("t")]).toEqual(["old 1", "old 2", "old 2"]);
    change();
    await until(async () => (await idAtA()) === "new 1");
    await until(async () => (await idAtA("t")) === "new 2");
    await server.client.call("CLIENT", "KILL", "TYPE", "pubsub");
    await until(async () => (await idAtB("t")) === "new 2");
  });
});

test("what is known of issued pages stays where messages were missed and Redis forgot them, or is away", async () => {
  const { server, replicas } = await replicasOfOne(1);
  await meet(replicas);
  const [{ coordinator, store }] = replicas as [Replica];
  const page = cacheKey({ ...info, chain: "25:token", id: "page" });
  const isDoubted = () => coordinator.epochs.epochOf(page) === undefined;
  const missed = async () => {
    await server.client.call("CLIENT", "KILL", "TYPE", "pubsub");
    await until(isDoubted);
  };
  coordinator.chains.issueChain(info.partition, page.chain, "one");
  await until(async () => (await server.client.keys("*:c:*")).length === 1);
  await missed();
  await store.get(page);
  await until(() => !isDoubted());
  await missed();
  await server.client.del(await server.client.keys("*:c:*"));
  await until(async () => {
    await store.get(page);
    return !isDoubted();
  });
  await until(async () => (await server.client.keys("*:c:*")).length === 1);
  await missed();
  await server.kill();
  await until(() => !isDoubted());
  expect(coordinator.epochs.epochOf(page)).toMatch(/one$/);
});
