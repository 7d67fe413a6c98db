import * as fc from "fast-check";
import { parseList } from "structured-headers";
import { describe, expect, test } from "vitest";
import type { Client, Slot, LimitState, TierConfig } from "../../src/clients/client.ts";
import { TieredLimits } from "../../src/clients/client-limits.ts";
import { LocalLimits } from "../../src/sharing/limits.ts";
import { ManualClock } from "../support/manual-clock.ts";
import { expectWithin, makeAnonymous, makeClient, makeTier, rateLimitOf } from "../support/tiers.ts";

function setUp(tier: Partial<TierConfig>) {
  const clock = new ManualClock();
  const spared: string[] = [];
  const limits = new TieredLimits({
    clock,
    limits: new LocalLimits(clock),
    onSpared: (who, reason) => spared.push(`${who.name} ${reason}`),
  });
  const client = makeClient(makeTier(tier));
  // A process that is alone decides at once.
  const admit = (isPost = false, who: Client = client): LimitState => limits.admit(who, isPost) as LimitState;
  const enter = (who: Client = client): Slot | undefined => limits.enter(who) as Slot | undefined;
  const count = (tries: number, isPost = false): number =>
    Array.from({ length: tries }, () => admit(isPost)).filter(({ isOver }) => !isOver).length;
  return { clock, client, admit, enter, count, spared };
}

const ANONYMOUS = {
  requests: 600,
  per: 60_000,
  burst: { requests: 150, per: 5_000 },
  posts: { requests: 60, per: 60_000 },
};

describe("a limit of one process", () => {
  test("lets in what both windows have room for, and says which is nearest to its end", () => {
    const { count, admit, clock } = setUp(ANONYMOUS);
    expect(rateLimitOf(admit())).toEqual({
      limit: '"burst";r=149;t=5',
      policy: '"requests";q=600;w=60, "burst";q=150;w=5, "posts";q=60;w=60',
    });
    expect(count(200)).toBe(149);
    const over = admit();
    expect(over).toMatchObject({ isOver: true, retryAfter: 6 });
    expect(rateLimitOf(over).limit).toBe('"burst";r=0;t=6');
    for (const left of [150, 150, 150]) {
      clock.advance(5_200);
      expect(count(200)).toBe(left);
    }
    clock.advance(5_200);
    expect(rateLimitOf(admit()).limit).toMatch(/^"requests";r=0;t=4\d$/);
  });

  test("counts a POST in all windows, and in none when one refuses", () => {
    const { admit, count } = setUp({ requests: 4, per: 60_000, posts: { requests: 2, per: 60_000 } });
    expect(rateLimitOf(admit(true)).limit).toBe('"posts";r=1;t=60');
    expect(count(3, true)).toBe(1);
    expect(rateLimitOf(admit(true)).limit).toBe('"posts";r=0;t=61');
    expect(count(3)).toBe(2);
  });

  test("may be of POSTs, or of the shorter window, alone", () => {
    const posts = setUp({ posts: { requests: 1, per: 1_000 } });
    expect(rateLimitOf(posts.admit())).toEqual({ limit: undefined, policy: '"posts";q=1;w=1' });
    expect(posts.count(2, true)).toBe(1);
    expect(posts.count(5)).toBe(5);
    const burst = setUp({ burst: { requests: 2, per: 1_000 } });
    expect(burst.count(5)).toBe(2);
  });

  test("says nothing where a tier has none", () => {
    const { admit, enter } = setUp({});
    expect(admit(true)).toEqual({ isOver: false, retryAfter: 0, fields: [] });
    expect(Array.from({ length: 1_000 }, () => enter())).not.toContain(undefined);
  });

  test("refuses nothing where it is not enforced, and reports each request that it would refuse", () => {
    const { count, admit, enter, spared } = setUp({ requests: 2, per: 60_000, concurrency: 1, enforce: false });
    expect(count(5)).toBe(5);
    expect(rateLimitOf(admit()).limit).toBe('"requests";r=0;t=61');
    expect([enter(), enter()]).not.toContain(undefined);
    expect(spared).toEqual([
      ...Array.from({ length: 4 }, () => "wallet-a client_rate_limited"),
      "wallet-a client_concurrency",
    ]);
  });

  test.each([
    [{ requests: 120, per: 60_000 }, '"requests";q=120;w=60', '"requests";r=119;t=60'],
    [{ requests: 3, per: 250 }, '"requests";q=12;w=1', '"requests";r=2;t=1'],
    [{ requests: 15, per: 1_500 }, '"requests";q=20;w=2', '"requests";r=14;t=2'],
    [{ requests: 1, per: 86_400_000 }, '"requests";q=1;w=86400', '"requests";r=0;t=86400'],
    [{ requests: 100_000_000, per: 1 }, '"requests";q=100000000000;w=1', '"requests";r=99999999;t=1'],
  ])("is said in structured fields (%j)", (limits, policy, limit) => {
    const { admit } = setUp(limits);
    expect(rateLimitOf(admit())).toEqual({ limit, policy });
    for (const text of [limit, policy]) expect(parseList(text)[0]![0]).toBe("requests");
  });

  test("goes on over a reload, with what was counted, also where its number of requests changes", () => {
    const { admit } = setUp({});
    const use = (requests: number) => admit(false, makeClient(makeTier({ requests, per: 60_000 }))).isOver;
    expect([use(1), use(1), use(2), use(2), use(1)]).toEqual([false, true, false, true, true]);
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

  const window = fc.record({ requests: fc.integer({ min: 1, max: 60 }), per: fc.integer({ min: 1, max: 10_000 }) });

  test("never lets in more than it says in any window of any length, and as much but for a part in fifty", () => {
    const gaps = fc.array(fc.tuple(fc.double({ min: 0, max: 0.2, noNaN: true }), fc.boolean()), { maxLength: 400 });
    fc.assert(
      fc.property(window, window, window, gaps, (whole, burst, posts, steps) => {
        const { admit, clock } = setUp({ ...whole, burst, posts });
        const all: number[] = [];
        const ofPosts: number[] = [];
        for (const [gap, isPost] of steps) {
          clock.advance(gap * burst.per);
          const now = clock.now();
          const { isOver, retryAfter } = admit(isPost);
          if (!isOver) for (const each of isPost ? [all, ofPosts] : [all]) each.push(now);
          else {
            expect(retryAfter).toBeGreaterThan(0);
            const isFull = (at: number[], { requests, per }: typeof whole) =>
              at.filter((each) => each > now - per * 1.021).length >= requests;
            expect(isFull(all, whole) || isFull(all, burst) || (isPost && isFull(ofPosts, posts))).toBe(true);
          }
        }
        for (const each of [whole, burst]) expectWithin(all, each);
        expectWithin(ofPosts, posts);
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
