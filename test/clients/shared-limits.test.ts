import * as fc from "fast-check";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import type { Client, Slot, Standing } from "../../src/clients/client.ts";
import { TieredLimits } from "../../src/clients/client-limits.ts";
import { largestBurst, makeClient, makeTier } from "../support/tiers.ts";
import { runs } from "../support/thorough.ts";
import { settle, WorkersScene, type ScenedWorker } from "../support/workers-scene.ts";

interface Process {
  readonly worker: ScenedWorker;
  readonly limits: TieredLimits;
}

let scene: WorkersScene;
beforeEach(() => {
  scene = new WorkersScene();
});
afterEach(() => scene.close());

async function processes(count: number): Promise<Process[]> {
  const all: Process[] = [];
  for (let i = 0; i < count; i += 1) {
    const worker = await scene.join();
    all.push({ worker, limits: new TieredLimits({ clock: scene.clock, shared: worker.coordinator.clientLimits }) });
  }
  return all;
}

/** Sends all at once and waits for what became of each. */
async function admitAll({ limits }: Process, client: Client, count: number, isPost = false): Promise<Standing[]> {
  const standings = Array.from({ length: count }, () => Promise.resolve(limits.admit(client, isPost)));
  await settle();
  return Promise.all(standings);
}

const admitted = (standings: readonly Standing[]): number => standings.filter(({ isOver }) => !isOver).length;

describe("limits of workers, counted by their primary", () => {
  test("are exact where they are small, all at once and one after the other", async () => {
    const all = await processes(4);
    const client = makeClient(makeTier({ requests: 20, per: 20_000 }));
    const standings = await Promise.all(all.map((each) => admitAll(each, client, 10)));
    expect(admitted(standings.flat())).toBe(20);
    for (let second = 0; second < 10; second += 1) {
      await scene.pass(1_000);
      let granted = 0;
      for (const each of all) granted += admitted(await admitAll(each, client, 2));
      expect(granted).toBe(1);
    }
  });

  test("count a POST in both buckets, and in neither when one refuses", async () => {
    const all = await processes(3);
    const client = makeClient(makeTier({ requests: 10, per: 60_000, posts: { requests: 4, per: 60_000 } }));
    const posts = await Promise.all(all.map((each) => admitAll(each, client, 5, true)));
    expect(admitted(posts.flat())).toBe(4);
    const others = await Promise.all(all.map((each) => admitAll(each, client, 5)));
    expect(admitted(others.flat())).toBe(6);
  });

  test("take few questions where they are large, and grant no more than a tenth too much", async () => {
    const all = await processes(4);
    const client = makeClient(makeTier({ requests: 4_000, per: 4_000_000 }));
    // How many share is known with the first answer.
    for (const each of all) await admitAll(each, client, 1);
    for (const { worker } of all) worker.channel.received = 0;
    let granted = 4;
    for (let round = 0; round < 250; round += 1) {
      for (const each of all) granted += admitted(await admitAll(each, client, 2));
    }
    expect(granted).toBe(2_004);
    // Half of a credit of 100 each.
    for (const { worker } of all) expect(worker.channel.received).toBeLessThanOrEqual(12);
    for (let round = 0; round < 30; round += 1) {
      for (const each of all) granted += admitted(await admitAll(each, client, 50));
    }
    expect(granted).toBeGreaterThanOrEqual(4_000);
    expect(granted).toBeLessThanOrEqual(4_400);
    // What was too much is charged: nothing more until it has come back.
    const tooMuch = granted - 4_000;
    await scene.pass((tooMuch - 1) * 1_000);
    for (const each of all) granted += admitted(await admitAll(each, client, 1));
    expect(granted - 4_000 - tooMuch).toBeLessThanOrEqual(1);
  });

  test("refuse a client that is over without asking", async () => {
    const [one] = await processes(2);
    const client = makeClient(makeTier({ requests: 2, per: 60_000 }));
    await admitAll(one!, client, 3);
    one!.worker.channel.received = 0;
    const refused = one!.limits.admit(client, false) as Standing;
    expect(refused).toMatchObject({ isOver: true, retryAfter: 30 });
    await scene.pass(29_000);
    expect(one!.limits.admit(client, false)).toMatchObject({ isOver: true, retryAfter: 1 });
    await settle();
    expect(one!.worker.channel.received).toBe(0);
  });

  test("hold in any window, and are used up, whatever clients do", async () => {
    const steps = fc.array(
      fc.record({
        process: fc.nat({ max: 3 }),
        count: fc.integer({ min: 0, max: 12 }),
        pass: fc.double({ min: 0, max: 4, noNaN: true }),
      }),
      { minLength: 20, maxLength: 80 },
    );
    const rate = fc.record({ requests: fc.integer({ min: 1, max: 600 }), burst: fc.integer({ min: 1, max: 300 }) });
    await fc.assert(
      fc.asyncProperty(rate, steps, async ({ requests, burst }, schedule) => {
        await scene.close();
        scene = new WorkersScene();
        const all = await processes(4);
        const per = 10_000;
        const interval = per / requests;
        const client = makeClient(makeTier({ requests, per, burst }));
        const granted: number[] = [];
        for (const { process, count, pass } of schedule) {
          const standings = await admitAll(all[process]!, client, count);
          for (let i = admitted(standings); i > 0; i -= 1) granted.push(scene.clock.now());
          await scene.pass(pass * interval);
        }
        expect(largestBurst(granted, interval)).toBeLessThanOrEqual(burst * 1.1 + 1e-3);
      }),
      { numRuns: runs(8, 100) },
    );
  });

  test.each([
    { requests: 10, per: 1_000, burst: 1 },
    { requests: 100, per: 1_000, burst: 10 },
    { requests: 2, per: 1_000 },
    { requests: 1_000, per: 10_000, burst: 500 },
  ])("are used up by a client that always sends more (%j)", async (limits) => {
    const all = await processes(4);
    const client = makeClient(makeTier(limits));
    let granted = 0;
    const seconds = 10;
    for (let i = 0; i < seconds * 100; i += 1) {
      const standings = await Promise.all(all.map(async ({ limits: each }) => each.admit(client, false)));
      granted += admitted(standings);
      scene.clock.advance(10);
    }
    const most = (limits.burst ?? limits.requests) + (seconds * 1_000 * limits.requests) / limits.per;
    expect(granted).toBeLessThanOrEqual(most * 1.1);
    expect(granted).toBeGreaterThanOrEqual(most * 0.9);
  });

  test("go by the share of each worker while the primary is silent", async () => {
    const all = await processes(4);
    const client = makeClient(makeTier({ requests: 40, per: 60_000 }));
    for (const each of all) expect(admitted(await admitAll(each, client, 1))).toBe(1);
    for (const { worker } of all) worker.channel.isReading = false;
    let granted = 0;
    for (const each of all) {
      const standings = Array.from({ length: 20 }, () => Promise.resolve(each.limits.admit(client, false)));
      await scene.pass(300);
      granted += admitted(await Promise.all(standings));
    }
    expect(granted).toBeGreaterThanOrEqual(32);
    expect(granted).toBeLessThanOrEqual(40);
  });
});

