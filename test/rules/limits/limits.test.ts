import { describe, expect, it } from "vitest";
import type { GatewayError } from "../../../src/errors.ts";
import { ConcurrencyLimit } from "../../../src/limits/concurrency.ts";
import type { Turn } from "../../../src/limits/queue.ts";
import { RateLimit } from "../../../src/limits/rate.ts";
import { RetryBudget } from "../../../src/limits/retry-budget.ts";
import type { Grant, Limiter } from "../../../src/sharing/ports.ts";
import { WindowLimiter } from "../../../src/sharing/windows.ts";
import { TestClock } from "../../support/clock.ts";

const clock = TestClock.standing();

function turn(within: number, priority: Turn["priority"] = "client", signal?: AbortSignal): Turn {
  return { deadline: clock.now() + within, priority, signal };
}

/** What became of a promise: `…` while it waits, the code of a GatewayError, else `ok`. */
function watch(promise: PromiseLike<unknown>): { said: string; error?: GatewayError } {
  const watched: { said: string; error?: GatewayError } = { said: "…" };
  promise.then(
    () => (watched.said = "ok"),
    (error: GatewayError) => Object.assign(watched, { said: error.code, error }),
  );
  return watched;
}

const settle = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

async function pass(milliseconds: number): Promise<void> {
  for (let left = milliseconds; left > 0; left -= 10) {
    clock.advance(Math.min(left, 10));
    await settle();
  }
}

describe("calls at once", () => {
  const enter = (limit: ConcurrencyLimit, wait: Turn) => watch(Promise.resolve(limit.enter(wait)));

  it("lets as many wait as run, refuses the next, and gives a place to who waits longest", async () => {
    const limit = new ConcurrencyLimit(2, clock);
    const leave = limit.tryEnter()!;
    expect(limit.enter(turn(1_000))).toBeTypeOf("function");
    expect(limit.tryEnter()).toBeUndefined();
    const waiting = [enter(limit, turn(1_000)), enter(limit, turn(1_000)), enter(limit, turn(1_000))];
    await settle();
    expect(waiting.map(({ said }) => said)).toEqual(["…", "…", "queue_full"]);
    expect(waiting[2]!.error).toMatchObject({ status: 503, retryAfter: 1 });
    leave();
    leave();
    await settle();
    expect(waiting.map(({ said }) => said)).toEqual(["ok", "…", "queue_full"]);
    expect([limit.running, limit.waiting]).toEqual([2, 1]);
  });

  it("serves clients before refreshes, and takes a refresh's room for a client", async () => {
    const limit = new ConcurrencyLimit(2, clock);
    const leaves = [limit.tryEnter()!, limit.tryEnter()!];
    const refreshes = [enter(limit, turn(1_000, "refresh")), enter(limit, turn(1_000, "refresh"))];
    const client = enter(limit, turn(1_000));
    await settle();
    expect([...refreshes, client].map(({ said }) => said)).toEqual(["…", "queue_full", "…"]);
    leaves[0]!();
    await settle();
    expect([...refreshes, client].map(({ said }) => said)).toEqual(["…", "queue_full", "ok"]);
    leaves[1]!();
    await settle();
    expect(refreshes[0]!.said).toBe("ok");
  });

  it("ends a wait at its deadline, and when the client goes; neither takes a place with it", async () => {
    const limit = new ConcurrencyLimit(2, clock);
    const leaves = [limit.tryEnter()!, limit.tryEnter()!];
    const going = new AbortController();
    const late = enter(limit, turn(500));
    const gone = enter(limit, turn(5_000, "client", going.signal));
    clock.advance(500);
    going.abort();
    leaves.forEach((leave) => leave());
    await settle();
    expect([late.said, late.error?.status, gone.said]).toEqual(["queue_timeout", 504, "client_gone"]);
    expect([limit.running, limit.waiting]).toEqual([0, 0]);
    expect(enter(limit, turn(1_000, "client", AbortSignal.abort())).said).toBe("…");
  });
});

