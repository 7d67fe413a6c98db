import { createHash, randomBytes } from "node:crypto";
import { Readable } from "node:stream";
import { buffer, text } from "node:stream/consumers";
import { brotliCompressSync, constants, gzipSync, zstdCompressSync } from "node:zlib";
import { describe, expect, test } from "vitest";
import { fieldValue } from "../../src/fields.ts";
import { BOMBS, BROKEN_CODINGS } from "../support/broken-codings.ts";
import { acceptCall, inTime, openUpstream, startRegistry, streamedCall } from "../support/upstream-registries.ts";

/** Of what faults befall: not the info, which is asked over each connection that comes in the place of a broken one. */
const operations = ["pass_through"] as const;

const digest = (bytes: Buffer) => createHash("sha256").update(bytes).digest("hex");

async function open(keys: Record<string, unknown> = {}, limits = { requestBody: 2 ** 20, responseBody: 2 ** 20 }) {
  const registry = await startRegistry();
  const opened = openUpstream([registry], keys, { limits });
  await opened.upstream.learnAdmin(inTime(5_000));
  registry.calls.clear();
  return { registry, ...opened };
}

describe("a streamed call", () => {
  test("passes both bodies and the status untouched", async () => {
    const { registry, upstream } = await open();
    const sent = randomBytes(500_000);
    const answered = randomBytes(700_000);
    registry.script(() => ({ status: 418, headers: ["Content-Type", "a/b", "Server", "x"], body: answered }));
    const body = Readable.from([sent.subarray(0, 1_000), sent.subarray(1_000)]);
    const answer = await upstream.stream(streamedCall({ fields: ["content-type", "c/d"], body }));
    expect(answer.status).toBe(418);
    expect(fieldValue(answer.fields, "content-type")).toBe("a/b");
    expect(fieldValue(answer.fields, "server")).toBeUndefined();
    expect(digest(await buffer(answer.body))).toBe(digest(answered));
    expect(digest(registry.calls.last!.body)).toBe(digest(sent));
    expect(registry.calls.last!.headers["content-type"]).toBe("c/d");
    expect(upstream.status()).toMatchObject({ running: 0, nodes: [{ inFlight: 0 }] });
  });

  test("keeps a length that is known", async () => {
    const { registry, upstream } = await open();
    const fields = ["content-length", "5"];
    const answer = await upstream.stream(streamedCall({ fields, body: Readable.from([Buffer.from("hello")]) }));
    answer.body.resume();
    expect(registry.calls.last!.headers).toMatchObject({ "content-length": "5" });
    expect(registry.calls.last!.headers).not.toHaveProperty("transfer-encoding");
  });

  test("begins before the answer is complete", async () => {
    const { registry, upstream } = await open();
    let finish = (): void => undefined;
    const rest = new Promise<void>((resolve) => (finish = resolve));
    registry.script(() => ({
      status: 200,
      body: (async function* () {
        yield Buffer.from("first ");
        await rest;
        yield Buffer.from("second");
      })(),
    }));
    const answer = await upstream.stream(streamedCall());
    const chunks = answer.body[Symbol.asyncIterator]();
    expect(String((await chunks.next()).value)).toBe("first ");
    finish();
    expect(String((await chunks.next()).value)).toBe("second");
    expect((await chunks.next()).done).toBe(true);
  });

  test("is decoded", async () => {
    const { registry, upstream } = await open();
    registry.script(() => ({ status: 200, headers: ["Content-Encoding", "gzip"], body: gzipSync("x".repeat(1_000)) }));
    const answer = await upstream.stream(streamedCall());
    expect(fieldValue(answer.fields, "content-encoding")).toBeUndefined();
    expect(await text(answer.body)).toBe("x".repeat(1_000));
  });

  test.each(BROKEN_CODINGS)("that is answered with %s is 502", async (_what, coding, bytes) => {
    const { registry, upstream } = await open();
    registry.script(() => ({ status: 200, headers: ["Content-Encoding", coding], body: bytes }));
    await expect(upstream.stream(streamedCall())).rejects.toMatchObject({
      status: 502,
      proxyError: "http_response_content_coding",
    });
    await expect.poll(() => registry.calls.open).toBe(0);
    expect(upstream.status()).toMatchObject({ running: 0, nodes: [{ inFlight: 0 }] });
  });

  test.each(BOMBS)("that is answered with %s is 502", async (_what, coding, bytes) => {
    const { registry, upstream } = await open();
    registry.script(() => ({ status: 200, headers: ["Content-Encoding", coding], body: bytes }));
    await expect(upstream.stream(streamedCall())).rejects.toMatchObject({
      status: 502,
      proxyError: "http_response_body_size",
    });
    expect(upstream.status()).toMatchObject({ running: 0, nodes: [{ inFlight: 0 }] });
  });

  test("that is answered with more than 64 KiB that end otherwise than their coding does is 502", async () => {
    const { registry, upstream } = await open();
    const bytes = gzipSync(randomBytes(300_000));
    bytes.fill(0, bytes.length - 8);
    registry.script(() => ({ status: 200, headers: ["Content-Encoding", "gzip"], body: bytes }));
    await expect(upstream.stream(streamedCall())).rejects.toMatchObject({
      status: 502,
      proxyError: "http_response_content_coding",
    });
    expect(upstream.status()).toMatchObject({ running: 0, nodes: [{ inFlight: 0 }] });
  });

  test("whose coded answer grows too large, stalls, breaks off or is not waited for ends as any other", async () => {
    const { registry, upstream } = await open();
    const answerWith = (rest: () => AsyncIterable<Buffer>) =>
      registry.script(() => ({ status: 200, headers: ["Content-Encoding", "gzip"], body: rest() }));
    answerWith(async function* () {
      for (;;) yield randomBytes(64 * 1024);
    });
    await expect(upstream.stream(streamedCall())).rejects.toMatchObject({ proxyError: "http_response_body_size" });
    answerWith(async function* () {
      yield gzipSync("x").subarray(0, 5);
      await new Promise(() => undefined);
    });
    await expect(upstream.stream(streamedCall({ deadline: inTime(200) }))).rejects.toMatchObject({ status: 504 });
    const controller = new AbortController();
    const left = upstream.stream(streamedCall({ signal: controller.signal }));
    await registry.calls.reached(3);
    controller.abort();
    await expect(left).rejects.toMatchObject({ code: "client_gone" });
    answerWith(async function* () {
      yield gzipSync("x").subarray(0, 5);
      throw new Error("the node breaks off");
    });
    await expect(upstream.stream(streamedCall())).rejects.toMatchObject({ status: 502 });
    await expect.poll(() => registry.calls.open).toBe(0);
    expect(upstream.status()).toMatchObject({ running: 0, nodes: [{ inFlight: 0 }] });
  });

  const FAST = { params: { [constants.BROTLI_PARAM_QUALITY]: 1 } };

  test("that is answered with 64 KiB whose coding ends well after them is passed on whole", async () => {
    const { registry, upstream } = await open();
    for (const size of [1, 64 * 1024 - 1, 64 * 1024, 64 * 1024 + 1, 900_000]) {
      const bytes = randomBytes(size);
      for (const [coding, coded] of [
        ["gzip", gzipSync(bytes)],
        ["zstd", zstdCompressSync(bytes)],
        ["br, gzip", gzipSync(brotliCompressSync(bytes, FAST))],
      ] as const) {
        registry.script(() => ({ status: 200, headers: ["Content-Encoding", coding], body: coded }));
        const answer = await upstream.stream(streamedCall());
        expect(digest(await buffer(answer.body))).toBe(digest(bytes));
      }
    }
    await expect.poll(() => upstream.status()).toMatchObject({ running: 0, nodes: [{ inFlight: 0 }] });
  });

  test.each([301, 307])("that is redirected (%i) is 502", async (status) => {
    const { registry, upstream } = await open();
    registry.script(() => ({ status, headers: ["Location", "/x"] }));
    await expect(upstream.stream(streamedCall())).rejects.toMatchObject({ status: 502 });
    expect(upstream.status()).toMatchObject({ running: 0 });
  });

  test("that is refused with our credentials is 502", async () => {
    const { registry, upstream } = await open({ auth: { bearerToken: "s" } });
    registry.script(() => ({ status: 403 }));
    await expect(upstream.stream(streamedCall())).rejects.toMatchObject({ status: 502 });
  });

  test("is not tried again", async () => {
    const { registry, upstream } = await open();
    await registry.faults.set({ kind: "reset" });
    await expect(upstream.stream(streamedCall())).rejects.toMatchObject({
      status: 502,
      proxyError: "connection_terminated",
    });
    expect(registry.calls.total).toBe(1);
  });

  test("whose answer is announced too large is 502; one that grows too large breaks", async () => {
    const { registry, upstream } = await open();
    await registry.faults.set({ kind: "oversize", bytes: 2 ** 22, announced: true, operations });
    await expect(upstream.stream(streamedCall())).rejects.toMatchObject({ proxyError: "http_response_body_size" });
    await registry.faults.set({ kind: "oversize", bytes: 2 ** 22, operations });
    const answer = await upstream.stream(streamedCall());
    await expect(buffer(answer.body)).rejects.toMatchObject({ proxyError: "http_response_body_size" });
    await expect.poll(() => registry.calls.open).toBe(0);
    expect(upstream.status()).toMatchObject({ running: 0, nodes: [{ inFlight: 0 }] });
  });

  test("whose request grows too large is 413, and says nothing of the node or of what it was shown", async () => {
    const { registry, upstream, observer } = await open();
    observer.attempts.length = 0;
    const body = Readable.from(Array.from({ length: 30 }, () => Buffer.alloc(100_000)));
    await expect(upstream.stream(streamedCall({ body }))).rejects.toMatchObject({ status: 413 });
    await expect(upstream.stream(streamedCall({ body: Buffer.alloc(2 ** 20 + 1) }))).rejects.toMatchObject({
      status: 413,
    });
    expect(observer.attempts.map(({ outcome }) => outcome)).toEqual(["cancelled"]);
    await expect.poll(() => registry.calls.open).toBe(0);
    expect(upstream.status()).toMatchObject({ running: 0, nodes: [{ inFlight: 0 }] });
  });

  test("that breaks off breaks", async () => {
    const { registry, upstream } = await open();
    await registry.faults.set({ kind: "truncate" });
    const answer = await upstream.stream(streamedCall());
    await expect(buffer(answer.body)).rejects.toThrow();
    expect(upstream.status()).toMatchObject({ running: 0 });
  });

  test("ends at its deadline, before its head or within its body", async () => {
    const { registry, upstream } = await open();
    await registry.faults.set({ kind: "hang", operations });
    await expect(upstream.stream(streamedCall({ deadline: inTime(100) }))).rejects.toMatchObject({ status: 504 });
    await registry.faults.set({ kind: "hang-body", operations });
    const answer = await upstream.stream(streamedCall({ deadline: inTime(1_500) }));
    await expect(buffer(answer.body)).rejects.toMatchObject({ status: 504 });
    await expect.poll(() => registry.calls.open).toBe(0);
    expect(upstream.status()).toMatchObject({ running: 0, nodes: [{ inFlight: 0 }] });
  });

  test("ends when its client goes away, before its head or within its body", async () => {
    const { registry, upstream } = await open();
    for (const kind of ["hang", "hang-body"] as const) {
      await registry.faults.set({ kind, operations });
      const controller = new AbortController();
      const answer = upstream.stream(streamedCall({ signal: controller.signal }));
      if (kind === "hang") {
        setImmediate(() => controller.abort());
        await expect(answer).rejects.toMatchObject({ code: "client_gone" });
      } else {
        const { body } = await answer;
        controller.abort();
        await expect(buffer(body)).rejects.toMatchObject({ code: "client_gone" });
      }
      await expect.poll(() => registry.calls.open).toBe(0);
    }
    expect(upstream.status()).toMatchObject({ running: 0, nodes: [{ inFlight: 0 }] });
  });

  test("ends when whoever reads it stops reading", async () => {
    const { registry, upstream } = await open();
    await registry.faults.set({ kind: "hang-body" });
    const { body } = await upstream.stream(streamedCall());
    body.on("error", () => undefined).destroy();
    await expect.poll(() => registry.calls.open).toBe(0);
    expect(upstream.status()).toMatchObject({ running: 0, nodes: [{ inFlight: 0 }] });
  });

  test("does not destroy the client's stream when the node refuses", async () => {
    const { registry, upstream } = await open();
    await registry.kill();
    const body = new Readable({ read: () => undefined });
    body.push("x");
    await expect(upstream.stream(streamedCall({ body }))).rejects.toMatchObject({ status: 502 });
    expect(body.destroyed).toBe(false);
  });

  test("slows the node down when it is read slowly", async () => {
    const { registry, upstream } = await open({}, { requestBody: 2 ** 20, responseBody: 2 ** 26 });
    await registry.faults.set({ kind: "oversize", bytes: 2 ** 24 });
    const { body } = await upstream.stream(streamedCall());
    body.read(0);
    await expect.poll(() => body.readableLength >= body.readableHighWaterMark).toBe(true);
    // Most of the body is still with the registry: it cannot have finished.
    expect(registry.calls.open).toBe(1);
    let size = 0;
    for await (const chunk of body) size += (chunk as Buffer).length;
    expect(size).toBe(2 ** 24);
  });

  test("takes a place like other calls and gives it back", async () => {
    const { registry, upstream } = await open({ concurrency: { max: 1, queue: 5 } });
    await registry.faults.set({ kind: "hang-body", times: 1 });
    const { body } = await upstream.stream(streamedCall());
    const waiting = upstream.call(acceptCall());
    await new Promise((resolve) => setImmediate(resolve));
    expect(upstream.status()).toMatchObject({ running: 1, queued: 1 });
    body.on("error", () => undefined).destroy();
    expect((await waiting).status).toBe(200);
  });
});
