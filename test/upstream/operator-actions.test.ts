import { describe, expect, test } from "vitest";
import { localCoordinator } from "../../src/sharing/alone.ts";
import type { Action } from "../../src/sharing/actions.ts";
import { systemClock } from "../../src/clock.ts";
import type { Upstream } from "../../src/upstream/upstream.ts";
import { ManualClock } from "../support/manual-clock.ts";
import { acceptCall, listCall, openUpstream, startRegistry, streamedCall } from "../support/upstream-registries.ts";

const operator = { upstream: "amulet", by: "no token", from: "loopback" };

/** Whether all nodes are proved: the upstream takes calls as soon as one of them is. */
const areUp = (upstream: Pick<Upstream, "status">) => upstream.status().nodes.every(({ state }) => state === "up");

/** An upstream whose nodes are all proved, and an operator. */
async function openWell(count: number, keys: Record<string, unknown> = {}) {
  const registries = await Promise.all(Array.from({ length: count }, () => startRegistry()));
  const coordinator = localCoordinator(systemClock());
  const opened = openUpstream(registries, keys, { coordinator });
  const { upstream, upstreams } = opened;
  coordinator.actions.onChange(() => upstreams.followActions());
  upstreams.start();
  await expect.poll(() => areUp(upstream)).toBe(true);
  for (const { calls } of registries) calls.clear();
  const act = (action: Omit<Action, "upstream" | "by" | "from">) =>
    coordinator.actions.act({ action: { ...operator, ...action }, lasts: undefined });
  const actOn = (node: number, action: Pick<Action, "state" | "weight" | "reason">) =>
    act({ node: registries[node]!.url, ...action });
  return { ...opened, registries, coordinator, act, actOn };
}

type Opened = Awaited<ReturnType<typeof openWell>>;

const callsOf = ({ registries }: Pick<Opened, "registries">) =>
  registries.map(({ calls }) => calls.count("instruments") + calls.count("transfer_accept"));

async function callTimes({ upstream }: Pick<Opened, "upstream">, times: number): Promise<void> {
  for (let i = 0; i < times; i += 20) {
    await Promise.all(Array.from({ length: Math.min(20, times - i) }, () => upstream.call(acceptCall())));
  }
}