describe("calls in a window", () => {
  const limitOf = (limiter: Limiter, ...windows: [requests: number, per: number][]) =>
    new RateLimit(
      "a",
      windows.map(([requests, per]) => ({ requests, per })),
      { limiter, clock },
    );

  it("grants what fits, has the next wait for the window, in order, clients before refreshes", async () => {
    const limit = limitOf(new WindowLimiter(clock), [2, 1_000]);
    const first = [watch(limit.take(turn(15_000))), watch(limit.take(turn(15_000)))];
    await settle();
    expect(first.map(({ said }) => said)).toEqual(["ok", "ok"]);
    const waiters = (["refresh", "client", "client", "client"] as const).map((priority) =>
      watch(limit.take(turn(15_000, priority))),
    );
    await pass(900);
    expect(waiters.map(({ said }) => said)).toEqual(["…", "…", "…", "…"]);
    expect(limit.waiting).toBe(4);
    await pass(400);
    expect(waiters.map(({ said }) => said)).toEqual(["…", "ok", "ok", "…"]);
    await pass(800);
    expect(waiters.map(({ said }) => said)).toEqual(["rate_limited", "ok", "ok", "rate_limited"]);
  });

  it.each([
    { what: "the window opens after 2 s", per: 60_000, within: 15_000, retryAfter: [55, 64] },
    { what: "the window opens when the call's time is nearly over", per: 1_000, within: 1_200, retryAfter: [2, 2] },
    { what: "the call has no time left", per: 1_000, within: 0, retryAfter: [2, 2] },
  ])("refuses at once, with the time to come back, where $what", async ({ per, within, retryAfter }) => {
    const limit = limitOf(new WindowLimiter(clock), [1, per]);
    await limit.take(turn(within + 1));
    const refused = watch(limit.take(turn(within)));
    await settle();
    expect([refused.said, refused.error?.status]).toEqual(["rate_limited", 429]);
    expect(refused.error!.retryAfter).toBeGreaterThanOrEqual(retryAfter[0]!);
    expect(refused.error!.retryAfter).toBeLessThanOrEqual(retryAfter[1]!);
  });

  it("asks once for all who wait, and no more often than it is told to", async () => {
    const asked: number[] = [];
    const answers: Grant[] = [];
    const limiter: Limiter = {
      take() {
        asked.push(clock.now());
        return Promise.resolve(answers.shift() ?? { granted: false, retryIn: 300 });
      },
    };
    const limit = limitOf(limiter, [100, 1_000]);
    const start = clock.now();
    const waiters = [watch(limit.take(turn(15_000)))];
    await settle();
    for (let i = 0; i < 50; i += 1) waiters.push(watch(limit.take(turn(15_000))));
    await pass(1_000);
    expect(asked.map((at) => Math.round((at - start) / 10) * 10)).toEqual([0, 300, 600, 900]);
    answers.push(...Array.from({ length: 60 }, () => ({ granted: true }) as const));
    await pass(300);
    expect(waiters.every(({ said }) => said === "ok")).toBe(true);
  });

  it("asks for ever more at once while all are granted: a Redis that is far away is no limit", async () => {
    const grants: ((grant: Grant) => void)[] = [];
    const limiter: Limiter = { take: () => new Promise((resolve) => grants.push(resolve)) };
    const limit = limitOf(limiter, [100, 1_000]);
    const waiters = [watch(limit.take(turn(15_000)))];
    grants.pop()!({ granted: false, retryIn: 10 });
    await settle();
    for (let i = 0; i < 20; i += 1) waiters.push(watch(limit.take(turn(15_000))));
    const rounds: number[] = [];
    await pass(20);
    while (grants.length > 0 && rounds.length < 4) {
      rounds.push(grants.length);
      for (const grant of grants.splice(0)) grant({ granted: true });
      await settle();
    }
    expect(rounds).toEqual([1, 2, 4, 8]);
    expect(waiters.filter(({ said }) => said === "ok")).toHaveLength(15);
  });

  it("bounds who waits by what can be had in 2 s; a wait ends as 429 before the call's deadline, or with its client", async () => {
    const limit = limitOf({ take: () => Promise.resolve({ granted: false, retryIn: 10 }) }, [3, 10_000]);
    const going = new AbortController();
    const waiters = [turn(1_000), turn(15_000), turn(15_000, "client", going.signal), turn(15_000)].map((each) =>
      watch(limit.take(each)),
    );
    await settle();
    going.abort();
    await pass(760);
    expect(waiters.map(({ said }) => said)).toEqual(["rate_limited", "…", "client_gone", "rate_limited"]);
    await pass(1_300);
    expect(waiters[1]!.said).toBe("rate_limited");
    expect(limit.waiting).toBe(0);
    expect((await Promise.allSettled([limit.take(turn(9, "client", going.signal))]))[0]).toMatchObject({
      reason: { code: "client_gone" },
    });
  });
});

describe("the retry budget", () => {
  /** How many attempts of each kind are paid at each of so many calls a second, for a minute. */
  function paidIn(callsPerSecond: number, kind: "retry" | "hedge"): number {
    const budget = new RetryBudget(clock);
    let paid = 0;
    for (let second = 0; second < 60; second += 1) {
      for (let i = 0; i < callsPerSecond; i += 1) budget.called();
      for (let i = 0; i < callsPerSecond + 5; i += 1) if (budget.tryPay(kind)) paid += 1;
      clock.advance(1_000);
    }
    return paid;
  }

  it.each([
    { calls: 0, kind: "retry", perSecond: 1 },
    { calls: 2, kind: "retry", perSecond: 1 },
    { calls: 100, kind: "retry", perSecond: 20 },
    { calls: 0, kind: "hedge", perSecond: 0.5 },
    { calls: 100, kind: "hedge", perSecond: 10 },
  ] as const)("of $calls calls a second pays $perSecond as $kind", ({ calls, kind, perSecond }) => {
    const paid = paidIn(calls, kind) / 60;
    expect(paid).toBeGreaterThan(perSecond * 0.8);
    expect(paid).toBeLessThan(perSecond * 1.25);
  });

  it("pays ten at once in a quiet registry, and leaves half of them to retries", () => {
    const budget = new RetryBudget(clock);
    const hedges = Array.from({ length: 10 }, () => budget.tryPay("hedge")).filter(Boolean).length;
    const retries = Array.from({ length: 10 }, () => budget.tryPay("retry")).filter(Boolean).length;
    expect([hedges, retries]).toEqual([5, 5]);
  });
});
