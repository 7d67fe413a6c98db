import { createServer } from "node:http";
import type { IncomingMessage, ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { Readable } from "node:stream";
import { buffer, text } from "node:stream/consumers";
import { describe, expect, onTestFinished, test } from "vitest";
import type { StreamedAnswer } from "../../src/upstream/call.ts";
import { ManualClock } from "../support/manual-clock.ts";
import {
  acceptCall,
  ADMIN,
  openUpstream,
  startRegistry,
  streamedCall,
  type StreamedOverrides,
} from "../support/upstream-registries.ts";

/** What `timeout`, and so a call, has by default; and a body. */
const ANSWER_TIME = 15_000;
const BODY_TIME = 30_000;

async function open(keys: Record<string, unknown> = {}, nodes = 1) {
  const clock = new ManualClock();
  const registries = await Promise.all(Array.from({ length: nodes }, () => startRegistry()));
  const opened = openUpstream(registries, keys, {
    clock,
    limits: { requestBody: 2 ** 20, responseBody: 2 ** 26 },
  });
  // Before the upstreams close, which waits for what runs.
  onTestFinished(() => clock.advance(BODY_TIME));
  opened.upstreams.start();
  await expect.poll(() => opened.upstream.state).toBe("up");
  for (const { calls } of registries) calls.clear();

  function stream(overrides: StreamedOverrides): Promise<StreamedAnswer> {
    const now = clock.now();
    const call = streamedCall({ deadline: now + ANSWER_TIME, bodyDeadline: now + BODY_TIME, ...overrides });
    const answer = opened.upstream.stream(call);
    // Those that a test looks at only later must not end it.
    answer.catch(() => undefined);
    return answer;
  }

  /** Any other call, v1. */
  function call() {
    return opened.upstream.call(acceptCall({ deadline: clock.now() + ANSWER_TIME }));
  }

  return { clock, registries, registry: registries[0]!, stream, call, ...opened };
}

/** A body that begins and does not go on before it is told to. */
function stalledBody(begin: Buffer | string = "{"): Readable {
  const body = new Readable({ read: () => undefined });
  body.push(begin);
  return body;
}

function refusals(answers: readonly PromiseSettledResult<unknown>[]): unknown[] {
  return answers.map((answer) => (answer.status === "rejected" ? (answer.reason as { status: number }).status : 200));
}

/** Some turns of the event loop, in each of which sockets are read. */
async function turns(count = 10): Promise<void> {
  for (let i = 0; i < count; i++) await new Promise((resolve) => setImmediate(resolve));
}

describe("bodies that stall", () => {
  test("are 408 when their time is up, and nothing is said against the node or to the breaker", async () => {
    const { clock, registries, upstream, observer, stream, call } = await open({}, 2);
    const answers = Promise.allSettled(Array.from({ length: 40 }, () => stream({ body: stalledBody() })));
    await expect.poll(() => registries[0]!.calls.open + registries[1]!.calls.open).toBe(16);
    clock.advance(BODY_TIME - 1);
    await turns();
    expect(upstream.status()).toMatchObject({ running: 16 });
    clock.advance(1);
    expect(new Set(refusals(await answers))).toEqual(new Set([408]));
    expect(upstream.status()).toMatchObject({
      state: "up",
      breaker: "closed",
      running: 0,
      queued: 0,
      nodes: [{ inFlight: 0, ejections: 0 }, { inFlight: 0 }],
    });
    expect(observer.events.filter((event) => /breaker|ejected/.test(event))).toEqual([]);
    expect(observer.attempts.every(({ outcome }) => outcome === "cancelled")).toBe(true);
    expect((await call()).status).toBe(200);
  });

  test("have a share of the places and no more", async () => {
    const { upstream, registry, stream, call } = await open({ concurrency: { max: 8, queue: 4 } });
    const bodies = Array.from({ length: 20 }, () => stalledBody());
    for (const body of bodies) void stream({ body });
    await registry.calls.reached(2);
    await turns();
    expect(upstream.status()).toMatchObject({ running: 2, queued: 0 });
    expect((await Promise.all(Array.from({ length: 6 }, call))).map(({ status }) => status)).toEqual(
      Array(6).fill(200),
    );
    // A body that is here needs none of theirs.
    const { body } = await stream({ body: Readable.from([Buffer.from("whole")]) });
    expect(JSON.parse(await text(body))).toMatchObject({ body: "whole" });
    // One of which much is here, but not all, waits until one of theirs is free.
    const half = stalledBody(Buffer.alloc(300_000, "x"));
    const big = stream({ body: half });
    await turns();
    expect(upstream.status().running).toBe(2);
    bodies[0]!.push(null);
    bodies[1]!.push(null);
    await registry.calls.reached(6 + 4);
    half.push(null);
    expect((await big).status).toBe(200);
  });

  test("leave the only place to others", async () => {
    const { clock, registry, stream, call } = await open({ concurrency: { max: 1, queue: 4 } });
    const body = stalledBody();
    const answer = stream({ body });
    await turns();
    expect((await call()).status).toBe(200);
    expect(registry.calls.count("pass_through")).toBe(0);
    body.push("}");
    body.push(null);
    clock.advance(1_000);
    expect(JSON.parse(await text((await answer).body))).toMatchObject({ body: "{}" });
  });

  test("cost no call of rateLimit", async () => {
    const { upstream, registry, stream } = await open({ rateLimit: { requests: 10, per: "1m" } });
    const left = upstream.status().budgetLeft!;
    const bodies = Array.from({ length: 5 }, () => stalledBody());
    const answers = bodies.map((body) => stream({ body }));
    await turns();
    expect(upstream.status().budgetLeft).toBe(left);
    expect(registry.calls.total).toBe(0);
    for (const body of bodies) body.push(null);
    expect((await Promise.all(answers)).map(({ status }) => status)).toEqual(Array(5).fill(200));
    expect(upstream.status().budgetLeft).toBe(left - 5);
  });

  test("are refused at once while the breaker is open, and do not keep it from closing", async () => {
    const { clock, upstream, registry, stream } = await open({ retry: { attempts: 1 } });
    await registry.faults.set({ kind: "status", status: 503 });
    for (let i = 0; i < 10; i++) await buffer((await stream({})).body);
    await expect.poll(() => upstream.status().passThroughBreaker).toBe("open");
    const refused = await Promise.allSettled(Array.from({ length: 3 }, () => stream({ body: stalledBody() })));
    expect(refusals(refused)).toEqual([503, 503, 503]);
    await registry.faults.clear();
    clock.advance(1_000);
    await expect.poll(() => upstream.status().passThroughBreaker).toBe("closed");
    expect((await stream({})).status).toBe(200);
  });

  test("end when their client goes, wherever they were held up", async () => {
    const { upstream, registry, stream } = await open({ concurrency: { max: 4, queue: 4 } });
    const clients = Array.from({ length: 3 }, () => new AbortController());
    const answers = clients.map(({ signal }) => stream({ body: stalledBody(), signal }));
    answers.push(stream({ body: stalledBody(Buffer.alloc(100_000)), signal: clients[0]!.signal }));
    await registry.calls.reached(1);
    await turns();
    for (const client of clients) client.abort();
    expect(refusals(await Promise.allSettled(answers))).toEqual([499, 499, 499, 499]);
    expect(upstream.status()).toMatchObject({ running: 0, queued: 0 });
    const { body } = await stream({ body: Readable.from([Buffer.alloc(100_000, "x")]) });
    expect((await buffer(body)).length).toBeGreaterThan(100_000);
  });

  test("tell nothing when the node has had enough of them", async () => {
    const url = await startImpatientServer((request) => request.socket.destroy());
    const clock = new ManualClock();
    const { upstream } = openUpstream([url], {}, { clock });
    const answers: Promise<unknown>[] = [];
    for (let i = 0; i < 30; i++) {
      answers.push(upstream.stream(streamedCall({ body: stalledBody(), deadline: clock.now() + ANSWER_TIME })));
      await Promise.allSettled(answers);
    }
    expect(new Set(refusals(await Promise.allSettled(answers)))).toEqual(new Set([502]));
    expect(upstream.status()).toMatchObject({ breaker: "closed", running: 0 });
  });
});

/** An HTTP server that tells its admin and does something to other requests as soon as it has their head. */
async function startImpatientServer(
  serve: (request: IncomingMessage, response: ServerResponse) => void,
): Promise<string> {
  const server = createServer((request, response) => {
    if (request.url!.endsWith("/info")) response.end(JSON.stringify({ adminId: ADMIN, supportedApis: {} }));
    else serve(request, response);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

describe("the time for an answer", () => {
  test("counts from when the body is here", async () => {
    const { clock, registry, stream } = await open();
    const body = stalledBody();
    const answer = stream({ body });
    await registry.calls.reached(1);
    clock.advance(ANSWER_TIME + 5_000);
    await turns();
    body.push("}");
    body.push(null);
    expect(JSON.parse(await text((await answer).body))).toMatchObject({ body: "{}" });
  });

  test("speaks against a node that has the whole body and does not answer", async () => {
    const { clock, upstream, registry, stream, observer } = await open();
    await registry.faults.set({ kind: "hang" });
    const bodies = Array.from({ length: 20 }, () => Readable.from([Buffer.from("{}")]));
    const answers = Promise.allSettled(bodies.map((body) => stream({ body })));
    await expect.poll(() => registry.calls.recent.filter(({ body }) => body.length === 2)).toHaveLength(20);
    clock.advance(ANSWER_TIME);
    expect(new Set(refusals(await answers))).toEqual(new Set([504]));
    // It does not tell its info either.
    await expect.poll(() => registry.calls.count("info")).toBe(1);
    clock.advance(5_000);
    await expect.poll(() => upstream.status().passThroughBreaker).toBe("open");
    expect(observer.attempts.every(({ reason }) => reason === "timeout")).toBe(true);
  });

  test("is not the node's that the client took for its body", async () => {
    const { clock, upstream, registry, stream } = await open();
    await registry.faults.set({ kind: "hang" });
    const bodies = Array.from({ length: 16 }, () => stalledBody());
    const answers = Promise.allSettled(bodies.map((body) => stream({ body })));
    await registry.calls.reached(16);
    clock.advance(BODY_TIME - 1);
    for (const body of bodies) body.push(null);
    await turns();
    clock.advance(2);
    await turns();
    expect(upstream.status().running).toBe(16);
    clock.advance(ANSWER_TIME);
    expect(new Set(refusals(await answers))).toEqual(new Set([504]));
  });
});

describe("answers", () => {
  /** The bodies of that many answers of 32 MiB, none of which is read. */
  async function openUnread({ registries, stream }: Awaited<ReturnType<typeof open>>, count: number) {
    for (const { faults } of registries) await faults.set({ kind: "oversize", bytes: 2 ** 25 });
    return Promise.all(Array.from({ length: count }, async () => (await stream({})).body));
  }

  test("that are read slowly end, and nothing is said against the node", async () => {
    const opened = await open({}, 2);
    const { clock, upstream, observer } = opened;
    const bodies = await openUnread(opened, 14);
    await expect.poll(() => bodies.every((body) => body.readableLength >= body.readableHighWaterMark)).toBe(true);
    for (let passed = 0; passed < ANSWER_TIME; passed += 100) {
      await turns(1);
      clock.advance(100);
    }
    await turns();
    const ended = await Promise.allSettled(bodies.map((body) => buffer(body)));
    expect(new Set(refusals(ended))).toEqual(new Set([408]));
    expect(upstream.status()).toMatchObject({ state: "up", running: 0 });
    expect(observer.count("node up")).toBe(0);
  });

  test("that fall silent although they are read speak against the node", async () => {
    const { clock, registries, upstream, stream } = await open({}, 2);
    await registries[0]!.faults.set({ kind: "hang-body", operations: ["pass_through"] });
    for (let i = 0; i < 40 && upstream.status().nodes[0]!.state === "up"; i++) {
      const { body } = await stream({});
      const whole = buffer(body).catch(() => undefined);
      if (registries[0]!.calls.open > 0) clock.advance(ANSWER_TIME);
      await whole;
    }
    expect(upstream.status().nodes[0]).toMatchObject({ ejections: 1 });
  });
});
