import { once } from "node:events";
import type { IncomingMessage, RequestListener, ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { ClientConnections } from "../../src/http/connections.ts";
import { framingProblem } from "../../src/http/framing.ts";
import { Http2Sessions } from "../../src/http/http2-sessions.ts";
import { ListenerCertificate } from "../../src/http/listener-certificate.ts";
import type { ClosingReason } from "../../src/observe/metrics/labels.ts";
import { ManualClock } from "./manual-clock.ts";
import { pemFile } from "./sample.ts";

export interface Http2Listener {
  readonly url: string;
  readonly clock: ManualClock;
  readonly connections: ClientConnections;
  /** Why connections were closed. */
  readonly closed: readonly ClosingReason[];
  close(): Promise<void>;
}

export interface Http2ListenerOptions {
  readonly answer: (request: IncomingMessage, response: ServerResponse) => void;
  readonly isDraining?: () => boolean;
}

/** A listener as the gateway's public one, with HTTP/2 by ALPN, in front of `answer` alone. Its clock is moved by hand. */
export async function startHttp2Listener({ answer, isDraining }: Http2ListenerOptions): Promise<Http2Listener> {
  const clock = new ManualClock();
  const closed: ClosingReason[] = [];
  const connections = new ClientConnections({ clock, max: 1_000, onClosed: (reason) => closed.push(reason) });
  const pass: RequestListener = (request, response) => {
    const problem = framingProblem(request);
    if (problem === undefined) answer(request, response);
    else response.writeHead(problem.status, ["connection", "close"]).end(String(problem.status));
  };
  const sessions = new Http2Sessions({
    clock,
    connections,
    answer: pass,
    refuseExpectation: (_request, response) => response.writeHead(417).end("417"),
    maxHeaderSize: 24 * 1024,
    headersTimeout: 15_000,
    keepAliveTimeout: 72_000,
    requestTimeout: 30_000,
    isDraining: isDraining ?? (() => false),
  });
  const tls = {
    certFile: pemFile("server"),
    keyFile: pemFile("server-key"),
    clientAuth: "none" as const,
    http2: true,
  };
  const server = connections.createServer({}, pass, {
    certificate: new ListenerCertificate({ tls, clock, onLook: () => undefined, onReplaced: () => undefined }),
    serveHttp2: (socket) => sessions.serve(socket),
    onHandshakeFailed: () => undefined,
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return {
    url: `https://127.0.0.1:${(server.address() as AddressInfo).port}`,
    clock,
    connections,
    closed,
    close: async () => {
      connections.closeAll();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}