describe("a cordoned node", () => {
  test("gets no new call, goes on being checked, and takes calls again when that is undone", async () => {
    const opened = await openWell(2);
    await opened.actOn(0, { state: "cordoned" });
    await callTimes(opened, 100);
    expect(callsOf(opened)).toEqual([0, 100]);
    opened.upstreams.receive(undefined);
    await expect.poll(() => opened.registries[0]!.calls.count("info")).toBeGreaterThan(0);
    expect(opened.upstream.status().nodes.map(({ state, cordoned }) => [state, cordoned])).toEqual([
      ["up", true],
      ["up", false],
    ]);
    await opened.actOn(0, {});
    await callTimes(opened, 100);
    expect(callsOf(opened)[0]).toBeGreaterThan(0);
  });

  test("ends the calls that run", async () => {
    const opened = await openWell(2);
    const held = Promise.withResolvers<undefined>();
    for (const registry of opened.registries) registry.script(() => held.promise);
    const running = Array.from({ length: 10 }, () => opened.upstream.call(acceptCall()));
    await expect.poll(() => callsOf(opened).reduce((sum, each) => sum + each)).toBe(10);
    await opened.actOn(0, { state: "cordoned" });
    held.resolve(undefined);
    expect(new Set((await Promise.all(running)).map(({ status }) => status))).toEqual(new Set([200]));
  });

  test("gets no retry: where the others fail, that is the answer", async () => {
    const opened = await openWell(2);
    await opened.actOn(0, { state: "cordoned" });
    opened.registries[1]!.script(() => ({ status: 503, body: '{"error":"not now"}' }));
    for (let i = 0; i < 5; i++) {
      const answer = await opened.upstream.call(acceptCall()).catch((error: unknown) => error);
      expect(answer).toMatchObject({ status: 503 });
    }
    expect(callsOf(opened)[0]).toBe(0);
  });

  test("is left by paginations and by streams", async () => {
    const opened = await openWell(2);
    const page = () => opened.upstream.call(listCall({ pagination: "1" }));
    await page();
    const began = callsOf(opened).indexOf(1);
    await opened.actOn(began, { state: "cordoned" });
    for (let i = 0; i < 5; i++) await page();
    for (let i = 0; i < 5; i++) (await opened.upstream.stream(streamedCall())).body.resume();
    expect(callsOf(opened)[began]).toBe(1);
    expect(opened.registries[began]!.calls.count("pass_through")).toBe(0);
  });

  test("does not keep the other one from being the last that takes calls", async () => {
    const opened = await openWell(2);
    await opened.actOn(0, { state: "cordoned" });
    opened.registries[1]!.script(() => ({ raw: "" }));
    for (let i = 0; i < 12; i++) await opened.upstream.call(acceptCall()).catch(() => undefined);
    expect(opened.upstream.status().nodes[1]!.state).toBe("up");
    expect(callsOf(opened)[0]).toBe(0);
  });

  test("is named with its reason when there is no other", async () => {
    const opened = await openWell(1);
    await opened.actOn(0, { state: "cordoned", reason: "new disk" });
    await expect(opened.upstream.call(acceptCall())).rejects.toMatchObject({
      code: "node_cordoned",
      status: 503,
      retryAfter: 30,
      message: expect.stringContaining("new disk"),
    });
  });

  test("stays cordoned over a reload, and another upstream's node of the same URL does not", async () => {
    const opened = await openWell(2);
    await opened.actOn(0, { state: "cordoned" });
    const urls = opened.registries.map(({ url }) => url);
    const again = openUpstream(urls, { timeout: "9s" }, { coordinator: opened.coordinator });
    expect(again.upstream.status().nodes.map(({ cordoned }) => cordoned)).toEqual([true, false]);
    const other = openUpstream(urls, { name: "other" }, { coordinator: opened.coordinator });
    expect(other.upstreams.status()[0]!.nodes.map(({ cordoned }) => cordoned)).toEqual([false, false]);
  });
});

describe("weights", () => {
  const CALLS = 1_000;
  const within5Percent = (counts: readonly number[], weights: readonly number[]) => {
    const total = weights.reduce((sum, each) => sum + each);
    for (const [i, weight] of weights.entries()) {
      expect(Math.abs(counts[i]! / CALLS - weight / total)).toBeLessThan(0.05 * (weight / total) + 0.001);
    }
  };

  test("of the configuration are the shares of calls", async () => {
    const registries = await Promise.all([startRegistry(), startRegistry(), startRegistry()]);
    const weights = [7, 2, 1];
    const urls = registries.map(({ url }, i) => ({ url, weight: weights[i]! }));
    const { upstream, upstreams } = openUpstream([], { urls, hedge: { enabled: false } });
    upstreams.start();
    await expect.poll(() => areUp(upstream)).toBe(true);
    for (const { calls } of registries) calls.clear();
    await callTimes({ upstream }, CALLS);
    within5Percent(callsOf({ registries }), weights);
  });

  test("of an operator take the place of those, and are given back", async () => {
    const opened = await openWell(2, { hedge: { enabled: false } });
    await opened.actOn(1, { weight: 4 });
    await callTimes(opened, CALLS);
    within5Percent(callsOf(opened), [1, 4]);
    await opened.actOn(1, {});
    expect(opened.upstream.status().nodes.map(({ weight }) => weight)).toEqual([1, 1]);
  });

  test("give way to health: what is left is shared among the others", async () => {
    const opened = await openWell(3);
    await opened.actOn(0, { weight: 98 });
    await opened.registries[0]!.stop();
    // One after the other: a node that dies under a hundred calls at once costs more retries than there are.
    for (let i = 0; i < 150; i++) expect((await opened.upstream.call(acceptCall())).status).toBe(200);
    expect(Math.min(...callsOf(opened).slice(1))).toBeGreaterThan(50);
  });

  test("of 0 are used only when no other node can be", async () => {
    const opened = await openWell(2);
    await opened.actOn(0, { weight: 0 });
    await callTimes(opened, 100);
    expect(callsOf(opened)).toEqual([0, 100]);
    await opened.registries[1]!.stop();
    await callTimes(opened, 40);
    expect(callsOf(opened)[0]).toBe(40);
  });
});

