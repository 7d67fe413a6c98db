import { describe, expect, test } from "vitest";
import type { Fault } from "../../src/sandbox/faults.ts";
import type { UpstreamCall } from "../../src/upstream/call.ts";
import { measureLoopTime } from "../support/loop-time.ts";
import type { SampleRegistry } from "../support/sample-registry.ts";
import { acceptCall, inTime, listCall, openUpstream, startRegistry } from "../support/upstream-registries.ts";

/** Registries of one upstream, proved, with their logs empty. */
async function openProved(count: number, keys: Record<string, unknown> = {}) {
  const registries: SampleRegistry[] = [];
  for (let i = 0; i < count; i++) registries.push(await startRegistry());
  const opened = openUpstream(registries, { hedge: { enabled: false }, ...keys });
  opened.upstreams.start();
  await expect.poll(() => opened.upstream.state).toBe("up");
  for (const { calls } of registries) calls.clear();
  return { registries, ...opened };
}

/** Calls without checks. */
function asked({ calls }: SampleRegistry): number {
  return calls.total - calls.count("info");
}

const kinds: [string, (overrides?: Partial<UpstreamCall>) => UpstreamCall][] = [
  ["GET", listCall],
  ["POST", acceptCall],
];

describe.each(kinds)("a %s", (_method, makeCall) => {
  test.each<[string, Fault]>([
    ["refused", { kind: "refuse" }],
    ["reset", { kind: "reset" }],
    ["hang", { kind: "hang" }],
    ["429", { kind: "429" }],
    ["502", { kind: "status", status: 502 }],
    ["503", { kind: "status", status: 503 }],
    ["504", { kind: "status", status: 504 }],
    ["not JSON", { kind: "not-json" }],
    ["cut off", { kind: "truncate" }],
    ["garbage", { kind: "garbage" }],
    ["a redirect", { kind: "redirect" }],
  ])("that meets %s is answered by another node", async (_what, fault) => {
    const { registries, upstream, observer } = await openProved(3, { attemptTimeout: "200ms" });
    await registries[0]!.faults.set(fault);
    await registries[1]!.faults.set(fault);
    for (let i = 0; i < 3; i++) expect(await upstream.call(makeCall())).toMatchObject({ status: 200, node: 2 });
    expect(asked(registries[2]!)).toBe(3);
    expect(observer.count("retry amulet")).toBeGreaterThan(0);
  });

  test.each([400, 401, 403, 404, 409, 422, 500])("that is answered %i is not tried again", async (status) => {
    const { registries, upstream } = await openProved(2);
    for (const { faults } of registries) await faults.set({ kind: "status", status });
    expect((await upstream.call(makeCall())).status).toBe(status);
    expect(asked(registries[0]!) + asked(registries[1]!)).toBe(1);
  });

  test("is tried as often as configured, each time on another node, and the last failure is its answer", async () => {
    const { registries, upstream } = await openProved(4, { retry: { attempts: 3 } });
    for (const { faults } of registries) await faults.set({ kind: "status", status: 503, body: '{"error":"busy"}' });
    expect(await upstream.call(makeCall())).toMatchObject({ status: 503, content: { isError: true } });
    expect(registries.map(asked).toSorted((a, b) => a - b)).toEqual([0, 1, 1, 1]);
  });

  test("on a sole node is tried again when reset", async () => {
    const { registries, upstream } = await openProved(1);
    await registries[0]!.faults.set({ kind: "reset", times: 2, operations: [makeCall().operation] });
    expect((await upstream.call(makeCall())).status).toBe(200);
    expect(asked(registries[0]!)).toBe(3);
  });

  test.each<[string, Fault]>([
    ["429", { kind: "429" }],
    ["503", { kind: "status", status: 503 }],
    ["not JSON", { kind: "not-json" }],
    ["cut off", { kind: "truncate" }],
  ])("on a sole node is not tried again after %s", async (_what, fault) => {
    const { registries, upstream } = await openProved(1);
    await registries[0]!.faults.set(fault);
    await upstream.call(makeCall()).catch(() => undefined);
    expect(registries[0]!.calls.total).toBe(1);
  });
});

test("the bytes of a body are the same on each attempt", async () => {
  const { registries, upstream } = await openProved(2);
  const body = Buffer.from('{ "meta" : {} }');
  for (const { faults } of registries) await faults.set({ kind: "reset", times: 1 });
  await upstream.call(acceptCall({ body }));
  const bodies = registries.flatMap(({ calls }) =>
    calls.recent.filter(({ method }) => method === "POST").map((call) => call.body.toString()),
  );
  expect(bodies).toEqual([body.toString(), body.toString(), body.toString()]);
});

