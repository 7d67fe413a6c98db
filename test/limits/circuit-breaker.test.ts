import { describe, expect, test } from "vitest";
import { CircuitBreaker } from "../../src/limits/circuit-breaker.ts";
import { consequences, type FailureReason } from "../../src/upstream/failure.ts";
import { ManualClock } from "../support/manual-clock.ts";
import { acceptCall, inTime, openUpstream, startRegistry } from "../support/upstream-registries.ts";

type Verdict = boolean | undefined;

/** A breaker whose registry tells its info as `info` says, and how often it was asked. */
function open(info: { verdict: Verdict }) {
  const clock = new ManualClock();
  const states: string[] = [];
  const news: string[] = [];
  let asked = 0;
  const breaker = new CircuitBreaker({
    clock,
    timeout: 5_000,
    askInfo: () => {
      asked += 1;
      return Promise.resolve(info.verdict);
    },
    onChange: ({ to, isNew }) => {
      states.push(to);
      if (isNew) news.push(to);
    },
  });
  let made = 0;
  /** Calls one after the other; by default each for something else. */
  const report = async (reason: FailureReason | undefined, count: number, request?: string) => {
    const fault = reason === undefined ? "none" : consequences[reason].fault;
    const end = { fault, isTimeout: reason === "timeout", elapsed: 10_000 };
    for (let i = 0; i < count; i++) breaker.report(end, () => request ?? `request ${made++}`);
    await settled();
  };
  const pass = async (duration: number) => {
    clock.advance(duration);
    await settled();
  };
  return { clock, breaker, states, news, report, pass, asked: () => asked };
}

async function settled(): Promise<void> {
  for (let i = 0; i < 5; i++) await Promise.resolve();
}

describe("the breaker", () => {
  test.each<[string, number, Verdict, string]>([
    ["9 failures", 9, false, "closed"],
    ["10 failures, and its info fails", 10, false, "open"],
    ["10 failures, and its info is told", 10, true, "closed"],
    ["10 failures, and there is no call left to ask with", 10, undefined, "closed"],
  ])("after %s, in a row: %s", async (_what, count, verdict, state) => {
    const { breaker, report } = open({ verdict });
    await report("http-503", count);
    expect(breaker.state).toBe(state);
    expect(breaker.waitTime()).toBe(state === "open" ? 1_000 : 0);
  });

  test("an answer in between begins the count anew", async () => {
    const { report, asked } = open({ verdict: false });
    for (let i = 0; i < 5; i++) {
      await report("http-503", 9);
      await report(undefined, 1);
    }
    expect(asked()).toBe(0);
  });

  test("an answer that comes while the info is asked keeps it closed", async () => {
    const { breaker, report } = open({ verdict: false });
    const asking = report("http-503", 10);
    breaker.report({ fault: "none", isTimeout: false, elapsed: 10 }, () => "another");
    await asking;
    expect(breaker.state).toBe("closed");
  });

  test.each<FailureReason>(["http-429", "too-large", "credentials"])("%s does not count", async (reason) => {
    const { report, asked } = open({ verdict: false });
    await report(reason, 50);
    expect(asked()).toBe(0);
  });

  test("asks once for the same request, however often it fails, and for others", async () => {
    const { report, pass, asked } = open({ verdict: true });
    for (let i = 0; i < 20; i++) {
      await report("redirect", 10, "the same");
      await pass(1_000);
    }
    expect(asked()).toBe(1);
    await report("http-503", 10);
    expect(asked()).toBe(2);
  });

  test("asks ever more rarely while the registry is well, whatever fails", async () => {
    const { report, pass, asked } = open({ verdict: true });
    for (let i = 0; i < 60; i++) {
      await report("http-503", 30);
      await pass(1_000);
    }
    // At 0, 1, 3, 7, 15, 23, … s.
    expect(asked()).toBeLessThanOrEqual(10);
  });

  test("closes by itself as soon as the info is told, without a call", async () => {
    const info = { verdict: false };
    const { states, report, pass } = open(info);
    await report("http-503", 10);
    info.verdict = true;
    await pass(1_000);
    expect(states).toEqual(["open", "half-open", "closed"]);
  });

  test("asks after pauses that grow up to eight seconds, and lets no call through meanwhile", async () => {
    const { breaker, report, pass, asked } = open({ verdict: false });
    await report("http-503", 10);
    const pauses: number[] = [];
    for (let i = 0; i < 5; i++) {
      pauses.push(breaker.waitTime());
      const before = asked();
      await pass(breaker.waitTime() - 1);
      expect(asked()).toBe(before);
      await pass(1);
      expect(asked()).toBe(before + 1);
    }
    expect(pauses).toEqual([1_000, 2_000, 4_000, 8_000, 8_000]);
  });

  test("asks again without a longer pause when there was no call left to ask with", async () => {
    const info: { verdict: Verdict } = { verdict: false };
    const { breaker, report, pass } = open(info);
    await report("http-503", 10);
    info.verdict = undefined;
    for (let i = 0; i < 3; i++) await pass(1_000);
    expect(breaker.state).toBe("open");
    info.verdict = true;
    await pass(1_000);
    expect(breaker.state).toBe("closed");
  });

  test("closes at once when a check found a node well", async () => {
    const { breaker, report } = open({ verdict: false });
    await report("http-503", 10);
    breaker.hint();
    expect(breaker.waitTime()).toBe(0);
  });

  test("asks nothing any more once it is stopped", async () => {
    const { breaker, report, pass, asked } = open({ verdict: false });
    await report("http-503", 10);
    breaker.stop();
    await pass(60_000);
    expect(asked()).toBe(1);
  });

  // A registry that was down for a night wrote two lines every eight seconds.
  test("is news when it opens, every ten minutes while it stays so, and when it closes", async () => {
    const info = { verdict: false };
    const { news, report, pass } = open(info);
    await report("http-503", 10);
    for (let second = 0; second < 25 * 60; second++) await pass(1_000);
    info.verdict = true;
    await pass(8_000);
    expect(news).toEqual(["open", "open", "open", "closed"]);
  });
});

