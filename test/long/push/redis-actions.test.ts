import { afterAll, describe, expect, test } from "vitest";
import type { Action } from "../../../src/sharing/actions.ts";
import { MAX_ACTIONS } from "../../../src/sharing/actions.ts";
import { measureLoopTime } from "../../support/loop-time.ts";
import { startSlowProxy } from "../../support/redis-proxy.ts";
import type { Replica } from "../../support/redis-replicas.ts";
import { closeAll, later, redisServer, replicaOn } from "../../support/redis-scene.ts";
import { until } from "../../support/until.ts";

afterAll(closeAll);

const NODE = "https://a.example/registry";
const operator = { upstream: "amulet", by: "operations token", from: "loopback" };
const cordon: Action = { ...operator, node: NODE, state: "cordoned", reason: "disk" };
const undone: Action = { ...operator, node: NODE };

const stateAt = ({ coordinator }: Replica) => coordinator.actions.find("amulet", NODE)?.action.state;

/** How long it takes until the replica has the state, milliseconds of this process. */
async function timeUntil(replica: Replica, state: "cordoned" | undefined): Promise<number> {
  const took = measureLoopTime();
  await until(() => stateAt(replica) === state);
  return took();
}

describe.concurrent("what an operator does on one replica", () => {
  test("is in force on the others within 2 s, and undone as soon", async () => {
    const server = await redisServer();
    const [a, b] = [await replicaOn({ url: server.url }), await replicaOn({ url: server.url })];
    expect(await a.coordinator.actions.act({ action: cordon, lasts: undefined })).toBe("fleet");
    expect(stateAt(a)).toBe("cordoned");
    expect(await timeUntil(b, "cordoned")).toBeLessThan(10_000);
    expect(b.coordinator.actions.find("amulet", NODE)?.action).toEqual(cordon);
    expect(await b.coordinator.actions.act({ action: undone, lasts: undefined })).toBe("fleet");
    expect(await timeUntil(a, undefined)).toBeLessThan(10_000);
  });

  test("reaches those whose messages are all lost within 2 s", async () => {
    const server = await redisServer();
    const a = await replicaOn({ url: server.url });
    const deaf = await replicaOn({ url: server.url }, { post: () => undefined });
    await a.coordinator.actions.act({ action: cordon, lasts: undefined });
    expect(await timeUntil(deaf, "cordoned")).toBeLessThan(10_000);
  });

  test("is there before a replica that begins later is ready, with what is left of its time", async () => {
    const server = await redisServer();
    const a = await replicaOn({ url: server.url });
    await a.coordinator.actions.act({ action: cordon, lasts: 5_000 });
    await new Promise((resolve) => setTimeout(resolve, 1_000));
    const late = await replicaOn({ url: server.url });
    expect(stateAt(late)).toBe("cordoned");
    const endsAt = ({ coordinator }: Replica) => coordinator.actions.find("amulet", NODE)!.until!;
    // The same instant, but for what the clocks of both may be wrong by: its time does not begin anew.
    expect(Math.abs(endsAt(late) - endsAt(a))).toBeLessThan(900);
    await until(() => stateAt(late) === undefined && stateAt(a) === undefined);
    // Nobody writes it again.
    await new Promise((resolve) => setTimeout(resolve, 1_200));
    expect([stateAt(late), stateAt(a)]).toEqual([undefined, undefined]);
  });

  test("is done here while Redis is away, and written when it is back", async () => {
    const server = await redisServer();
    const proxy = later(await startSlowProxy(server.port));
    const a = await replicaOn({ url: `redis://127.0.0.1:${proxy.port}` });
    const b = await replicaOn({ url: server.url });
    proxy.blackhole = true;
    expect(await a.coordinator.actions.act({ action: cordon, lasts: undefined })).toBe("pending");
    expect([stateAt(a), stateAt(b)]).toEqual(["cordoned", undefined]);
    expect(a.coordinator.status().pendingActions).toBe(1);
    proxy.blackhole = false;
    await timeUntil(b, "cordoned");
    expect(stateAt(a)).toBe("cordoned");
    await until(() => a.coordinator.status().pendingActions === 0);
  });

  test("done while Redis was away gives way to what was done elsewhere later", async () => {
    const server = await redisServer();
    const proxy = later(await startSlowProxy(server.port));
    const a = await replicaOn({ url: `redis://127.0.0.1:${proxy.port}` });
    const b = await replicaOn({ url: server.url });
    proxy.blackhole = true;
    expect(await a.coordinator.actions.act({ action: cordon, lasts: undefined })).toBe("pending");
    await new Promise((resolve) => setTimeout(resolve, 1_100));
    expect(await b.coordinator.actions.act({ action: undone, lasts: undefined })).toBe("fleet");
    proxy.blackhole = false;
    await timeUntil(a, undefined);
    expect(stateAt(b)).toBeUndefined();
  });

  test("outlives a Redis that is killed and comes back empty", async () => {
    const server = await redisServer();
    const [a, b] = [await replicaOn({ url: server.url }), await replicaOn({ url: server.url })];
    await a.coordinator.actions.act({ action: cordon, lasts: undefined });
    await timeUntil(b, "cordoned");
    await server.kill();
    expect(await b.coordinator.actions.act({ action: { ...operator, mode: "cache-only" }, lasts: undefined })).toBe(
      "pending",
    );
    await server.start();
    await until(() => a.coordinator.actions.find("amulet") !== undefined);
    const late = await replicaOn({ url: server.url });
    await until(() => stateAt(late) === "cordoned" && late.coordinator.actions.find("amulet") !== undefined);
    expect([stateAt(a), stateAt(b)]).toEqual(["cordoned", "cordoned"]);
  });

  test("what is foreign in its place is taken for none, and what can be read stays", async () => {
    const server = await redisServer();
    const a = await replicaOn({ url: server.url });
    await server.client.set("rg:2:actions", "foreign");
    expect(await a.coordinator.actions.act({ action: cordon, lasts: undefined })).toBe("fleet");
    // Each is counted when it is read, which is twice a second: what replaces it sooner is not seen.
    const put = async (field: string, value: string) => {
      const before = a.events.valuesRejected;
      await server.client.hset("rg:2:actions", { [field]: value, "=version": value });
      await until(() => a.events.valuesRejected === before + 1);
    };
    for (const value of [
      "{",
      "[1,null]",
      "x - {}",
      "1 - {",
      `9999999999999 - ${JSON.stringify({ ...cordon, more: 1 })}`,
    ]) {
      await put("amulet https://b.example", value);
    }
    // Another target than its field says.
    await put("usdx", `9999999999999 - ${JSON.stringify(cordon)}`);
    expect(a.coordinator.actions.all().map(({ action }) => action)).toEqual([cordon]);
  });
});

test("so many actions and no more are held, whatever is in Redis", async () => {
  const server = await redisServer();
  const a = await replicaOn({ url: server.url });
  const fields = Array.from({ length: MAX_ACTIONS + 500 }, (_, i) => {
    const action = { ...operator, upstream: `u${i}`, mode: "cache-only" };
    return [action.upstream, `${Date.now()} - ${JSON.stringify(action)}`] as const;
  });
  await server.client.hset("rg:2:actions", Object.fromEntries(fields));
  await until(() => a.coordinator.actions.isFull);
  expect(a.coordinator.actions.all()).toHaveLength(MAX_ACTIONS);
});
