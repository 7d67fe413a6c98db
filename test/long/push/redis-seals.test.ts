import { afterEach, describe, expect, onTestFinished, test } from "vitest";
import { FileWatcher } from "../../../src/config/watched-files.ts";
import { cacheKey } from "../../../src/sharing/entries.ts";
import type { Action } from "../../../src/sharing/actions.ts";
import { coordinateByRedis } from "../../../src/sharing/coordination.ts";
import type { Row } from "../../../src/sharing/ports.ts";
import { Keys } from "../../../src/sharing/redis/keys.ts";
import { Seals } from "../../../src/sharing/redis/seals.ts";
import { digestOf } from "../../../src/digest.ts";
import { clock, type Replica } from "../../support/redis-replicas.ts";
import { closeAll, entryOf, redisServer, replicaOn, usable } from "../../support/redis-scene.ts";
import { type RedisServer } from "../../support/redis.ts";
import { until } from "../../support/until.ts";
import { useSealKeys } from "../../support/seal-keys.ts";
import { infoKey, put } from "../../support/store-suite.ts";

const sealKeys = useSealKeys();
afterEach(closeAll);

const keys = new Keys("rg:", true);
const tag = digestOf(infoKey.partition);
const entryKey = keys.entry(tag, infoKey.id);
const epochsKey = keys.epochs(tag);
const otherKey = cacheKey({ ...infoKey, id: "other" });

const cacheOnly: Action = { upstream: "amulet", mode: "cache-only", by: "operations token", from: "loopback" };

async function sealed(server: RedisServer, count = 1, ...names: string[]): Promise<Replica[]> {
  const sealKeyFile = sealKeys("key", ...(names.length === 0 ? ["one"] : names));
  return Promise.all(Array.from({ length: count }, () => replicaOn({ url: server.url, sealKeyFile })));
}

function rejections({ events }: Replica, kind: string): number {
  return events.rejected.filter((each) => each === `${kind} seal`).length;
}

describe("a sealed entry", () => {
  test.for<[string, (server: RedisServer, replica: Replica) => Promise<unknown>]>([
    [
      "changed in its body",
      async ({ client }) => {
        const value = (await client.hgetBuffer(entryKey, "v"))!;
        value[value.length - 2]! ^= 1;
        await client.hset(entryKey, "v", value);
      },
    ],
    [
      "made younger than it is",
      async ({ client }) => {
        const value = (await client.hgetBuffer(entryKey, "v"))!;
        value.write(String(Date.now() + 500), 16, "latin1");
        await client.hset(entryKey, "v", value);
      },
    ],
    [
      "of another resource",
      async ({ client }, replica) => {
        await put(replica, otherKey, entryOf(replica, {}, otherKey));
        const value = (await client.hgetBuffer(keys.entry(tag, otherKey.id), "v"))!;
        await client.hset(entryKey, "v", value);
      },
    ],
    [
      "of another variant",
      async ({ client }) => {
        const value = (await client.hgetBuffer(entryKey, "v"))!;
        await client.hdel(entryKey, "v");
        await client.hset(entryKey, "v:x", value);
      },
    ],
    [
      "of gateways with another prefix and the same key",
      async ({ client, url }) => {
        const other = await replicaOn({ url, keyPrefix: "x:", sealKeyFile: sealKeys("key", "one") });
        await put(other, infoKey, entryOf(other));
        const value = (await client.hgetBuffer(new Keys("x:", true).entry(tag, infoKey.id), "v"))!;
        await client.hset(entryKey, "v", value);
      },
    ],
    [
      "of gateways with another key",
      async ({ client }) => {
        const elsewhere = await redisServer();
        const other = await replicaOn({ url: elsewhere.url, sealKeyFile: sealKeys("other", "two") });
        await put(other, infoKey, entryOf(other));
        await client.hset(entryKey, "v", (await elsewhere.client.hgetBuffer(entryKey, "v"))!);
      },
    ],
    ["without a seal", async ({ client }) => client.hset(entryKey, "v", "short")],
  ])("%s is a miss, and counted", async ([, forge]) => {
    const server = await redisServer();
    const [replica] = (await sealed(server)) as [Replica];
    await put(replica, infoKey, entryOf(replica));
    expect(await usable(replica)).toBeDefined();
    await forge(server, replica);
    expect(await replica.store.get(infoKey)).toBeUndefined();
    expect(rejections(replica, "entry")).toBeGreaterThan(0);
    // A busy machine may have had it away meanwhile.
    await until(() => replica.coordinator.status().state === "up");
    await put(replica, infoKey, entryOf(replica, { body: Buffer.from("again") }));
    expect(await usable(replica)).toBe("again");
  });

  test("that is put back is as old as it is, and after a purge it is none", async () => {
    const server = await redisServer();
    const [replica] = (await sealed(server)) as [Replica];
    const { bornAt, receivedAt } = entryOf(replica);
    // Older than replicas may misjudge the clock of Redis on a busy machine.
    const entry = entryOf(replica, {
      bornAt: bornAt - 30_000,
      madeAt: bornAt - 30_000,
      receivedAt: receivedAt - 30_000,
    });
    await put(replica, infoKey, entry);
    const value = (await server.client.hgetBuffer(entryKey, "v"))!;
    await put(replica, infoKey, entryOf(replica, { body: Buffer.from("newer") }));
    await until(async () => !value.equals((await server.client.hgetBuffer(entryKey, "v"))!));
    await server.client.hset(entryKey, "v", value);
    const [found] = (await replica.store.get(infoKey))!;
    expect(Math.abs(found!.freshUntil - entry.freshUntil)).toBeLessThan(10_000);
    expect(Math.abs(found!.bornAt - entry.bornAt)).toBeLessThan(10_000);
    await replica.coordinator.epochs.purge(infoKey.partition, ["info"]);
    await server.client.hset(entryKey, "v", value);
    expect(await usable(replica)).toBeUndefined();
  });
});

