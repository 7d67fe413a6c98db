import { readFileSync } from "node:fs";
import { describe, expect, test } from "vitest";
import { GatewayError } from "../../src/errors.ts";
import type { Fault } from "../../src/sandbox/faults.ts";
import { measureLoopTime } from "../support/loop-time.ts";
import {
  acceptCall,
  ANSWER_KINDS,
  askWhole,
  inTime,
  listCall,
  openUpstream,
  startRegistry,
  streamedCall,
} from "../support/upstream-registries.ts";
import { startRawServer } from "../support/raw-server.ts";
import { findFreePort } from "../support/ports.ts";

const fixtures = new URL("../fixtures/tls/", import.meta.url);
const pem = (name: string) => readFileSync(new URL(`${name}.pem`, fixtures), "utf8");
const pemPath = (name: string) => new URL(`${name}.pem`, fixtures).pathname;

/** The error of a call to a registry with this fault, which shows on everything but its info. */
async function failWith(
  kind: (typeof ANSWER_KINDS)[number],
  fault: Fault,
  keys: Record<string, unknown> = {},
): Promise<GatewayError> {
  const registry = await startRegistry();
  const { upstream } = openUpstream([registry], { retry: { attempts: fault.kind === "refuse" ? 3 : 1 }, ...keys });
  await upstream.learnAdmin(inTime(5_000));
  await registry.faults.set(fault);
  const error: unknown = await askWhole(upstream, kind).catch((reason: unknown) => reason);
  if (!(error instanceof GatewayError)) throw new Error("the call did not fail", { cause: error });
  return error;
}

test("a registry that refuses connections, tried again, becomes an error that names no address", async () => {
  const error = await failWith("buffered", { kind: "refuse" });
  expect(error).toMatchObject({ status: 502, proxyError: "connection_refused" });
  expect(error.message).toMatch(/"amulet" refused the connection/);
  expect(error.message).not.toMatch(/127\.0\.0\.1|localhost|ECONN/);
});

describe.each(ANSWER_KINDS)(
  "a fault of the connection of a %s call becomes an error that names no address:",
  (kind) => {
    test.each<[string, Fault, number, string, RegExp]>([
      ["reset", { kind: "reset" }, 502, "connection_terminated", /"amulet" closed the connection/],
      ["cut by length", { kind: "truncate" }, 502, "http_response_incomplete", /broke off its answer/],
      [
        "cut chunked",
        { kind: "truncate", framing: "chunked" },
        502,
        "http_response_incomplete",
        /broke off its answer/,
      ],
      ["garbage", { kind: "garbage" }, 502, "http_protocol_error", /not HTTP/],
      ["oversize", { kind: "oversize", bytes: 2 ** 20 + 1 }, 502, "http_response_body_size", /more than the 1MiB/],
      [
        "oversize announced",
        { kind: "oversize", bytes: 2 ** 24, announced: true },
        502,
        "http_response_body_size",
        /more than the 1MiB/,
      ],
    ])("%s", async (_what, fault, status, proxyError, text) => {
      const error = await failWith(kind, fault);
      expect(error).toMatchObject({ status, proxyError });
      expect(error.message).toMatch(text);
      expect(error.message).not.toMatch(/127\.0\.0\.1|localhost|ECONN/);
    });

    test.each<[string, Fault]>([
      ["a hanging registry", { kind: "hang" }],
      ["a hanging body", { kind: "hang-body" }],
    ])("%s is 504 when the time is up", async (_what, fault) => {
      const error = await failWith(kind, fault, { timeout: "1s", attemptTimeout: "1s" });
      expect(error).toMatchObject({ status: 504, proxyError: "http_response_timeout" });
    });

    test("a body of exactly the limit passes", async () => {
      const registry = await startRegistry();
      const { upstream } = openUpstream([registry]);
      await upstream.learnAdmin(inTime(5_000));
      await registry.faults.set({ kind: "oversize", bytes: 2 ** 20 });
      expect((await askWhole(upstream, kind)).body).toHaveLength(2 ** 20);
    });

    test("a name that does not resolve", async () => {
      const { upstream } = openUpstream(["http://registry.invalid"], { timeout: "10s" });
      await expect(askWhole(upstream, kind)).rejects.toMatchObject({ status: 502, proxyError: "dns_error" });
    });

    test("too many headers", async () => {
      const registry = await startRegistry();
      const { upstream } = openUpstream([registry], { retry: { attempts: 1 } });
      await upstream.learnAdmin(inTime(5_000));
      registry.script(() => ({ status: 200, headers: ["X-Big", "x".repeat(40_000)], body: "{}" }));
      await expect(askWhole(upstream, kind)).rejects.toMatchObject({
        status: 502,
        proxyError: "http_response_header_section_size",
      });
    });

    test("two answers that disagree about the length are no HTTP", async () => {
      const registry = await startRegistry();
      const { upstream } = openUpstream([registry], { retry: { attempts: 1 } });
      await upstream.learnAdmin(inTime(5_000));
      registry.script(() => ({ raw: "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\n{}" }));
      await expect(askWhole(upstream, kind)).rejects.toMatchObject({ status: 502, proxyError: "http_protocol_error" });
    });
  },
);

