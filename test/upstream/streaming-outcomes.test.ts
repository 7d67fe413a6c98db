import { buffer, text } from "node:stream/consumers";
import { describe, expect, test } from "vitest";
import type { Fault } from "../../src/sandbox/faults.ts";
import { acceptCall, openUpstream, startRegistry, streamedCall } from "../support/upstream-registries.ts";

async function open(nodes: number, keys: Record<string, unknown> = {}) {
  const registries = await Promise.all(Array.from({ length: nodes }, () => startRegistry()));
  const opened = openUpstream(registries, keys);
  opened.upstreams.start();
  await expect.poll(() => opened.upstream.state).toBe("up");
  for (const { calls } of registries) calls.clear();

  /** One streamed call, read to its end; its status. */
  async function stream(): Promise<number> {
    const { status, body } = await opened.upstream.stream(streamedCall());
    await buffer(body);
    return status;
  }

  return { registries, stream, ...opened };
}

/** A fault that leaves a node's info well, so that only calls can tell. */
function ofCalls(fault: Fault): Fault {
  return { ...fault, operations: ["pass_through", "transfer_accept"] } as Fault;
}

describe("a node is taken out by streamed calls alone that others answer, and it answers with", () => {
  test.each([502, 503, 504])("%i", async (status) => {
    const { registries, upstream, observer, stream } = await open(3);
    await registries[1]!.faults.set(ofCalls({ kind: "status", status }));
    const statuses: number[] = [];
    for (let i = 0; i < 200 && upstream.status().nodes[1]!.ejections === 0; i++) statuses.push(await stream());
    expect(upstream.status().nodes[1]).toMatchObject({ ejections: 1 });
    // Until then clients got the answers as they were, each from one attempt.
    const failed = statuses.filter((each) => each === status);
    expect(failed.length).toBeLessThanOrEqual(6);
    expect(statuses.filter((each) => each !== status && each !== 200)).toEqual([]);
    expect(observer.attempts).toHaveLength(statuses.length);
    expect(observer.attempts.filter(({ outcome }) => outcome === "failure").map(({ reason }) => reason)).toEqual(
      failed.map(() => `http-${status}`),
    );
  });

  test("a redirect", async () => {
    const { registries, upstream, stream } = await open(2);
    await registries[1]!.faults.set(ofCalls({ kind: "redirect" }));
    for (let i = 0; i < 200 && upstream.status().nodes[1]!.ejections === 0; i++) await stream().catch(() => undefined);
    expect(upstream.status().nodes[1]).toMatchObject({ ejections: 1 });
  });

  test("half of a body", async () => {
    const { registries, upstream, stream } = await open(2);
    await registries[1]!.faults.set(ofCalls({ kind: "truncate" }));
    for (let i = 0; i < 200 && upstream.status().nodes[1]!.ejections === 0; i++) await stream().catch(() => undefined);
    expect(upstream.status().nodes[1]).toMatchObject({ ejections: 1 });
  });
});

test("other calls are answered well beside streamed ones that a node answers with 503", async () => {
  const { registries, upstream, stream } = await open(3);
  await registries[0]!.faults.set(ofCalls({ kind: "status", status: 503 }));
  const statuses = new Set<number>();
  for (let i = 0; i < 100; i++) {
    await Promise.all(Array.from({ length: 4 }, stream));
    statuses.add((await upstream.call(acceptCall())).status);
  }
  expect([...statuses]).toEqual([200]);
});

test("errors of the registry's own, streamed, take no node out and do not open the breaker", async () => {
  const { registries, upstream, stream } = await open(2);
  await registries[0]!.faults.set({ kind: "status", status: 500, operations: ["pass_through"] });
  await registries[1]!.faults.set({ kind: "status", status: 404, operations: ["pass_through"] });
  for (let i = 0; i < 60; i++) await stream();
  expect(upstream.status()).toMatchObject({ state: "up", breaker: "closed" });
});

test("a breaker of their own opens for streamed calls when the info fails as they do, and stops nothing else", async () => {
  const { registries, upstream, stream } = await open(1);
  await registries[0]!.faults.set({ kind: "status", status: 503, operations: ["pass_through", "info"] });
  for (let i = 0; i < 10; i++) expect(await stream()).toBe(503);
  await expect
    .poll(() => upstream.status())
    .toMatchObject({ passThroughBreaker: "open", breaker: "closed", running: 0 });
  await expect(stream()).rejects.toMatchObject({ status: 503, retryAfter: 1 });
  expect((await upstream.call(acceptCall())).status).toBe(200);
});

describe("a streamed call that is answered with 429", () => {
  const busy = { kind: "429", retryAfter: "30", operations: ["pass_through"] } as const;

  test("reaches the client, and its node is left alone as long as it asked for", async () => {
    const { registries, upstream, stream } = await open(2);
    await registries[0]!.faults.set(busy);
    const statuses: number[] = [];
    for (let i = 0; i < 40; i++) statuses.push(await stream());
    expect(statuses.filter((status) => status === 429)).toHaveLength(1);
    expect(registries[0]!.calls.count("pass_through")).toBe(1);
    expect(upstream.status()).toMatchObject({ state: "up", breaker: "closed" });
  });

  test("makes calls fewer where they are rationed", async () => {
    const { registries, observer, stream } = await open(1, { rateLimit: { requests: 100, per: "1m" } });
    await registries[0]!.faults.set(busy);
    expect(await stream()).toBe(429);
    expect(observer.events).toContain("rationed amulet 0.5");
  });
});

test("a streamed 429 without Retry-After, which may be about one contract, has no calls made fewer", async () => {
  const { registries, upstream, observer } = await open(1, { rateLimit: { requests: 100, per: "1m" } });
  const error = '{"error":"ABORTED: the contract is being reassigned"}';
  registries[0]!.script(({ operation }) => (operation === "info" ? undefined : { status: 429, body: error }));
  for (let i = 0; i < 2; i++) {
    const { status, body } = await upstream.stream(streamedCall());
    expect([status, await text(body)]).toEqual([429, error]);
  }
  expect(observer.events).not.toContain("rationed amulet 0.5");
  expect(registries[0]!.calls.count("pass_through")).toBe(2);
});

test("a streamed 304 to a request without conditions is 502 and says so; with one, it is passed on", async () => {
  const { registries, upstream } = await open(1);
  registries[0]!.script(({ operation }) =>
    operation === "info" ? undefined : { status: 304, headers: ["ETag", '"a"'] },
  );
  await expect(upstream.stream(streamedCall())).rejects.toMatchObject({
    status: 502,
    message: expect.stringContaining("304 Not Modified to a request without conditions"),
  });
  const { status, body } = await upstream.stream(streamedCall({ fields: ["if-none-match", '"a"'] }));
  expect([status, await text(body)]).toEqual([304, ""]);
});

test.each([204, 404, 500])("a coding named with an empty %i is no coding of anything", async (status) => {
  const { registries, stream } = await open(1);
  registries[0]!.script(({ operation }) =>
    operation === "info" ? undefined : { status, headers: ["Content-Encoding", "gzip"], body: "" },
  );
  expect(await stream()).toBe(status);
});
