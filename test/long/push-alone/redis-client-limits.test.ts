import { setTimeout as sleep } from "node:timers/promises";
import { isDeepStrictEqual } from "node:util";
import { afterAll, describe, expect, test } from "vitest";
import type { Client, Slot, TierConfig } from "../../../src/clients/client.ts";
import { TieredLimits } from "../../../src/clients/client-limits.ts";
import { measureLoopTime } from "../../support/loop-time.ts";
import { clock, type Replica } from "../../support/redis-replicas.ts";
import { acquaintedReplicas, closeAll, replicasOfOne } from "../../support/redis-scene.ts";
import { until } from "../../support/until.ts";
import { makeAnonymous, makeClient, makeTier } from "../../support/tiers.ts";

// All at once: each waits most of its time, on a Redis of its own.
afterAll(closeAll);

/** A request was granted between these instants. */
interface Granted {
  readonly from: number;
  readonly to: number;
}

/** The most in any window of `per`, of instants that are not known exactly: at least so much. */
function mostIn(granted: readonly Granted[], per: number): number {
  const sorted = granted.toSorted((a, b) => a.from - b.from);
  let largest = 0;
  let begin = 0;
  for (const [end, { to }] of sorted.entries()) {
    while (to - sorted[begin]!.from > per) begin += 1;
    largest = Math.max(largest, end - begin + 1);
  }
  return largest;
}

interface Limited {
  readonly replica: Replica;
  readonly limits: TieredLimits;
}

const limit = (replicas: readonly Replica[]): Limited[] =>
  replicas.map((replica) => ({
    replica,
    limits: new TieredLimits({ clock, limits: replica.coordinator.limits, onSpared: () => undefined }),
  }));

const clientOf = (limits: Partial<TierConfig>): Client => makeClient(makeTier(limits));

async function admitAll({ limits }: Limited, client: Client, count: number): Promise<number> {
  const states = await Promise.all(Array.from({ length: count }, async () => limits.admit(client, false)));
  return states.filter(({ isOver }) => !isOver).length;
}

/** Sends from all replicas for as long, more than is granted. */
async function sendFor(all: readonly Limited[], client: Client, duration: number): Promise<Granted[]> {
  const granted: Granted[] = [];
  const end = clock.now() + duration;
  await Promise.all(
    all.map(async (each) => {
      while (clock.now() < end) {
        const from = clock.now();
        const count = await admitAll(each, client, 3);
        for (let i = 0; i < count; i += 1) granted.push({ from, to: clock.now() });
        await sleep(10);
      }
    }),
  );
  return granted;
}

