import { afterEach, describe, expect, test } from "vitest";
import { LocalLimits } from "../../src/sharing/limits.ts";
import { ManualClock } from "../support/manual-clock.ts";
import { acquaintedReplicas, closeAll } from "../support/redis-scene.ts";
import { until } from "../support/until.ts";

describe("alone", () => {
  test("a longer window begins with what the longest one has, whichever was made last", () => {
    const clock = new ManualClock();
    const limits = new LocalLimits(clock);
    const take = (per: number) =>
      limits.take({ kind: "upstream", id: "amulet", windows: [{ name: "calls", requests: 3, per }] }).granted;
    for (let i = 0; i < 2; i += 1) expect(take(60_000)).toBe(true);
    clock.advance(40_000);
    expect(take(30_000)).toBe(true);
    expect(take(90_000)).toBe(false);
  });

  test("reloads of one window take nothing from another", () => {
    const limits = new LocalLimits(new ManualClock());
    const take = (burst: number) => {
      const windows = [
        { name: "calls", requests: 8, per: 60_000 },
        { name: "burst", requests: 100, per: burst },
      ];
      return limits.take({ kind: "upstream", id: "amulet", windows }).granted;
    };
    for (let i = 1; i <= 8; i += 1) expect(take(i * 1_000)).toBe(true);
    for (let i = 0; i < 2; i += 1) expect(take(9_000)).toBe(false);
  });
});

describe("replicas that have different lengths of one window", () => {
  afterEach(closeAll);
  const claimOf = (id: string, per: number, requests = 4) =>
    ({ kind: "upstream", id, windows: [{ name: "calls", requests, per }] }) as const;

  test("grant no more together than either allows, and no more for all the lengths that there were", async () => {
    const { server, replicas } = await acquaintedReplicas(2);
    const [one, other] = replicas.map(({ coordinator }) => coordinator.limits);
    const granted = async (limits: typeof one, claim: ReturnType<typeof claimOf>) =>
      (await limits!.take(claim)).granted;

    expect(await granted(one, claimOf("granted", 60_000))).toBe(true);
    expect(await granted(other, claimOf("granted", 30_000))).toBe(true);
    expect(await granted(one, claimOf("granted", 60_000))).toBe(true);
    expect(await granted(other, claimOf("granted", 30_000))).toBe(true);
    expect(await granted(one, claimOf("granted", 60_000))).toBe(false);
    expect(await granted(other, claimOf("granted", 30_000))).toBe(false);

    // What is reported later counts as well.
    expect(await granted(other, claimOf("reported", 30_000))).toBe(true);
    expect(await granted(one, claimOf("reported", 60_000))).toBe(true);
    for (let i = 0; i < 2; i += 1) one!.recount(claimOf("reported", 60_000));
    expect(await one!.take(claimOf("reported", 60_000))).toMatchObject({ granted: false, used: [4] });
    expect(await other!.take(claimOf("reported", 30_000))).toMatchObject({ granted: false, used: [4] });

    // A value that is longer than what is read counts nothing.
    let taken = 0;
    const takeMany = async (limits: typeof one, per: number) => {
      const answer = await limits!.take(claimOf("many", per, 1_000));
      if (answer.granted) taken += 1;
      return answer.used[0];
    };
    for (let i = 0; i < 40; i += 1) await takeMany(other, 30_000 + i);
    const values = await Promise.all((await server.client.keys("*")).map((key) => textOf(key)));
    const lines = values.map((value) => value.match(/^calls /gm)?.length ?? 0);
    expect(Math.max(...lines)).toBe(12);
    // On a busy machine some were granted without an answer of Redis, which counts them a moment later.
    await until(async () => (await takeMany(one, 60_000)) === taken);

    async function textOf(key: string): Promise<string> {
      return (await server.client.type(key)) === "string" ? (await server.client.get(key))! : "";
    }
  });
});