describe("a sealed epoch", () => {
  test.for<[string, (server: RedisServer) => Promise<unknown>]>([
    ["forged", ({ client }) => client.hset(epochsKey, "info", "7.forged")],
    [
      "forged beyond all counting",
      ({ client }) => client.hset(epochsKey, "info", `${2 ** 52}.forged!${"a".repeat(22)}`),
    ],
    ["of the base, forged", ({ client }) => client.hset(epochsKey, "=", `9.forged!${"a".repeat(22)}`)],
    ["of another scope", async ({ client }) => client.hset(epochsKey, "info", (await client.hget(epochsKey, "list"))!)],
    [
      "of another partition",
      async ({ client }) => client.hset(epochsKey, "=", (await client.hget(keys.epochs("*"), "="))!),
    ],
    ["removed", ({ client }) => client.del(epochsKey)],
  ])("%s brings nothing back, and is made anew", async ([, forge]) => {
    const server = await redisServer();
    const [a, b] = (await sealed(server, 2)) as [Replica, Replica];
    await put(a, infoKey, entryOf(a, { body: Buffer.from("purged") }));
    const old = (await server.client.hgetBuffer(entryKey, "v"))!;
    await a.coordinator.epochs.purge(infoKey.partition, ["info", "list"]);
    await until(() => b.coordinator.epochs.epochOf(infoKey) === a.coordinator.epochs.epochOf(infoKey));
    await forge(server);
    await server.client.hset(entryKey, { g: "x", v: old });
    for (const replica of [a, b]) expect(await usable(replica)).toBeUndefined();
    await until(async () => {
      a.store.set(infoKey, entryOf(a, { body: Buffer.from("after") }));
      return (await usable(a)) === "after" && (await usable(b)) === "after";
    });
    expect(await b.coordinator.epochs.purge(infoKey.partition, ["info"])).toBe("fleet");
    await until(async () => (await usable(a)) === undefined);
    await until(() => [a, b].every(({ events }) => events.states.at(-1) === "up"));
    const fresh = (await sealed(server)) as [Replica];
    expect(await usable(fresh[0])).toBeUndefined();
  });

  test("put back from before a purge gives way to replicas that know the purge", async () => {
    const server = await redisServer();
    const [a] = (await sealed(server)) as [Replica];
    await put(a, infoKey, entryOf(a, { body: Buffer.from("purged") }));
    await a.coordinator.epochs.purge(infoKey.partition, ["info"]);
    const [epochs, entry] = [await server.client.hgetall(epochsKey), await server.client.dumpBuffer(entryKey)];
    await put(a, infoKey, entryOf(a, { body: Buffer.from("first") }));
    await a.coordinator.epochs.purge(infoKey.partition, ["info"]);
    await server.client.hset(epochsKey, epochs);
    await server.client.restore(entryKey, 60_000, entry, "REPLACE");
    expect(await usable(a)).toBeUndefined();
    await until(async () => (await server.client.hget(epochsKey, "info")) !== epochs["info"]);
    const [fresh] = (await sealed(server)) as [Replica];
    expect(await usable(fresh)).toBeUndefined();
  });
});

