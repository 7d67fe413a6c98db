import * as fc from "fast-check";
import { parseList } from "structured-headers";
import { describe, expect, test } from "vitest";
import type { Client, Slot, Standing, TierConfig } from "../../src/clients/client.ts";
import { TieredLimits } from "../../src/clients/client-limits.ts";
import { ManualClock } from "../support/manual-clock.ts";
import { largestBurst, makeAnonymous, makeClient, makeTier, rateLimitOf } from "../support/tiers.ts";

function setUp(limits: Partial<TierConfig>) {
  const clock = new ManualClock();
  const all = new TieredLimits({ clock, shared: undefined });
  const client = makeClient(makeTier(limits));
  // A process that is alone decides at once.
  const admit = (isPost = false, who: Client = client): Standing => all.admit(who, isPost) as Standing;
  const enter = (who: Client = client): Slot | undefined => all.enter(who) as Slot | undefined;
  return { clock, limits: all, client, admit, enter };
}

describe("a limit of one process", () => {
  test("holds a burst and refills with its rate", () => {
    const { admit, clock } = setUp({ requests: 120, per: 60_000, burst: 4 });
    expect([admit(), admit(), admit(), admit(), admit()].map(({ isOver }) => isOver)).toEqual([
      false,
      false,
      false,
      false,
      true,
    ]);
    clock.advance(499);
    expect(admit().isOver).toBe(true);
    clock.advance(1);
    expect(admit().isOver).toBe(false);
    expect(admit().isOver).toBe(true);
    clock.advance(3_600_000);
    expect(Array.from({ length: 6 }, () => admit().isOver)).toEqual([false, false, false, false, true, true]);
  });

  test("holds as many as requests where no burst is given", () => {
    const { admit } = setUp({ requests: 3, per: 60_000 });
    expect([admit(), admit(), admit(), admit()].map(({ isOver }) => isOver)).toEqual([false, false, false, true]);
  });

  test("counts a POST in both buckets, and in neither when one refuses", () => {
    const { admit } = setUp({ requests: 4, per: 60_000, posts: { requests: 2, per: 60_000 } });
    expect(rateLimitOf(admit(true)).limit).toBe('"requests";r=3;t=15, "posts";r=1;t=30');
    expect(admit(true).isOver).toBe(false);
    const refused = admit(true);
    expect(refused).toMatchObject({ isOver: true, retryAfter: 30 });
    expect(rateLimitOf(refused).limit).toBe('"requests";r=2;t=30, "posts";r=0;t=30');
    expect([admit(), admit(), admit()].map(({ isOver }) => isOver)).toEqual([false, false, true]);
    // The requests are used up, and so a POST is over, too, for as long as both take.
    expect(admit(true)).toMatchObject({ isOver: true, retryAfter: 30 });
  });

  test("may be of POSTs alone", () => {
    const { admit } = setUp({ posts: { requests: 1, per: 1_000 } });
    expect(rateLimitOf(admit())).toEqual({ limit: undefined, policy: '"posts";q=1;w=1' });
    expect(admit(true).isOver).toBe(false);
    expect(admit(true)).toMatchObject({ isOver: true, retryAfter: 1 });
    expect(admit().isOver).toBe(false);
  });

  test("says nothing where a tier has none", () => {
    const { admit, enter } = setUp({});
    expect(admit(true)).toEqual({ isOver: false, retryAfter: 0, fields: [] });
    const slots = Array.from({ length: 1_000 }, () => enter());
    expect(slots.includes(undefined)).toBe(false);
    for (const slot of slots) slot!.leave();
  });

  test.each([
    [{ requests: 120, per: 60_000, burst: 40 }, '"requests";q=120;w=60', '"requests";r=39;t=1'],
    [{ requests: 3, per: 250 }, '"requests";q=12;w=1', '"requests";r=2;t=1'],
    [{ requests: 15, per: 1_500, burst: 2 }, '"requests";q=20;w=2', '"requests";r=1;t=1'],
    [{ requests: 1, per: 86_400_000 }, '"requests";q=1;w=86400', '"requests";r=0;t=86400'],
    [{ requests: 100_000_000, per: 1, burst: 1 }, '"requests";q=100000000000;w=1', '"requests";r=0;t=1'],
    [{ requests: 1, per: 86_400_000, burst: 100_000_000 }, '"requests";q=1;w=86400', '"requests";r=99999999;t=86400'],
  ])("is told in structured fields (%j)", (limits, policy, limit) => {
    const { admit } = setUp(limits);
    const standing = admit();
    expect(rateLimitOf(standing)).toEqual({ limit, policy });
    for (const text of [limit, policy]) expect(parseList(text)[0]![0]).toBe("requests");
  });

  test("is told in the same array as long as its text is the same", () => {
    const { admit, clock, client } = setUp({ requests: 60, per: 60_000, burst: 10 });
    const first = admit();
    clock.advance(1_000);
    expect(admit().fields).toBe(first.fields);
    expect(admit(false, makeClient(client.tier, "wallet-b")).fields).toBe(first.fields);
  });

  test("says when to come back, the same in both fields, and grants it then", () => {
    const { admit, clock } = setUp({ requests: 2, per: 60_000 });
    admit();
    admit();
    clock.advance(1);
    const refused = admit();
    expect(refused.retryAfter).toBe(30);
    expect(rateLimitOf(refused).limit).toBe('"requests";r=0;t=30');
    clock.advance(30_000);
    expect(admit().isOver).toBe(false);
  });

  test("goes on over a reload that leaves its numbers, and begins anew where they change", () => {
    const { admit } = setUp({});
    const use = (requests: number) => admit(false, makeClient(makeTier({ requests, per: 60_000 }))).isOver;
    expect([use(1), use(1), use(2), use(2), use(2), use(1)]).toEqual([false, true, false, false, true, true]);
  });

  test("is each client's own, in each of its tiers", () => {
    const { admit } = setUp({});
    const [gold, silver] = [makeTier({ requests: 1 }, "gold"), makeTier({ requests: 1 }, "silver")];
    const use = (tier: typeof gold, name: string) => admit(false, makeClient(tier, name)).isOver;
    expect([use(gold, "a"), use(gold, "b"), use(silver, "a")]).toEqual([false, false, false]);
    expect([use(gold, "a"), use(gold, "b"), use(silver, "a")]).toEqual([true, true, true]);
  });

  test("forgets addresses when there are too many, and no client with a key for them", () => {
    const { admit, client } = setUp({ requests: 1, per: 3_600_000 });
    expect([admit().isOver, admit().isOver]).toEqual([false, true]);
    const address = (i: number) => makeAnonymous(client.tier, `10.${i >> 16}.${(i >> 8) & 255}.${i & 255}`);
    let refused = 0;
    for (let i = 0; i < 60_000; i += 1) if (admit(false, address(i)).isOver) refused += 1;
    expect(refused).toBe(0);
    expect(admit(false, address(59_999)).isOver).toBe(true);
    expect(admit(false, address(0)).isOver).toBe(false);
    expect(admit().isOver).toBe(true);
  });

  const limits = fc.record({
    requests: fc.integer({ min: 1, max: 10_000 }),
    per: fc.integer({ min: 1, max: 100_000 }),
    burst: fc.integer({ min: 1, max: 50 }),
  });

  test("never grants more than the burst and what came back, in any window", () => {
    fc.assert(
      fc.property(limits, fc.array(fc.double({ min: 0, max: 3, noNaN: true }), { maxLength: 300 }), (rate, gaps) => {
        const { admit, clock } = setUp(rate);
        const interval = rate.per / rate.requests;
        const granted: number[] = [];
        for (const gap of gaps) {
          clock.advance(gap * interval);
          if (!admit().isOver) granted.push(clock.now());
        }
        expect(largestBurst(granted, interval)).toBeLessThanOrEqual(rate.burst + 1e-3);
      }),
    );
  });

  test("never refuses a client that keeps to its rate", () => {
    fc.assert(
      fc.property(limits, fc.array(fc.double({ min: 1, max: 3, noNaN: true }), { maxLength: 300 }), (rate, gaps) => {
        const { admit, clock } = setUp(rate);
        const interval = rate.per / rate.requests;
        for (let i = 0; i < rate.burst - 1; i += 1) admit();
        let refused = 0;
        for (const gap of gaps) {
          clock.advance(gap * interval + 1e-6);
          refused += admit().isOver ? 1 : 0;
        }
        expect(refused).toBe(0);
      }),
    );
  });
});

describe("concurrency of one process", () => {
  test("lets so many run at once, of each client", () => {
    const { enter, client } = setUp({ concurrency: 2 });
    const [one, two] = [enter(), enter()];
    expect(enter()).toBe(undefined);
    expect(enter(makeClient(client.tier, "wallet-b"))).not.toBe(undefined);
    one!.leave();
    one!.leave();
    const three = enter();
    expect(three).not.toBe(undefined);
    expect(enter()).toBe(undefined);
    two!.leave();
    three!.leave();
    expect([enter(), enter(), enter()].map((slot) => slot === undefined)).toEqual([false, false, true]);
  });
});