describe("concurrency of workers, counted by their primary", () => {
  async function enterAll({ limits }: Process, client: Client, count: number): Promise<Slot[]> {
    const slots = Array.from({ length: count }, () => Promise.resolve(limits.enter(client)));
    for (let i = 0; i < 10; i += 1) await scene.pass(15);
    return (await Promise.all(slots)).filter((slot) => slot !== undefined);
  }

  test("lets so many run at once everywhere, and gives slots back", async () => {
    const all = await processes(3);
    const client = makeClient(makeTier({ concurrency: 6 }));
    const first = await enterAll(all[0]!, client, 4);
    const second = await enterAll(all[1]!, client, 4);
    expect([first.length, second.length]).toEqual([4, 2]);
    expect(await enterAll(all[2]!, client, 2)).toEqual([]);
    for (const slot of first) slot.leave();
    // At once: the third waits until the first has given back what it held.
    const third = await enterAll(all[2]!, client, 6);
    expect(third).toHaveLength(4);
    for (const slot of [...second, ...third]) slot.leave();
    await scene.pass(50);
    expect(await enterAll(all[1]!, client, 9)).toHaveLength(6);
  });

  test("a slot that is free goes to a request that waits here", async () => {
    const [one] = await processes(2);
    const client = makeClient(makeTier({ concurrency: 1 }));
    const [slot] = await enterAll(one!, client, 1);
    const next = Promise.resolve(one!.limits.enter(client));
    await settle();
    slot!.leave();
    expect(await next).not.toBe(undefined);
  });

  test("a worker that ends leaves no slot behind", async () => {
    const all = await processes(2);
    const client = makeClient(makeTier({ concurrency: 2 }));
    expect(await enterAll(all[0]!, client, 2)).toHaveLength(2);
    expect(await enterAll(all[1]!, client, 1)).toHaveLength(0);
    all[0]!.worker.channel.close();
    await scene.pass(50);
    expect(await enterAll(all[1]!, client, 2)).toHaveLength(2);
  });

  test("each worker has its share, at least one, while the primary is silent", async () => {
    const all = await processes(4);
    const client = makeClient(makeTier({ concurrency: 8 }));
    for (const each of all) {
      for (const slot of await enterAll(each, client, 1)) slot.leave();
    }
    await scene.pass(50);
    for (const { worker } of all) worker.channel.isReading = false;
    const counts = [];
    for (const { limits } of all) {
      const slots = Array.from({ length: 5 }, () => Promise.resolve(limits.enter(client)));
      await scene.pass(300);
      counts.push((await Promise.all(slots)).filter((slot) => slot !== undefined).length);
    }
    expect(counts).toEqual([2, 2, 2, 2]);
  });
});
