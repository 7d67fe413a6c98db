import { gzipSync } from "node:zlib";
import { describe, expect, test } from "vitest";
import { TestClock } from "../support/clock.ts";
import { DRAFT } from "../support/endpoints.ts";
import { startRawServer } from "../support/raw.ts";
import { partyOf, startRegistry } from "../support/registry.ts";
import { until } from "../support/until.ts";
import { useUpstreams } from "../support/upstream.ts";

const AMULET = partyOf("amulet");

test("a call carries what it says, our own fields and credentials, and nothing else", async () => {
  const registry = await startRegistry("amulet", { basePath: "/base" });
  const gateway = useUpstreams([registry.upstream({ auth: { bearer: "a-token-of-ours" } })]);
  const body = Buffer.from('{"choiceArguments": {"a": 1.0}}');
  const { text, report, answer } = await gateway.call("transfer_factory", {
    fields: ["content-type", "application/json", "x-request-id", "7"],
    body,
  });
  expect(text).toBe("200");
  expect(report).toMatchObject({ attempts: 1, node: 0 });
  expect(answer?.json).toMatchObject({ factoryId: "factory of amulet" });
  expect(registry.last.body.equals(body)).toBe(true);
  const names = registry.last.rawHeaders.filter((_text, at) => at % 2 === 0);
  expect(names).toEqual([
    "host",
    "connection",
    "accept",
    "accept-encoding",
    "content-type",
    "x-request-id",
    "authorization",
    "content-length",
  ]);
  expect(registry.last.headers).toMatchObject({
    accept: "application/json",
    "accept-encoding": "identity",
    authorization: "Bearer a-token-of-ours",
  });
  expect((await gateway.call(DRAFT)).text).toBe("200");
  expect(registry.last.headers).toMatchObject({ accept: "application/json" });
});

describe("what a registry answers", () => {
  const CASES = [
    {
      name: "an answer in gzip although identity was asked",
      script: { fields: ["content-encoding", "gzip", "etag", '"a"'], body: gzipSync('{"a":1}') },
      text: "200",
      body: '{"a":1}',
    },
    {
      name: "a coding that nobody knows",
      script: { fields: ["content-encoding", "zip"], body: "xx" },
      text: "502 upstream_invalid",
    },
    { name: "a byte order mark", script: { body: '\ufeff{"a":1}' }, text: "200", body: '\ufeff{"a":1}' },
    { name: "a context in snake_case", script: { body: { choice_context_data: {} } }, text: "200" },
    { name: "more than limits.responseBody", script: { body: "x".repeat(5_000) }, text: "502 upstream_too_large" },
    {
      name: "no length and no end",
      script: { fields: ["transfer-encoding", "chunked"], body: "x".repeat(5_000) },
      text: "502 upstream_too_large",
    },
    { name: "a reset", script: "reset" as const, text: "502 upstream_reset" },
    { name: "no HTTP", script: { raw: "SSH-2.0-x\r\n" }, text: "502 upstream_invalid" },
    {
      name: "half an answer",
      script: { raw: "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{}" },
      text: "502 upstream_reset",
    },
    {
      name: "100 that nobody asked for",
      script: { raw: "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}" },
      text: "502 upstream_reset",
    },
    {
      name: "103 that nobody asked for",
      script: {
        raw: `${"HTTP/1.1 103 Early Hints\r\nLink: a\r\n\r\n".repeat(20)}HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}`,
      },
      text: "200",
    },
    {
      name: "interim answers without end",
      script: { raw: "HTTP/1.1 103 Early Hints\r\n\r\n".repeat(21) },
      text: "502 upstream_invalid",
    },
    { name: "too many header fields", script: { fields: ["x", "y".repeat(40_000)] }, text: "502 upstream_too_large" },
    { name: "its own error", script: { status: 400, body: { error: "no" } }, text: "400", body: '{"error":"no"}' },
    {
      name: "a redirect",
      script: { status: 307, fields: ["location", "http://127.0.0.1/"] },
      text: "502 upstream_invalid",
    },
  ];

  test.each(CASES)("$name: $text", async ({ script, text, body }) => {
    const registry = await startRegistry();
    const gateway = useUpstreams([registry], { keys: { limits: { responseBody: "4KiB" } } });
    registry.on("*", script);
    const outcome = await gateway.call("transfer_accept");
    expect(outcome.text).toBe(text);
    if (body !== undefined) expect(outcome.answer?.body.toString()).toBe(body);
    expect(outcome.answer?.fields.includes("content-encoding") ?? false).toBe(false);
    expect(outcome.error?.message ?? "").not.toMatch(/127\.0\.0\.1|localhost|:\d{4}/);
    registry.on("*", undefined);
    expect((await gateway.call("transfer_accept")).text).toBe("200");
  });

  test("an empty line behind each body, in a packet of its own, changes nothing", async () => {
    let accepted = 0;
    const url = await startRawServer((socket) => {
      accepted += 1;
      socket.on("data", (request) => {
        const body = JSON.stringify(request.toString().includes("/info ") ? { adminId: AMULET } : {});
        socket.write(
          `HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: ${body.length}\r\n\r\n${body}`,
        );
        setTimeout(() => socket.write("\r\n"), 5);
      });
    });
    const gateway = useUpstreams([{ name: "amulet", admin: AMULET, urls: [url] }]);
    for (let i = 0; i < 20; i += 1) {
      expect((await gateway.call("transfer_factory")).text).toBe("200");
      await new Promise((resolve) => setTimeout(resolve, 10));
    }
    expect(accepted).toBe(1);
    expect(gateway.count("info success")).toBe(1);
  });
});