describe("what else replicas with a seal key find in Redis", () => {
  test("a digest of pages that is forged counts as none", async () => {
    const server = await redisServer();
    const [a, b] = (await sealed(server, 2)) as [Replica, Replica];
    const key = cacheKey({ ...infoKey, id: "page", chain: "25:token" });
    a.coordinator.chains.issueChain(key.partition, key.chain, "digest");
    await put(a, key, entryOf(a, {}, key));
    expect(await usable(b, key)).toBeDefined();
    const chainKey = keys.chain(tag, key.chain);
    await server.client.set(chainKey, `forged!${"a".repeat(22)}`);
    const [fresh] = (await sealed(server)) as [Replica];
    await fresh.store.get(key);
    expect(fresh.coordinator.epochs.epochOf(key)).toBeUndefined();
    expect(rejections(fresh, "chain")).toBeGreaterThan(0);
  });

  test("a fact that is forged, of another name, or over, is none", async () => {
    const server = await redisServer();
    const [a, b] = (await sealed(server, 2)) as [Replica, Replica];
    a.coordinator.facts.remember("contract", "DSO::1220aa", 60_000);
    a.coordinator.facts.remember("other", "other::1220bb", 60_000);
    await until(async () => (await server.client.exists(keys.fact("contract"), keys.fact("other"))) === 2);
    expect(await b.coordinator.facts.recall("contract")).toEqual(["DSO::1220aa"]);
    const genuine = (await server.client.get(keys.fact("contract")))!;
    for (const forged of [
      (await server.client.get(keys.fact("other")))!,
      genuine.replace("1220aa", "1220cc"),
      genuine.replace(/^\d+/, "9999999999999"),
      "DSO::1220cc",
    ]) {
      await server.client.set(keys.fact("contract"), forged);
      const before = rejections(b, "fact");
      expect(await b.coordinator.facts.recall("contract")).toEqual([]);
      expect(rejections(b, "fact")).toBe(before + 1);
    }
  });

  test("a lease that is forged keeps nobody from fetching, and an outcome that is forged ends no wait as stored", async () => {
    const server = await redisServer();
    const [a, b] = (await sealed(server, 2)) as [Replica, Replica];
    const lease = keys.lease(digestOf("key"));
    await server.client.set(lease, "forged", "PX", 1_900);
    const held = await a.coordinator.leases.acquire("key");
    expect(held).toBeDefined();
    expect(rejections(a, "lease")).toBe(1);
    expect(await b.coordinator.leases.acquire("key")).toBeUndefined();
    const outcome = b.coordinator.leases.whenReleased("key", clock.now() + 5_000);
    await server.client.publish(keys.channel, JSON.stringify(["lease", digestOf("key"), "stored"]));
    await server.client.set(lease, "=stored", "PX", 1_900);
    expect(await outcome).toBe("failed");
    expect(rejections(b, "message")).toBe(1);
    held!.release("stored");
    const again = await b.coordinator.leases.acquire("key");
    expect(again).toBeDefined();
    again!.release("stored");
  });

  test("a replica that is made up takes no share of limits", async () => {
    const server = await redisServer();
    const [a] = (await sealed(server)) as [Replica];
    const end = Date.now() + 60_000;
    const self = { name: "x", version: "1", revision: "-", since: "now", taken: [] };
    for (let i = 0; i < 100; i += 1)
      await server.client.hset(
        keys.replicas,
        `forged${String(i).padStart(6, "0")}`,
        `1 ${end} ${JSON.stringify(self)}`,
      );
    await server.client.hset(keys.replicas, "=version", "1");
    await until(() => rejections(a, "replica") >= 100);
    expect(a.coordinator.status().replicas).toBe(1);
  });

  test("an order that is forged, or of another target, is not obeyed; one that was undone does not come back", async () => {
    const server = await redisServer();
    const [a, b] = (await sealed(server, 2)) as [Replica, Replica];
    const find = ({ coordinator }: Replica, upstream = "amulet") => coordinator.actions.find(upstream);
    expect(await a.coordinator.actions.act({ action: cacheOnly, lasts: undefined })).toBe("fleet");
    await until(() => find(b) !== undefined);
    const genuine = (await server.client.hget(keys.actions, "amulet"))!;
    const forged = `${Date.now() + 1_000} - ${JSON.stringify({ ...cacheOnly, upstream: "usd" })}`;
    await server.client.hset(keys.actions, { usd: forged, eur: genuine, "=version": "1" });
    await until(() => rejections(b, "action") >= 2);
    expect([find(b, "usd"), find(b, "eur"), find(a, "usd")]).toEqual([undefined, undefined, undefined]);
    const { mode: _, ...undo } = cacheOnly;
    expect(await a.coordinator.actions.act({ action: undo, lasts: undefined })).toBe("fleet");
    await until(() => find(b) === undefined);
    await server.client.hset(keys.actions, { amulet: genuine, "=version": "2" });
    await until(async () => (await server.client.hget(keys.actions, "amulet")) !== genuine);
    expect([find(a), find(b)]).toEqual([undefined, undefined]);
    // In the place of what is forged an order of ours can be given.
    expect(await a.coordinator.actions.act({ action: { ...cacheOnly, upstream: "usd" }, lasts: undefined })).toBe(
      "fleet",
    );
    await until(() => find(b, "usd") !== undefined);
  });

  test("a pin that is forged, or of another admin, is not used, and one of the old key is sealed anew", async () => {
    const server = await redisServer();
    const open = async (...names: string[]) => {
      const [replica] = (await sealed(server, 1, ...names)) as [Replica];
      const sealKeyFile = sealKeys(names.join("-"), ...names);
      const config = { url: server.url, keyPrefix: "rg:", sealKeyFile };
      const { pins, coordinator } = await coordinateByRedis(config, {
        clock,
        files: new FileWatcher(clock),
        observer: replica.events,
        largestBody: () => 1,
      });
      onTestFinished(() => coordinator.close());
      let found: ReadonlyMap<string, Row> = new Map();
      let missing: ReadonlyMap<string, Row> = new Map();
      pins!.follow((rows) => {
        found = rows;
        return { rows: new Map([...missing].filter(([name]) => !rows.has(name))) };
      });
      const exchange = async (rows: ReadonlyMap<string, Row> = new Map()) => {
        missing = rows;
        await pins!.synchronise();
        return found;
      };
      await until(() =>
        exchange().then(
          () => true,
          () => false,
        ),
      );
      return { exchange, events: replica.events };
    };
    const a = await open("old", "new");
    const pins = new Map<string, Row>([
      ["one", { version: 1, until: undefined, text: '{"urls":["https://a.example"]}' }],
      ["two", { version: 2, until: undefined, text: "{}" }],
    ]);
    expect(await a.exchange(pins)).toEqual(pins);
    const b = await open("new", "old");
    const c = await open("new");
    await until(async () => (await c.exchange()).size === 2);
    const one = (await server.client.hget(keys.pins, "one"))!;
    await server.client.hset(keys.pins, {
      two: one,
      three: '3 - {"urls":["https://evil.example"]}',
      four: one.replace("1 ", "9 "),
      "=version": "1",
    });
    const before = b.events.rejected.filter((each) => each.startsWith("pin")).length;
    expect([...(await b.exchange()).keys()]).toEqual(["one"]);
    const rejected = b.events.rejected.filter((each) => each.startsWith("pin")).slice(before);
    expect(rejected).toEqual(["pin seal", "pin seal", "pin seal"]);
  });

  test("messages that are forged are not heard", async () => {
    const server = await redisServer();
    const [a, b] = (await sealed(server, 2)) as [Replica, Replica];
    const heard: (string | undefined)[] = [];
    b.coordinator.announcements.onAnnounced((news) => heard.push(news));
    await put(a, infoKey, entryOf(a));
    await usable(b);
    const epoch = b.coordinator.epochs.epochOf(infoKey);
    for (const message of [
      ["epoch", tag, "info", "5.forged", 1],
      ["epoch", tag, "info", "5.forged", 1, "a".repeat(22)],
      ["news", "impostor x"],
      ["borrowed", keys.limit("upstream", "x"), "y", [{ name: "calls", per: 60_000, count: 1 }]],
    ]) {
      await server.client.publish(keys.channel, JSON.stringify(message));
    }
    a.coordinator.announcements.announce("genuine");
    await until(() => heard.length > 0);
    expect(heard).toEqual(["genuine"]);
    expect(b.coordinator.epochs.epochOf(infoKey)).toBe(epoch);
    expect(rejections(b, "message")).toBe(4);
  });
});

