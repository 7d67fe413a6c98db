import { once } from "node:events";
import { readFileSync } from "node:fs";
import { createServer, type RequestListener } from "node:http";
import { createSecureServer } from "node:http2";
import type { AddressInfo, Server } from "node:net";
import { join } from "node:path";
import { buffer } from "node:stream/consumers";
import { expect, onTestFinished, test } from "vitest";
import {
  ADMIN,
  ANSWER_KINDS,
  askWhole,
  openUpstream,
  OTHER_ADMIN,
  streamedCall,
} from "../support/upstream-registries.ts";

const pem = (name: string) => readFileSync(join(import.meta.dirname, "../fixtures/tls", `${name}.pem`));

/** A registry that says whose it is, and does the rest as `serve` does. */
async function startNode(protocol: "http/1.1" | "h2", adminNow: () => string, serve: RequestListener): Promise<string> {
  const answer: RequestListener = (request, response) => {
    response.on("error", () => undefined);
    request.socket.on("error", () => undefined);
    if (request.url!.endsWith("/info")) response.end(JSON.stringify({ adminId: adminNow(), supportedApis: {} }));
    else serve(request, response);
  };
  const isPlain = protocol === "http/1.1";
  const sessions: { destroy(): void }[] = [];
  const server = isPlain
    ? createServer(answer)
    : createSecureServer({ cert: pem("server"), key: pem("server-key") }, answer as never).on("session", (session) => {
        session.on("error", () => undefined);
        sessions.push(session);
      });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  onTestFinished(() => {
    if ("closeAllConnections" in server) server.closeAllConnections();
    for (const session of sessions) session.destroy();
    server.close();
  });
  return `${isPlain ? "http" : "https"}://127.0.0.1:${((server as Server).address() as AddressInfo).port}`;
}

// Over HTTP/2 it looked complete, and was stored so; over HTTP/1.1 the request went out again, and its first answer never ended.
test.each(["http/1.1", "h2"] as const)(
  "an answer of %s that is midway when its node turns out to be another registry breaks off",
  async (protocol) => {
    const names: string[] = [];
    let asked = 0;
    const url = await startNode(
      protocol,
      () => names.shift() ?? ADMIN,
      (_request, response) => {
        asked += 1;
        response.setHeader("content-type", "text/plain");
        response.write("half of ");
      },
    );
    const tls = protocol === "h2" ? { tls: { caFile: join(import.meta.dirname, "../fixtures/tls/ca.pem") } } : {};
    const { upstream, upstreams } = openUpstream([url], { admin: ADMIN, ...tls });
    upstreams.start();
    const { body } = await upstream.stream(streamedCall());
    const first = once(body, "data");
    const whole = buffer(body);
    await first;
    names.push(OTHER_ADMIN);
    upstreams.receive(undefined);
    await expect(whole).rejects.toThrow();
    expect(asked).toBe(1);
  },
);

test("an answer that ends with its connection is none where the connection was reset", async () => {
  const isRead = Promise.withResolvers<void>();
  const url = await startNode(
    "http/1.1",
    () => ADMIN,
    ({ socket }) => {
      socket.write("HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\nconnection: close\r\n\r\nhalf of ");
      void isRead.promise.then(() => socket.resetAndDestroy());
    },
  );
  const { upstream } = openUpstream([url], { admin: ADMIN });
  const { body } = await upstream.stream(streamedCall());
  const first = once(body, "data");
  const whole = buffer(body);
  await first;
  isRead.resolve();
  await expect(whole).rejects.toThrow();
});

// Undici asserts that there is none of these.
test.each(["101 Switching Protocols", "099 Early"])("a status line with %s is none of HTTP", async (status) => {
  const url = await startNode(
    "http/1.1",
    () => ADMIN,
    ({ socket }) => void socket.write(`HTTP/1.1 ${status}\r\ncontent-type: text/plain\r\ncontent-length: 0\r\n\r\n`),
  );
  const { upstream } = openUpstream([url], { admin: ADMIN, retry: { attempts: 1 } });
  for (const kind of ANSWER_KINDS) {
    await expect(askWhole(upstream, kind)).rejects.toMatchObject({
      status: 502,
      code: "upstream_invalid",
      proxyError: "http_protocol_error",
    });
  }
});
