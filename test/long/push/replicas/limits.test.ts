import { describe, expect, it } from "vitest";
import type { Rate } from "../../../../src/config/schema.ts";
import { RateLimit } from "../../../../src/limits/rate.ts";
import { startRedis } from "../../../support/redis.ts";
import { type Replica, startReplica } from "../../../support/sharing.ts";
import { until } from "../../../support/until.ts";

const redis = await startRedis();
const sleep = (duration: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, duration));

async function start(keyPrefix: string, count: number): Promise<Replica[]> {
  const replicas = Array.from({ length: count }, () => startReplica({ url: redis.url, keyPrefix }));
  await Promise.all(replicas.map((each) => each.whenUp()));
  await until(() => replicas.every((each) => each.replicas.count() === count));
  return replicas;
}

/** Most calls in any window of `per`. */
function mostIn(times: number[], per: number): number {
  const inOrder = times.toSorted((a, b) => a - b);
  return Math.max(0, ...inOrder.map((at) => inOrder.filter((each) => each >= at && each < at + per).length));
}

describe("three replicas", () => {
  it("make together never more calls than the windows say, and as many as fit", async () => {
    const windows: Rate[] = [
      { requests: 40, per: 1_500 },
      { requests: 12, per: 300 },
    ];
    const replicas = await start("three:", 3);
    // By Redis' clock, as it counts: the time of a grant lies between that of the question and that of the answer.
    const granted: { asked: number; answered: number }[] = [];
    const end = performance.now() + 2_600;
    await Promise.all(
      [...replicas, ...replicas].map(async ({ limiter }) => {
        while (performance.now() < end) {
          const asked = performance.now();
          const grant = await limiter.take("a", windows);
          if (grant.granted) granted.push({ asked, answered: performance.now() });
          else await sleep(Math.random() < 0.5 ? grant.retryIn : Math.random() * 60);
        }
      }),
    );
    // On a machine so busy that Redis was late, a replica may have counted its part by itself.
    const share = replicas.some(({ commands }) => commands["limit error"] !== undefined) ? 2 : 1;
    for (const { requests, per } of windows) {
      // Only what was surely within one window: asked after its beginning, answered before its end.
      const most = granted.map(
        ({ asked }) => granted.filter((each) => each.asked >= asked && each.answered <= asked + per).length,
      );
      expect(Math.max(...most)).toBeLessThanOrEqual(requests * share);
    }
    // More than one window has: it went on.
    expect(granted.length).toBeGreaterThan(40);
  });

  it("count a call once where two windows are equally long", async () => {
    const [replica] = await start("equal:", 1);
    const windows: Rate[] = [20, 10].map((requests) => ({ requests, per: 60_000 }));
    const grants = await Promise.all(Array.from({ length: 15 }, () => replica!.limiter.take("a", windows)));
    expect(grants.filter(({ granted }) => granted)).toHaveLength(10);
  });

  it("take a third each while Redis is away; in that window it may be twice as many in all", async () => {
    const windows: Rate[] = [{ requests: 30, per: 60_000 }];
    const replicas = await start("third:", 3);
    let key = "";
    const takeAll = async (): Promise<number[]> =>
      Promise.all(
        replicas.map(async ({ limiter }) => {
          const grants = await Promise.all(Array.from({ length: 31 }, () => limiter.take(key, windows)));
          return grants.filter((each) => each.granted).length;
        }),
      );
    const alone = (): number =>
      replicas.reduce(
        (sum, { commands }) => sum + (commands["limit error"] ?? 0) + (commands["limit skipped"] ?? 0),
        0,
      );
    const shared = await until(async () => {
      const before = alone();
      key = `a ${before}`;
      const taken = await takeAll();
      // On a machine so busy that Redis was late, it was away.
      return alone() === before && taken;
    });
    expect(shared.reduce((sum, each) => sum + each, 0)).toBe(30);
    redis.pause();
    await Promise.all(
      replicas.map((each) => until(async () => (await each.limiter.take("b", windows)) && !each.isUp())),
    );
    expect(await takeAll()).toEqual([10, 10, 10]);
    redis.resume();
    await Promise.all(replicas.map((each) => each.whenUp()));
    expect(await takeAll()).toEqual([0, 0, 0]);
  });

  it("count each key, and each window of now, by itself; a count is kept for as long as its window", async () => {
    const [first, second] = await start("keys:", 2);
    const take = async (replica: Replica | undefined, key: string, requests: number, per: number): Promise<boolean> =>
      (await replica!.limiter.take(key, [{ requests, per }])).granted;
    expect([
      await take(first, "a", 1, 60_000),
      await take(second, "a", 1, 60_000),
      await take(second, "b", 1, 60_000),
    ]).toEqual([true, false, true]);
    expect([await take(second, "a", 2, 60_000), await take(first, "a", 1, 400.5)]).toEqual([true, true]);
    await until(() => take(first, "a", 1, 400.5));
    expect(
      Object.keys(await redis.client.hgetall("keys:1:calls:a")).filter((slot) => slot.startsWith("401:")),
    ).toHaveLength(1);
    expect(await redis.client.pttl("keys:1:calls:a")).toBeGreaterThan(59_000);
    expect(await redis.client.pttl("keys:1:calls:b")).toBeLessThanOrEqual(66_000);
  });
});

it("clients that wait are served in order as the window opens, over all replicas", async () => {
  const replicas = await start("order:", 2);
  const rate = { requests: 5, per: 600 };
  const limits = replicas.map(({ limiter, clock }) => new RateLimit("a", [rate], { limiter, clock }));
  const begun: number[] = [];
  const waits = limits.flatMap((limit, i) =>
    Array.from({ length: 8 }, () =>
      limit
        .take({ deadline: replicas[i]!.clock.now() + 15_000, priority: "client" })
        .then(() => begun.push(performance.now())),
    ),
  );
  const ended = await Promise.allSettled(waits);
  // 2 s are three windows beside the first; nobody waits for longer.
  expect(ended.filter(({ status }) => status === "fulfilled").length).toBeGreaterThanOrEqual(14);
  // By the clock of a busy process, which may read an answer late.
  expect(mostIn(begun, rate.per * 0.6)).toBeLessThanOrEqual(rate.requests);
});
