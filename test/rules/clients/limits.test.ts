import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import { type Client, tierOf } from "../../../src/clients/client.ts";
import { ClientLimits, SlidingWindow } from "../../../src/clients/limits.ts";
import { TestClock } from "../../support/clock.ts";
import { runs } from "../../support/thorough.ts";

const PER = 60_000;

/** Takes at each step, after so many ms; the instants at which there was room. */
function taken(requests: number, steps: readonly number[], begin = 1e6): number[] {
  const window = new SlidingWindow(PER);
  let now = begin;
  return steps.flatMap((step) => {
    now += step;
    return "left" in window.take(requests, now) ? [now] : [];
  });
}

const step = fc.oneof(fc.integer({ min: 0, max: 400 }), fc.integer({ min: 0, max: 2 * PER }));

describe("a sliding window", () => {
  test("never lets more through than it says, in any window, wherever that begins", () => {
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 20 }), fc.array(step, { maxLength: 300 }), (requests, steps) => {
        const at = taken(requests, steps);
        for (const [i, first] of at.entries()) {
          const within = at.slice(i).filter((each) => each - first < PER);
          expect(within.length).toBeLessThanOrEqual(requests);
        }
      }),
      { numRuns: runs(50, 2_000) },
    );
  });

  test("refuses nobody who sends no more than it says in a window and a 128th of it", () => {
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 20 }), fc.integer({ min: 0, max: PER }), (requests, begin) => {
        const every = (PER * (129 / 128)) / requests;
        const steps = Array.from({ length: 5 * requests }, () => every);
        expect(taken(requests, steps, 1e6 + begin)).toHaveLength(5 * requests);
      }),
      { numRuns: runs(30, 1_000) },
    );
  });

  test("says how long to wait: then there is room, and it is a window and a 128th at most", () => {
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 20 }), fc.array(step, { maxLength: 100 }), (requests, steps) => {
        const window = new SlidingWindow(PER);
        let now = 1e6;
        for (const each of steps) {
          now += each;
          const result = window.take(requests, now);
          if (!("retryIn" in result)) continue;
          expect(result.retryIn).toBeGreaterThan(0);
          expect(result.retryIn).toBeLessThanOrEqual((PER * 129) / 128);
          now += Math.ceil(result.retryIn);
          expect(window.take(requests, now)).toHaveProperty("left");
        }
      }),
      { numRuns: runs(50, 2_000) },
    );
  });
});

function client(tier: Parameters<typeof tierOf>[1], kind: Client["kind"] = "key", id = "key:a"): Client {
  return { name: "a", kind, id, ...tierOf("wallet", tier) };
}

const MANY = { requests: { requests: 2, per: PER }, upstreams: ["*"] };

describe("a client's limits", () => {
  test("are told with each answer, and the 429 says when to come back", () => {
    const clock = TestClock.standing();
    const limits = new ClientLimits(clock);
    const policy = ["ratelimit-policy", '"wallet";q=2;w=60'];
    expect(limits.admit(client(MANY)).fields).toEqual(["ratelimit", '"wallet";r=1;t=60', ...policy]);
    clock.advance("30s");
    expect(limits.admit(client(MANY)).fields).toEqual(["ratelimit", '"wallet";r=0;t=60', ...policy]);
    clock.advance("20s");
    const { fields, refusal } = limits.admit(client(MANY));
    expect(refusal).toMatchObject({ status: 429, code: "client_rate_limited" });
    const { retryAfter } = refusal!;
    expect(retryAfter).toBeGreaterThanOrEqual(10);
    expect(retryAfter).toBeLessThanOrEqual(11);
    expect(fields).toEqual(["ratelimit", `"wallet";r=0;t=${retryAfter}`, ...policy]);
    clock.advance(retryAfter! * 1_000);
    expect(limits.admit(client(MANY)).refusal).toBeUndefined();
  });

  test("of a tier that sets none have no fields and no end", () => {
    const limits = new ClientLimits(TestClock.standing());
    const free = client({ upstreams: ["*"] });
    for (let at = 0; at < 1_000; at += 1) expect(limits.admit(free)).toEqual({ fields: [], refusal: undefined });
    for (let at = 0; at < 1_000; at += 1) limits.enter(free);
  });

  test("are its own, and stay where the tier's number changes", () => {
    const limits = new ClientLimits(TestClock.standing());
    const other = client(MANY, "key", "key:b");
    for (const each of [client(MANY), client(MANY)]) expect(limits.admit(each).refusal).toBeUndefined();
    expect(limits.admit(client(MANY)).refusal).toBeDefined();
    expect(limits.admit(other).refusal).toBeUndefined();
    const raised = client({ ...MANY, requests: { requests: 3, per: PER } });
    expect(limits.admit(raised).fields[1]).toContain("r=0");
    expect(limits.admit(raised).refusal).toBeDefined();
  });

  test("let so many calls run at once; a place is given back once, however often that is said", () => {
    const limits = new ClientLimits(TestClock.standing());
    const tier = client({ concurrency: 2, upstreams: ["*"] });
    const leave = limits.enter(tier);
    limits.enter(tier);
    expect(() => limits.enter(tier)).toThrow(/2 calls/);
    leave();
    leave();
    limits.enter(tier);
    expect(() => limits.enter(tier)).toThrow(expect.objectContaining({ code: "client_concurrency", retryAfter: 1 }));
    limits.enter(client({ concurrency: 2, upstreams: ["*"] }, "key", "key:b"));
  });

  test("are reported by name, and those without a credential all as one", () => {
    const clock = TestClock.standing();
    const limits = new ClientLimits(clock);
    for (const address of ["1.2.3.4", "1.2.3.5"]) limits.admit(client(MANY, "anonymous", `address:${address}`));
    for (let at = 0; at < 3; at += 1) limits.admit(client(MANY));
    limits.enter(client(MANY));
    const lastSeen = clock.wallNow();
    expect(limits.named().get("key:a")).toEqual({
      name: "a",
      kind: "key",
      tier: "wallet",
      requests: 3,
      refused: 1,
      running: 1,
      lastSeen,
    });
    expect(limits.anonymous()).toEqual({ requests: 2, refused: 0, running: 0, lastSeen });
  });

  test("of a flood of addresses take no memory without end, and forget no client with a credential", () => {
    const limits = new ClientLimits(TestClock.standing());
    for (const each of [client(MANY), client(MANY)]) limits.admit(each);
    for (let at = 0; at < 60_000; at += 1) limits.admit(client(MANY, "anonymous", `address:${at}`));
    expect(limits.admit(client(MANY)).refusal).toBeDefined();
    // The first address was forgotten, and has its whole limit again.
    expect(limits.admit(client(MANY, "anonymous", "address:0")).fields[1]).toContain("r=1");
  });
});