describe("retries", () => {
  test("a keep-alive connection that ends as it is used costs a call nothing", async () => {
    const registry = await startRegistry();
    const gateway = useUpstreams([registry]);
    for (let round = 0; round < 5; round += 1) {
      expect((await gateway.call("transfer_factory")).text).toBe("200");
      await registry.close();
      await registry.restart();
    }
  });

  test("a sole node is asked once more over another connection, and passed-through paths are not", async () => {
    const registry = await startRegistry();
    const gateway = useUpstreams([registry]);
    await gateway.call("transfer_factory");
    let calls = 0;
    registry.on("*", () => ((calls += 1) % 2 === 1 ? "reset" : undefined));
    const { text, report } = await gateway.call("transfer_factory");
    expect([text, report.attempts]).toEqual(["200", 2]);
    expect((await gateway.call(DRAFT)).text).toBe("502 upstream_reset");
    expect(calls).toBe(3);
  });

  test("another node is asked after a failure, each once, with the same bytes", async () => {
    const registry = await startRegistry("amulet", { nodes: 3 });
    const gateway = useUpstreams([registry]);
    await until(() => gateway.count("info success") === 3);
    registry.on("*", (call) => (registry.count() < 3 ? { status: 503, body: "busy" } : { body: { node: call.node } }));
    const { text, report } = await gateway.call("transfer_factory", { body: Buffer.from('{"a":1}') });
    expect([text, report.attempts]).toEqual(["200", 3]);
    expect(new Set(registry.of().map(({ node }) => node)).size).toBe(3);
    expect(registry.of().every(({ body }) => body.toString() === '{"a":1}')).toBe(true);
  });

  test("a 404 is the answer when the other node says so, too, fails, or is not to be had", async () => {
    const registry = await startRegistry("amulet", { nodes: 3 });
    const gateway = useUpstreams([registry]);
    await until(() => gateway.count("info success") === 3);
    for (const other of [{ status: 404, body: { error: "nor here" } }, "reset" as const, { status: 503, body: "x" }]) {
      let calls = 0;
      registry.on("*", () => ((calls += 1) === 1 ? { status: 404, body: { error: "not found" } } : other));
      const { text, answer } = await gateway.call("transfer_accept");
      expect([text, answer?.body.toString(), calls]).toEqual(["404", '{"error":"not found"}', 2]);
    }
  });
});

describe("deadlines and hedges", () => {
  test("two nodes are slow, at defaults with sixteen places: sixteen calls run, and a hedge that is not paid takes nothing", async () => {
    const clock = TestClock.running();
    const registry = await startRegistry("amulet", { nodes: 2 });
    const gateway = useUpstreams([registry.upstream({ concurrency: 16 })], { clock });
    await until(() => gateway.count("info success") === 2);
    const release = registry.hold("*");
    const called = Array.from({ length: 16 }, () => gateway.call("transfer_factory"));
    await registry.reached(16);
    clock.advance("2s");
    await new Promise((resolve) => setTimeout(resolve, 50));
    expect(registry.count()).toBe(16);
    expect(gateway.upstream().status()).toMatchObject({ inFlight: 16, waiting: 0 });
    release();
    for (const { text } of await Promise.all(called)) expect(text).toBe("200");
    expect(gateway.upstream().status()).toMatchObject({ inFlight: 0 });
  });

  test("hedges leave half of the budget to retries", async () => {
    const clock = TestClock.running();
    const registry = await startRegistry("amulet", { nodes: 2 });
    const gateway = useUpstreams([registry], { clock });
    await until(() => gateway.count("info success") === 2);
    const release = registry.hold("*");
    const called = Array.from({ length: 16 }, () => gateway.call("transfer_factory"));
    await registry.reached(16);
    clock.advance("1s");
    await registry.reached(20);
    release();
    await Promise.all(called);
    const hedges = gateway.count("hedge");
    expect(hedges).toBeGreaterThan(3);
    expect(hedges).toBeLessThan(8);
  });
});