describe("an upstream that fails on all nodes", () => {
  test("is left alone, answers 503 at once, and comes back by itself", async () => {
    const registries = [await startRegistry(), await startRegistry()];
    const { upstream, upstreams, observer } = openUpstream(registries);
    upstreams.start();
    await expect.poll(() => upstream.state).toBe("up");
    for (const { faults } of registries) await faults.set({ kind: "status", status: 503 });
    for (let i = 0; i < 4; i++)
      await Promise.all(Array.from({ length: 8 }, () => upstream.call(acceptCall()).catch(() => undefined)));
    expect(upstream.status()).toMatchObject({
      state: "failing",
      breaker: "open",
      lastError: expect.stringMatching(/503/),
    });
    const asked = registries.reduce((sum, { calls }) => sum + calls.count("transfer_accept"), 0);
    await expect(upstream.call(acceptCall())).rejects.toMatchObject({
      status: 503,
      retryAfter: expect.any(Number),
      message: expect.stringMatching(
        /upstream "amulet" fails on all its nodes and is given a pause; try again in \d+ s/,
      ),
    });
    expect(registries.reduce((sum, { calls }) => sum + calls.count("transfer_accept"), 0)).toBe(asked);
    expect(observer.events).toContain("refused amulet breaker");
    for (const { faults } of registries) await faults.clear();
    await expect
      .poll(() =>
        upstream
          .call(acceptCall())
          .then(({ status }) => status)
          .catch(() => 0),
      )
      .toBe(200);
    expect(upstream.status().breaker).toBe("closed");
  });

  test("is not taken for failing because of clients in a hurry", async () => {
    const registry = await startRegistry({ latency: 200 });
    const { upstream } = openUpstream([registry]);
    await upstream.call(acceptCall());
    const hasty = () => upstream.call(acceptCall({ deadline: inTime(20) })).catch(() => undefined);
    await Promise.all(Array.from({ length: 30 }, hasty));
    expect(upstream.status().breaker).toBe("closed");
    expect((await upstream.call(acceptCall())).status).toBe(200);
  });
});
