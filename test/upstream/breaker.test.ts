import { describe, expect, test } from "vitest";
import { Breaker } from "../../src/upstream/breaker.ts";
import { ManualClock } from "../support/manual-clock.ts";
import { acceptCall, openUpstream, startRegistry } from "./bench-of-registries.ts";

function open() {
  const clock = new ManualClock();
  const states: string[] = [];
  const breaker = new Breaker(clock, 5_000, (state) => states.push(state));
  const report = (good: number, bad: number) => {
    for (let i = 0; i < good; i++) breaker.record(true);
    for (let i = 0; i < bad; i++) breaker.record(false);
  };
  return { clock, breaker, states, report };
}

describe("the breaker", () => {
  test.each<[string, number, number, boolean]>([
    ["19 failures", 0, 19, false],
    ["20 failures", 0, 20, true],
    ["half of 20", 10, 10, true],
    ["less than half", 11, 10, false],
    ["nothing", 0, 0, false],
  ])("after %s: open is %s", (_what, good, bad, isOpen) => {
    const { breaker, report } = open();
    report(good, bad);
    expect(breaker.state === "open").toBe(isOpen);
    expect(breaker.admit()).toBe(!isOpen);
  });

  test("forgets what was ten seconds ago", () => {
    const { breaker, clock, report } = open();
    report(0, 19);
    clock.advance(11_000);
    report(0, 19);
    expect(breaker.state).toBe("closed");
  });

  test("lets one probe through after its pause and closes when that succeeds", () => {
    const { breaker, clock, report, states } = open();
    report(0, 20);
    expect(breaker.waitTime()).toBe(1_000);
    clock.advance(1_000);
    expect(breaker.admit()).toBe(true);
    expect(breaker.admit()).toBe(false);
    breaker.record(true);
    expect(breaker.admit()).toBe(true);
    expect(states).toEqual(["open", "half-open", "closed"]);
  });

  test("pauses longer each time a probe fails, up to eight seconds", () => {
    const { breaker, clock, report } = open();
    report(0, 20);
    const pauses: number[] = [];
    for (let i = 0; i < 5; i++) {
      pauses.push(breaker.waitTime());
      clock.advance(breaker.waitTime());
      expect(breaker.admit()).toBe(true);
      breaker.record(false);
    }
    expect(pauses).toEqual([1_000, 2_000, 4_000, 8_000, 8_000]);
  });

  test("lets another probe through when one ended without telling anything", () => {
    const { breaker, clock, report } = open();
    report(0, 20);
    clock.advance(1_000);
    breaker.admit();
    breaker.forget();
    expect(breaker.admit()).toBe(true);
  });

  test("ignores calls that began before it opened and fail late", () => {
    const { breaker, clock, report } = open();
    report(0, 20);
    clock.advance(900);
    report(0, 5);
    expect(breaker.waitTime()).toBe(100);
  });

  test("probes at once when a check found a node well", () => {
    const { breaker, report } = open();
    report(0, 20);
    breaker.hint();
    expect(breaker.admit()).toBe(true);
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
    const begun = performance.now();
    await expect(upstream.call(acceptCall())).rejects.toMatchObject({
      status: 503,
      retryAfter: expect.any(Number),
      message: expect.stringMatching(
        /upstream "amulet" fails on all its nodes and is given a pause; try again in \d+ s/,
      ),
    });
    expect(performance.now() - begun).toBeLessThan(100);
    expect(registries.reduce((sum, { calls }) => sum + calls.count("transfer_accept"), 0)).toBe(asked);
    expect(observer.events).toContain("refused amulet breaker");
    for (const { faults } of registries) await faults.clear();
    await expect
      .poll(
        () =>
          upstream
            .call(acceptCall())
            .then(({ status }) => status)
            .catch(() => 0),
        { timeout: 12_000 },
      )
      .toBe(200);
    expect(upstream.status().breaker).toBe("closed");
  });

  test("is not taken for failing because of clients with little patience", async () => {
    const registry = await startRegistry({ latency: 200 });
    const { upstream } = openUpstream([registry]);
    await upstream.call(acceptCall());
    const hasty = () => upstream.call(acceptCall({ deadline: performance.now() + 20 })).catch(() => undefined);
    await Promise.all(Array.from({ length: 30 }, hasty));
    expect(upstream.status().breaker).toBe("closed");
    expect((await upstream.call(acceptCall())).status).toBe(200);
  });
});