describe("cache-only mode", () => {
  test("asks the registry nothing: no call, no retry, no check", async () => {
    const opened = await openWell(2);
    opened.registries[0]!.script(() => ({ status: 503, body: '{"error":"not now"}' }));
    opened.registries[1]!.script(() => ({ status: 503, body: '{"error":"not now"}' }));
    await opened.act({ mode: "cache-only", reason: "they move" });
    for (const call of [() => opened.upstream.call(acceptCall()), () => opened.upstream.stream(streamedCall())]) {
      await expect(call()).rejects.toMatchObject({
        code: "cache_only",
        status: 503,
        message: expect.stringContaining("they move"),
      });
    }
    opened.upstreams.receive(undefined);
    await new Promise((resolve) => setTimeout(resolve, 600));
    expect(opened.registries.map(({ calls }) => calls.count("info"))).toEqual([0, 0]);
    expect(callsOf(opened)).toEqual([0, 0]);
    expect(opened.observer.count("refused amulet cache-only")).toBe(2);
  });

  test("has a breaker that is open ask nothing either", async () => {
    const clock = new ManualClock();
    const registry = await startRegistry();
    const coordinator = localCoordinator(clock);
    const { upstream, upstreams } = openUpstream([registry], { retry: { attempts: 1 } }, { coordinator, clock });
    coordinator.actions.onChange(() => upstreams.followActions());
    const deadline = clock.now() + 3_600_000;
    upstreams.start();
    await upstream.learnAdmin(deadline);
    registry.script(() => ({ status: 503, body: '{"error":"not now"}' }));
    for (let i = 0; i < 10; i += 1) await upstream.call(acceptCall({ path: `${acceptCall().path}?${i}`, deadline }));
    await expect.poll(() => upstream.state).toBe("failing");
    await coordinator.actions.act({ action: { ...operator, mode: "cache-only" }, lasts: undefined });
    await expect.poll(() => registry.calls.open).toBe(0);
    registry.calls.clear();
    for (let i = 0; i < 100; i += 1) {
      clock.advance(1_000);
      await new Promise((resolve) => setImmediate(resolve));
    }
    expect(registry.calls.total).toBe(0);
    registry.script(undefined);
    await coordinator.actions.act({ action: operator, lasts: undefined });
    await expect.poll(() => upstream.state).toBe("up");
  });

  test("is over when it is undone: every node is asked which registry it is, and takes calls", async () => {
    const opened = await openWell(2);
    await opened.act({ mode: "cache-only" });
    await opened.act({});
    await callTimes(opened, 20);
    expect(callsOf(opened).reduce((sum, each) => sum + each)).toBe(20);
    for (const { calls } of opened.registries) expect(calls.count("info")).toBeGreaterThan(0);
  });

  test("in force from the start asks nothing, and the first request says why", async () => {
    const registry = await startRegistry();
    const coordinator = localCoordinator(systemClock());
    await coordinator.actions.act({ action: { ...operator, mode: "cache-only" }, lasts: undefined });
    const { upstream, upstreams } = openUpstream([registry], {}, { coordinator });
    coordinator.actions.onChange(() => upstreams.followActions());
    upstreams.start();
    await expect(upstream.learnAdmin(performance.now() + 7_200_000)).rejects.toMatchObject({ code: "cache_only" });
    await expect(upstream.call(acceptCall())).rejects.toMatchObject({ code: "cache_only" });
    expect(registry.calls.count("info")).toBe(0);
    await coordinator.actions.act({ action: operator, lasts: undefined });
    await expect.poll(() => upstream.state).toBe("up");
  });
});