describe.concurrent("limits of clients in Redis", () => {
  test("are exact over replicas where they are small", async () => {
    const { replicas } = await acquaintedReplicas(4);
    const client = clientOf({ requests: 20, per: 1_000, burst: { requests: 10, per: 200 } });
    const granted = await sendFor(limit(replicas), client, 4_000);
    // The first window at least; how much of the others is used depends on how busy the machine is.
    expect(granted.length).toBeGreaterThanOrEqual(20);
    expect(mostIn(granted, 1_000)).toBeLessThanOrEqual(20);
    expect(mostIn(granted, 200)).toBeLessThanOrEqual(10);
  });

  test("grant a tenth too much at most where they are large, with few questions", async () => {
    const { replicas } = await acquaintedReplicas(4);
    const client = clientOf({ requests: 2_000, per: 600_000 });
    const all = limit(replicas);
    let granted = 0;
    for (let i = 0; i < 50; i += 1) {
      granted += (await Promise.all(all.map((each) => admitAll(each, client, 5)))).reduce((a, b) => a + b);
    }
    expect(granted).toBe(1_000);
    for (const { events } of replicas) expect(events.sent("limit_take")).toBeLessThanOrEqual(60);
    for (let i = 0; i < 100; i += 1) {
      granted += (await Promise.all(all.map((each) => admitAll(each, client, 5)))).reduce((a, b) => a + b);
    }
    expect(granted).toBeGreaterThanOrEqual(2_000);
    expect(granted).toBeLessThanOrEqual(2_200);
  });

  test("hold when Redis forgets everything", async () => {
    const { server, replicas } = await acquaintedReplicas(2);
    const client = clientOf({ requests: 10, per: 600_000 });
    const all = limit(replicas);
    expect(await admitAll(all[0]!, client, 8)).toBe(8);
    await server.client.flushall();
    // Epochs are gone as well: for a moment it may be that Redis is not asked.
    await until(() => replicas.every(({ coordinator }) => coordinator.status().state === "up"));
    expect(await admitAll(all[0]!, client, 8)).toBe(2);
    expect(await admitAll(all[1]!, client, 8)).toBe(0);
  });

  test("hold when Redis is killed midway and comes back empty, and no request waits or fails", async () => {
    const { server, replicas } = await acquaintedReplicas(4);
    const client = clientOf({ requests: 100, per: 2_000, burst: { requests: 40, per: 400 } });
    const all = limit(replicas);
    const sent = sendFor(all, client, 8_000);
    await sleep(2_000);
    await server.kill();
    await sleep(2_500);
    await server.start();
    const granted = await sent;
    expect(granted.length).toBeGreaterThanOrEqual(100);
    expect(mostIn(granted, 2_000)).toBeLessThanOrEqual(110);
    expect(mostIn(granted, 400)).toBeLessThanOrEqual(44);
    expect(granted.some(({ from }) => from - granted[0]!.to > 5_000)).toBe(true);
  });

  test("hold while Redis is frozen, by the shares of replicas", async () => {
    const { server, replicas } = await acquaintedReplicas(2);
    const client = clientOf({ requests: 20, per: 600_000 });
    const all = limit(replicas);
    expect(await admitAll(all[0]!, client, 2)).toBe(2);
    server.pause();
    const counts = await Promise.all(all.map((each) => admitAll(each, client, 20)));
    server.resume();
    expect(counts).toEqual([8, 10]);
    await until(() => replicas.every(({ coordinator }) => coordinator.status().state === "up"));
    // What was granted without Redis is counted.
    await sleep(2_000);
    const more = await Promise.all(all.map((each) => admitAll(each, client, 5)));
    expect(20 + more[0]! + more[1]!).toBeLessThanOrEqual(22);
  });

  test("keep nothing in Redis for much longer than a window, and nothing for addresses within their credit", async () => {
    const { server, replicas } = await acquaintedReplicas(1);
    const [one] = limit(replicas);
    const tier = makeTier({ requests: 15, per: 100_000 });
    for (let i = 0; i < 500; i += 1) await one!.limits.admit(makeAnonymous(tier, `10.0.${i >> 8}.${i & 255}`), false);
    expect(await server.client.keys("rg:n:*")).toEqual([]);
    const small = makeClient(makeTier({ requests: 1, per: 5_000 }));
    expect(await admitAll(one!, small, 2)).toBe(1);
    const [key] = await server.client.keys("rg:n:*");
    expect(await server.client.pttl(key!)).toBeLessThanOrEqual(6_500);
  });

  test("take foreign values for none", async () => {
    const { server, replicas } = await acquaintedReplicas(1);
    const [one] = limit(replicas);
    const client = clientOf({ requests: 4, per: 600_000, concurrency: 2 });
    expect(await admitAll(one!, client, 1)).toBe(1);
    expect(await one!.limits.enter(client)).not.toBe(undefined);
    const keys = [...(await server.client.keys("rg:n:*")), ...(await server.client.keys("rg:s:*"))];
    expect(keys).toHaveLength(2);
    for (const value of ["nan inf -inf", "{", "a=1@2,=3@", "9e999 1 1", ""]) {
      for (const key of keys) await server.client.set(key, value);
      expect(await admitAll(one!, client, 0)).toBe(0);
    }
    for (const key of keys) {
      await server.client.del(key);
      await server.client.rpush(key, "list");
    }
    expect(await admitAll(one!, client, 5)).toBe(3);
    expect(await one!.limits.enter(client)).not.toBe(undefined);
    expect(replicas[0]!.coordinator.status().state).toBe("up");
  });
});

