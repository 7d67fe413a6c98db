import { describe, expect, test } from "vitest";
import type { Fault } from "../../src/sandbox/faults.ts";
import type { SampleRegistry } from "../support/sample-registry.ts";
import { acceptCall, listCall, openUpstream, startRegistry } from "../support/upstream-registries.ts";

async function openThree(keys: Record<string, unknown> = {}) {
  const registries: SampleRegistry[] = [await startRegistry(), await startRegistry(), await startRegistry()];
  const opened = openUpstream(registries, keys);
  opened.upstreams.start();
  await expect.poll(() => opened.upstream.state).toBe("up");
  for (const { calls } of registries) calls.clear();
  return { registries, ...opened };
}

/** Calls with some concurrency until `isDone`, at most for `seconds`. */
async function load(call: () => Promise<unknown>, isDone: () => boolean, seconds = 8): Promise<void> {
  const end = performance.now() + seconds * 1_000;
  while (!isDone() && performance.now() < end) {
    await Promise.all(Array.from({ length: 6 }, call));
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
}

describe("a bad node is taken out and comes back:", () => {
  test.each<[string, Fault]>([
    ["dead", { kind: "refuse" }],
    ["503", { kind: "status", status: 503 }],
    ["hanging", { kind: "hang" }],
  ])("%s", async (_what, fault) => {
    const { registries, upstream, observer } = await openThree();
    const state = () => upstream.status().nodes[1]!.state;
    await registries[1]!.faults.set(fault);
    const call = () => upstream.call(acceptCall()).then(({ status }) => expect(status).toBe(200));
    await load(call, () => state() === "ejected");
    expect(state()).toBe("ejected");
    expect(upstream.status()).toMatchObject({ state: "degraded", nodes: [{}, { ejections: 1 }, {}] });
    // Its info fails too: it stays out.
    await load(call, () => observer.count("check-failure") >= 1);
    expect(state()).toBe("ejected");
    await registries[1]!.faults.clear();
    await load(call, () => state() === "up");
    expect(state()).toBe("up");
    expect(upstream.state).toBe("up");
  });
});

test("the last node is never taken out", async () => {
  const { registries, upstream } = await openThree();
  for (const { faults } of registries) await faults.set({ kind: "status", status: 503 });
  await load(
    () => upstream.call(acceptCall()).catch(() => undefined),
    () => upstream.status().breaker === "open",
    3,
  );
  const states = upstream.status().nodes.map((node) => node.state);
  expect(states.filter((state) => state === "up").length).toBeGreaterThanOrEqual(1);
});

describe("a sole node is never taken out, and", () => {
  async function openOne() {
    const registry = await startRegistry();
    const opened = openUpstream([registry]);
    opened.upstreams.start();
    await expect.poll(() => opened.upstream.state).toBe("up");
    const node = () => opened.upstream.status().nodes[0]!;
    expect([node().lastError, opened.upstream.status().lastError]).toEqual([undefined, undefined]);
    return { registry, ...opened, node, call: () => opened.upstream.call(acceptCall()).catch(() => undefined) };
  }

  test("once it refuses connections it says so, until its info is told again", async () => {
    const { registry, upstream, node, call } = await openOne();
    await registry.kill();
    await call();
    expect(node()).toMatchObject({ state: "up", lastError: expect.stringMatching(/refused the connection/) });
    expect(upstream.status()).toMatchObject({ state: "up", breaker: "closed", lastError: node().lastError });
    await registry.revive();
    await expect.poll(() => node().lastError).toBe(undefined);
    expect(upstream.status().lastError).toBe(undefined);
  });

  test("while its calls fail it says why, whatever its info tells, until one succeeds", async () => {
    const { registry, node, call } = await openOne();
    await registry.faults.set({ kind: "status", status: 503 });
    await call();
    expect(node()).toMatchObject({ state: "up", lastError: expect.stringMatching(/503/) });
    await registry.faults.clear();
    await call();
    expect(node().lastError).toBe(undefined);
  });
});

test("an ejected node says what its last failure was", async () => {
  const { registries, upstream } = await openThree();
  const node = () => upstream.status().nodes[1]!;
  await registries[1]!.kill();
  const call = () => upstream.call(acceptCall());
  await load(call, () => node().state === "ejected");
  expect(node().lastError).toMatch(/refused the connection/);
});

test("429 and errors of the registry's own take no node out", async () => {
  const { registries, upstream } = await openThree();
  await registries[0]!.faults.set({ kind: "429", rate: 0.5 }, { kind: "status", status: 500 });
  for (const registry of registries.slice(1)) await registry.faults.set({ kind: "status", status: 404 });
  for (let i = 0; i < 60; i++) await upstream.call(acceptCall());
  expect(upstream.state).toBe("up");
});

test("calls go where they are answered sooner", async () => {
  const { registries, upstream } = await openThree({ hedge: { enabled: false } });
  registries[0]!.slow(40);
  for (let i = 0; i < 60; i++) await upstream.call(acceptCall());
  expect(registries[0]!.calls.total).toBeLessThan(10);
});

test("concurrent calls spread over the nodes", async () => {
  const { registries, upstream } = await openThree({ hedge: { enabled: false } });
  for (const registry of registries) registry.slow(20);
  for (let i = 0; i < 5; i++) await Promise.all(Array.from({ length: 30 }, () => upstream.call(acceptCall())));
  for (const registry of registries) expect(registry.calls.total).toBeGreaterThan(25);
});

test("a pagination stays on the node that began it while that node is well", async () => {
  const { registries, upstream } = await openThree({ hedge: { enabled: false } });
  const first = await upstream.call(listCall({ pagination: "p1" }));
  for (let i = 0; i < 10; i++) {
    await upstream.call(acceptCall());
    expect((await upstream.call(listCall({ pagination: "p1" }))).node).toBe(first.node);
  }
  await registries[first.node]!.kill();
  const next = await upstream.call(listCall({ pagination: "p1" }));
  expect(next.node).not.toBe(first.node);
  expect((await upstream.call(listCall({ pagination: "p1" }))).node).toBe(next.node);
});
