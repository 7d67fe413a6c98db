import { describe, expect, test } from "vitest";
import { measureLoopTime } from "../support/loop-time.ts";
import type { SampleRegistry } from "../support/sample-registry.ts";
import { acceptCall, inTime, openUpstream, startRegistry } from "../support/upstream-registries.ts";

async function openWarm(keys: Record<string, unknown> = {}, count = 2) {
  const registries: SampleRegistry[] = await Promise.all(
    Array.from({ length: count }, () => startRegistry({ latency: 2 })),
  );
  const opened = openUpstream(registries, keys);
  opened.upstreams.start();
  await expect.poll(() => opened.upstream.state).toBe("up");
  // Enough to know what is slow, and to earn some hedges.
  for (let i = 0; i < 10; i++) await Promise.all(Array.from({ length: 6 }, () => opened.upstream.call(acceptCall())));
  for (const { calls } of registries) calls.clear();
  return { registries, ...opened };
}

describe("a call that is slower than usual", () => {
  test("is asked of a second node, the first good answer wins and the other is cancelled", async () => {
    const { registries, upstream, observer } = await openWarm({ hedge: { budget: 0.5 } });
    const before = observer.count("hedge-won");
    // Whichever node is asked first never answers that one call.
    let hung = 0;
    for (const registry of registries) {
      registry.script(() => (hung++ === 0 ? new Promise(() => undefined) : undefined));
    }
    const took = measureLoopTime();
    expect((await upstream.call(acceptCall())).status).toBe(200);
    // Sooner than attemptTimeout would have ended the first one.
    expect(took()).toBeLessThan(4_000);
    expect(observer.count("hedge-won")).toBe(before + 1);
    expect(observer.attempts.slice(-2).map(({ outcome }) => outcome)).toEqual(["success", "cancelled"]);
    await expect.poll(() => registries.reduce((open, { calls }) => open + calls.open, 0)).toBe(0);
    expect(upstream.status()).toMatchObject({ running: 0 });
  });

  test("is not hedged when hedging is off, nor for calls nobody waits for", async () => {
    const off = await openWarm({ hedge: { enabled: false } });
    for (const registry of off.registries) registry.slow(100);
    await off.upstream.call(acceptCall());
    expect(off.observer.count("hedge-")).toBe(0);
    const on = await openWarm({ hedge: { budget: 1 } });
    const before = on.observer.count("hedge-");
    for (const registry of on.registries) registry.slow(100);
    await on.upstream.call(acceptCall({ priority: "refresh" }));
    await on.upstream.call(acceptCall({ priority: "background" }));
    expect(on.observer.count("hedge-")).toBe(before);
  });

  test("is asked of no third node while two are at it, however late it is, nor is one paid for", async () => {
    const { registries, upstream, observer } = await openWarm({ hedge: { budget: 0.5 } }, 3);
    const before = observer.count("retry");
    for (const registry of registries) {
      registry.script(({ operation }) => (operation === "info" ? undefined : new Promise(() => undefined)));
    }
    await expect(upstream.call(acceptCall({ deadline: inTime(800) }))).rejects.toMatchObject({ status: 504 });
    expect(registries.reduce((sum, { calls }) => sum + calls.count("transfer_accept"), 0)).toBe(2);
    expect(observer.count("retry")).toBe(before);
  });

  test("makes at most 5 % more calls", async () => {
    const { registries, upstream } = await openWarm();
    for (const registry of registries) registry.calls.clear();
    // Every call is slower than what was usual.
    for (const registry of registries) registry.slow(15);
    const calls = 400;
    for (let i = 0; i < calls; i += 20) {
      await Promise.all(Array.from({ length: 20 }, () => upstream.call(acceptCall({ deadline: inTime(15_000) }))));
    }
    const sent = registries.reduce((sum, registry) => sum + registry.calls.total, 0);
    // 60 calls of the warm-up have earned up to three more.
    expect(sent).toBeLessThanOrEqual(calls * 1.05 + 3);
  });
});