test("a sole node may use the whole timeout, one of several only attemptTimeout", async () => {
  const sole = await openProved(1, { timeout: "10s", attemptTimeout: "100ms" });
  sole.registries[0]!.slow(300);
  expect((await sole.upstream.call(acceptCall())).status).toBe(200);
  const several = await openProved(2, { timeout: "10s", attemptTimeout: "100ms", retry: { attempts: 2 } });
  for (const { faults } of several.registries) await faults.set({ kind: "hang" });
  await expect(several.upstream.call(acceptCall())).rejects.toMatchObject({ status: 504 });
  expect(several.registries.map(asked)).toEqual([1, 1]);
});

test("all attempts share one deadline", async () => {
  const { registries, upstream } = await openProved(3, { timeout: "400ms", attemptTimeout: "250ms" });
  for (const { faults } of registries) await faults.set({ kind: "hang" });
  const took = measureLoopTime();
  await expect(upstream.call(acceptCall())).rejects.toMatchObject({ status: 504 });
  expect(took()).toBeLessThan(5_000);
  await expect.poll(() => registries.reduce((open, { calls }) => open + calls.open, 0)).toBe(0);
});

test("with little time left another node is asked beside the one that hangs, and the first answer wins", async () => {
  const { registries, upstream } = await openProved(2);
  await registries[0]!.faults.set({ kind: "hang" });
  for (let i = 0; i < 4; i++) {
    expect(await upstream.call(acceptCall({ deadline: inTime(800) }))).toMatchObject({ status: 200, node: 1 });
  }
  await expect.poll(() => registries[0]!.calls.open).toBe(0);
});

test("a node that asks for a pause with Retry-After is left alone", async () => {
  const { registries, upstream } = await openProved(2);
  await registries[0]!.faults.set({ kind: "429", retryAfter: "30" });
  for (let i = 0; i < 20; i++) expect((await upstream.call(acceptCall())).status).toBe(200);
  expect(registries[0]!.calls.total).toBeLessThanOrEqual(1);
});

test("a node that asked for a pause has it, whatever it answers to calls that were under way", async () => {
  const { registries, upstream } = await openProved(2);
  const answers = [
    { status: 429, headers: ["retry-after", "30", "content-type", "text/plain"], body: "slow down" },
    { status: 503, headers: ["content-type", "text/plain"], body: "busy" },
  ];
  const both = Promise.withResolvers<void>();
  registries[0]!.script(async ({ operation }) => {
    if (operation === "info") return undefined;
    const mine = answers.shift();
    if (answers.length === 0) both.resolve();
    await both.promise;
    // The second, when the first call has gone elsewhere.
    if (mine?.status === 503) await registries[1]!.calls.reached(3);
    return mine;
  });
  registries[1]!.script(async () => {
    await both.promise;
    return undefined;
  });
  const first = Array.from({ length: 4 }, () => upstream.call(acceptCall()));
  expect((await Promise.all(first)).map(({ status }) => status)).toEqual([200, 200, 200, 200]);
  for (let i = 0; i < 20; i++) expect((await upstream.call(acceptCall())).status).toBe(200);
  expect(asked(registries[0]!)).toBe(2);
});

test("when all nodes ask for a long pause the call does not wait", async () => {
  const { registries, upstream } = await openProved(2);
  for (const { faults } of registries) await faults.set({ kind: "status", status: 503, retryAfter: "30" });
  expect(await upstream.call(acceptCall())).toMatchObject({ status: 503 });
  expect(registries.map(asked)).toEqual([1, 1]);
});

test("retries are bounded by 20 % of the calls and 3 a second", async () => {
  const { registries, upstream, observer } = await openProved(3);
  for (const { faults } of registries) await faults.set({ kind: "status", status: 503 });
  const begun = performance.now();
  // One less than the breaker needs.
  const calls = 19;
  await Promise.all(Array.from({ length: calls }, () => upstream.call(acceptCall())));
  const seconds = (performance.now() - begun) / 1_000;
  const attempts = registries.reduce((sum, registry) => sum + asked(registry), 0);
  // What was earned before the first call is spent as well.
  expect(attempts).toBeLessThanOrEqual(calls * 1.2 + 3 * (seconds + 2));
  expect(attempts).toBeGreaterThan(calls);
  expect(observer.count("retry-budget-exhausted")).toBeGreaterThan(0);
});