describe("a seal key", () => {
  test("can be changed without a cold cache, and without an order lost", async () => {
    const server = await redisServer();
    const on = (...names: string[]) => replicaOn({ url: server.url, sealKeyFile: sealKeys(names.join("-"), ...names) });
    const first = await on("old", "new");
    await put(first, infoKey, entryOf(first, { body: Buffer.from("of the old key") }));
    await first.coordinator.epochs.purge(infoKey.partition, ["info"]);
    await put(first, infoKey, entryOf(first, { body: Buffer.from("of the old key") }));
    await first.coordinator.actions.act({ action: cacheOnly, lasts: undefined });
    const second = await on("new", "old");
    expect(await usable(second)).toBe("of the old key");
    expect(second.coordinator.actions.find("amulet")).toBeDefined();
    await put(second, otherKey, entryOf(second, { body: Buffer.from("of the new key") }, otherKey));
    expect(await usable(first, otherKey)).toBe("of the new key");
    await first.close();
    // Epochs and orders are sealed anew by those who have the new key first.
    const seals = new Seals({ sealKeyFile: sealKeys("new", "new") }, new FileWatcher(clock), () => undefined);
    await until(async () => {
      for (const key of [epochsKey, keys.epochs("*")]) {
        for (const [field, text] of Object.entries(await server.client.hgetall(key))) {
          if (seals.open({ kind: "epoch", key, field }, text) === undefined) return false;
        }
      }
      const text = (await server.client.hget(keys.actions, "amulet"))!;
      return seals.open({ kind: "action", key: keys.actions, field: "amulet" }, text) !== undefined;
    });
    const third = await on("new");
    await until(async () => (await usable(third, otherKey)) === "of the new key");
    expect(third.coordinator.actions.find("amulet")).toBeDefined();
    expect(await usable(third)).toBeUndefined();
    expect(rejections(third, "epoch")).toBe(0);
  });

  test(
    "is read again when its file changes, and the last good one stays where that is no good",
    { timeout: 30_000 },
    async () => {
      const server = await redisServer();
      const sealKeyFile = sealKeys("changing", "old");
      const a = await replicaOn({ url: server.url, sealKeyFile });
      await put(a, infoKey, entryOf(a));
      sealKeys("changing");
      await until(() => a.events.sealKeyFaults.at(-1) !== undefined);
      expect(await usable(a)).toBeDefined();
      sealKeys("changing", "old", "new");
      await until(() => a.events.sealKeyFaults.at(-1) === undefined);
      const b = await replicaOn({ url: server.url, sealKeyFile: sealKeys("both", "new", "old") });
      expect(await usable(b)).toBeDefined();
      await put(b, otherKey, entryOf(b, {}, otherKey));
      expect(await usable(a, otherKey)).toBeDefined();
    },
  );

  test("on some replicas only keeps purges common, and entries and limits apart", async () => {
    const server = await redisServer();
    const [withKey] = (await sealed(server)) as [Replica];
    const without = await replicaOn({ url: server.url });
    await put(withKey, infoKey, entryOf(withKey, { body: Buffer.from("sealed") }));
    expect(await usable(without)).toBeUndefined();
    await put(without, infoKey, entryOf(without, { body: Buffer.from("plain") }));
    expect(await usable(withKey)).toBe("sealed");
    expect(await withKey.coordinator.epochs.purge(infoKey.partition, ["info"])).toBe("fleet");
    await until(async () => (await usable(without)) === undefined);
    await put(withKey, infoKey, entryOf(withKey, { body: Buffer.from("sealed") }));
    expect(await without.coordinator.epochs.purge(infoKey.partition, ["info"])).toBe("fleet");
    await until(async () => (await usable(withKey)) === undefined);
    await until(() => withKey.coordinator.epochs.epochOf(infoKey) === without.coordinator.epochs.epochOf(infoKey));
    expect(await without.coordinator.actions.act({ action: cacheOnly, lasts: undefined })).toBe("fleet");
    await until(() => rejections(withKey, "action") === 1);
    expect(withKey.coordinator.actions.find("amulet")).toBeUndefined();
  });
});