describe.concurrent("concurrency of clients in Redis", () => {
  const enterAll = async ({ limits }: Limited, client: Client, count: number): Promise<Slot[]> => {
    const slots = await Promise.all(Array.from({ length: count }, async () => limits.enter(client)));
    return slots.filter((slot) => slot !== undefined);
  };

  test("lets so many run at once over all replicas", async () => {
    const { replicas } = await acquaintedReplicas(4);
    const all = limit(replicas);
    const client = clientOf({ concurrency: 8 });
    // On a busy machine Redis may be too slow now and then: who gets no reply goes by its share, beside what others hold.
    const disturbances = () =>
      replicas.map(({ events: { states, commands } }) => [
        states.at(-1),
        states.length,
        commands.filter(({ outcome }) => outcome !== "ok").length,
      ]);
    const calm = replicas.map(() => "up");
    let slots: Slot[] = [];
    for (let round = 0; round < 5; round += 1) {
      await until(async () => {
        for (const slot of slots) slot.leave();
        const before = disturbances();
        slots = (await Promise.all(all.map((each) => enterAll(each, client, 4)))).flat();
        const isCalm = isDeepStrictEqual(
          before.map(([state]) => state),
          calm,
        );
        if (isCalm && isDeepStrictEqual(disturbances(), before)) expect(slots.length).toBeLessThanOrEqual(8);
        return slots.length === 8;
      });
      for (const slot of slots.splice(0)) slot.leave();
      await until(async () => {
        slots.push(...(await enterAll(all[round % 4]!, client, 8 - slots.length)));
        return slots.length === 8;
      });
    }
  });

  test("a replica that died gives its slots back within a few seconds, one that lives keeps them", async () => {
    const { server, replicas } = await acquaintedReplicas(3);
    const all = limit(replicas);
    const client = clientOf({ concurrency: 4 });
    const kept = await enterAll(all[0]!, client, 2);
    // What a replica that was killed leaves behind.
    const [key] = await server.client.keys("rg:s:*");
    const value = await server.client.get(key!);
    const till = value!.replace(/^.*@/, "");
    await server.client.set(key!, `${value},dead=2@${till}`, "PX", 3_000);
    expect(await enterAll(all[1]!, client, 1)).toHaveLength(0);
    const took = measureLoopTime();
    await until(async () => (await enterAll(all[1]!, client, 1)).length === 1);
    expect(took()).toBeLessThan(20_000);
    await sleep(4_000);
    expect(await enterAll(all[2]!, client, 4)).toHaveLength(1);
    for (const slot of kept) slot.leave();
  });

  test("goes by shares while Redis is away, and counts what runs when it is back", async () => {
    const { server, replicas } = await acquaintedReplicas(2);
    const all = limit(replicas);
    const client = clientOf({ concurrency: 6 });
    expect(await enterAll(all[0]!, client, 5)).toHaveLength(5);
    await server.kill();
    await until(() => replicas.every(({ coordinator }) => coordinator.status().state === "away"));
    expect(await enterAll(all[0]!, client, 5)).toHaveLength(0);
    expect(await enterAll(all[1]!, client, 5)).toHaveLength(3);
    await server.start();
    await until(() => replicas.every(({ coordinator }) => coordinator.status().state === "up"));
    await sleep(2_000);
    expect(await enterAll(all[1]!, client, 5)).toHaveLength(0);
  });
});

test("a replica by itself asks Redis seldom, and at once grants what is allowed", async () => {
  const { replicas } = await replicasOfOne(1);
  const [one] = limit(replicas);
  const client = clientOf({ requests: 10, per: 600_000 });
  expect(await admitAll(one!, client, 20)).toBe(10);
});

// Each client got a quarter of its tier for a second and a half after each start, with Redis there.
test("a replica that has just started grants a client all that is allowed, one request after another", async () => {
  const { replicas } = await replicasOfOne(1);
  const [one] = limit(replicas);
  const client = clientOf({ requests: 8, per: 600_000 });
  let granted = 0;
  for (let i = 0; i < 10; i += 1) granted += await admitAll(one!, client, 1);
  expect(granted).toBe(8);
});