describe("TLS is verified:", () => {
  const server = (name: string) => ({ cert: pem(name), key: pem(`${name}-key`) });

  test("a certificate of a configured authority is trusted", async () => {
    const registry = await startRegistry({ tls: server("server") });
    const { upstream } = openUpstream([registry], { tls: { caFile: pemPath("ca") } });
    expect((await upstream.call(listCall())).status).toBe(200);
  });

  test.each<[string, string, Record<string, unknown>]>([
    ["of an authority that is not configured", "server", {}],
    ["of another authority than configured", "server", { tls: { caFile: pemPath("other-ca") } }],
    ["for another name", "other-name", { tls: { caFile: pemPath("ca") } }],
  ])("a certificate %s is not", async (_what, name, keys) => {
    const registry = await startRegistry({ tls: server(name) });
    const { upstream } = openUpstream([registry], keys);
    await expect(upstream.call(listCall())).rejects.toMatchObject({ status: 502, proxyError: "tls_certificate_error" });
    expect(registry.calls.total).toBe(0);
  });

  test("a server without TLS fails the handshake", async () => {
    const plain = await startRawServer((socket) => socket.end("HTTP/1.1 400 Bad Request\r\n\r\n"));
    const { upstream } = openUpstream([`https://127.0.0.1:${plain.port}`], { retry: { attempts: 1 } });
    await expect(upstream.call(listCall())).rejects.toMatchObject({ status: 502, proxyError: "tls_protocol_error" });
  });
});

test.each(ANSWER_KINDS)("a deadline of a %s call that passed already is 504 without a request", async (kind) => {
  const registry = await startRegistry();
  const { upstream } = openUpstream([registry]);
  await expect(askWhole(upstream, kind, { deadline: inTime(-1) })).rejects.toMatchObject({ status: 504 });
  expect(registry.calls.total).toBe(0);
});

describe("a deadline holds", () => {
  test("while the connection is being made, and nothing of it is left open", async () => {
    // Accepts and never shakes hands.
    const silent = await startRawServer(() => undefined);
    const { upstream } = openUpstream([`https://127.0.0.1:${silent.port}`]);
    const took = measureLoopTime();
    await expect(upstream.call(listCall({ deadline: inTime(100) }))).rejects.toMatchObject({ status: 504 });
    expect(took()).toBeLessThan(5_000);
    await upstream.close();
    await expect.poll(() => silent.sockets.size).toBe(0);
  });

  test("while a place is waited for, while the answer is waited for, while the body comes", async () => {
    const registry = await startRegistry();
    const { upstream } = openUpstream([registry], { concurrency: { max: 2 } });
    await upstream.learnAdmin(inTime(5_000));
    await registry.faults.set({ kind: "hang", times: 1 }, { kind: "hang-body", times: 3 });
    const took = measureLoopTime();
    const calls = Array.from({ length: 4 }, () => upstream.call(acceptCall({ deadline: inTime(150) })));
    const outcomes = await Promise.allSettled(calls);
    expect(took()).toBeLessThan(5_000);
    expect(outcomes.map((outcome) => outcome.status)).toEqual(["rejected", "rejected", "rejected", "rejected"]);
    await expect.poll(() => registry.calls.open).toBe(0);
    expect(upstream.status()).toMatchObject({ running: 0, queued: 0, nodes: [{ inFlight: 0 }] });
  });
});

describe("a client that goes away ends its upstream call", () => {
  test("whether it has begun or not", async () => {
    const registry = await startRegistry();
    const { upstream } = openUpstream([registry], { concurrency: { max: 1 } });
    await upstream.learnAdmin(inTime(5_000));
    registry.calls.clear();
    await registry.faults.set({ kind: "hang" });
    const controllers = Array.from({ length: 3 }, () => new AbortController());
    const calls = controllers.map(({ signal }) => upstream.call(acceptCall({ signal })));
    await registry.calls.reached(1);
    for (const controller of controllers) controller.abort();
    for (const call of calls) await expect(call).rejects.toMatchObject({ code: "client_gone" });
    await expect.poll(() => registry.calls.open).toBe(0);
    expect(registry.calls.total).toBe(1);
    await expect(upstream.call(acceptCall({ signal: AbortSignal.abort() }))).rejects.toMatchObject({
      code: "client_gone",
    });
  });

  test("2000 aborted calls leave sockets, places and connections where they were", async () => {
    const registry = await startRegistry();
    const { upstream } = openUpstream([registry], { concurrency: { max: 50, queue: 5_000 } });
    await upstream.learnAdmin(inTime(5_000));
    registry.script(() => new Promise(() => undefined));
    for (let round = 0; round < 20; round++) {
      const controller = new AbortController();
      const calls = Array.from({ length: 100 }, (_, i) =>
        i % 10 === 0
          ? upstream.stream(streamedCall({ signal: controller.signal }))
          : upstream.call(acceptCall({ signal: controller.signal })),
      );
      if (round % 2 === 0) await new Promise((resolve) => setImmediate(resolve));
      controller.abort();
      await Promise.allSettled(calls);
    }
    registry.script(undefined);
    expect((await upstream.call(acceptCall())).status).toBe(200);
    expect(upstream.status()).toMatchObject({ running: 0, queued: 0, nodes: [{ inFlight: 0 }] });
    // The one that was used last and one that stands by.
    await expect.poll(() => registry.connections.open).toBeLessThanOrEqual(2);
    await upstream.close();
    await expect.poll(() => registry.connections.open).toBe(0);
  });
});

test("a connection that the registry closed while it was idle is no error", async () => {
  const registry = await startRegistry();
  const { upstream } = openUpstream([registry]);
  await upstream.call(listCall());
  for (let i = 0; i < 5; i++) {
    await registry.kill();
    await registry.revive();
    expect((await upstream.call(acceptCall())).status).toBe(200);
  }
});

test("a node that cannot be reached after it was proved is refused without its address", async () => {
  const port = await findFreePort();
  const { upstream } = openUpstream([`http://127.0.0.1:${port}`]);
  await expect(upstream.call(listCall())).rejects.toMatchObject({
    status: 502,
    proxyError: "connection_refused",
    message: expect.not.stringContaining(String(port)),
  });
});
