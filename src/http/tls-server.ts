import type { RequestListener, Server, ServerOptions } from "node:http";
import { createServer } from "node:https";
import type { TLSSocket } from "node:tls";
import type { Duration } from "../clock.ts";
import type { HandshakeFailure } from "../observe/metrics/labels.ts";
import type { ListenerCertificate } from "./listener-certificate.ts";

/** From the first byte of a connection to the end of its handshake. */
const HANDSHAKE_TIMEOUT: Duration = 10_000;

export interface TlsServerOptions {
  readonly certificate: ListenerCertificate;
  /** Speaks HTTP/2 on a connection whose client chose it; undefined where it is not offered. */
  readonly serveHttp2: ((socket: TLSSocket) => void) | undefined;
  readonly onHandshakeFailed: (reason: HandshakeFailure) => void;
}

/** What is done with a connection whose handshake is over, before and after Node reads HTTP/1.1 from it. */
export interface SecuredConnection {
  begin(socket: TLSSocket): void;
  beginHttp1(socket: TLSSocket): void;
}

/**
 * An HTTPS server. Its connections are counted from their first byte, as those of any server: what comes out of a
 * handshake is served as HTTP/1.1 by Node's own server, or handed on as HTTP/2.
 */
export function createTlsServer(
  http: ServerOptions,
  answer: RequestListener,
  secured: SecuredConnection,
  { certificate, serveHttp2, onHandshakeFailed }: TlsServerOptions,
): Server {
  const server = createServer(
    {
      ...http,
      ...certificate.context(),
      requestCert: certificate.clientAuth !== "none",
      rejectUnauthorized: certificate.clientAuth === "require",
      ALPNProtocols: serveHttp2 === undefined ? ["http/1.1"] : ["h2", "http/1.1"],
      handshakeTimeout: HANDSHAKE_TIMEOUT,
      // As Node's HTTP server without TLS: the end of what a client sends is not the end of what it reads.
      allowHalfOpen: true,
    },
    answer,
  );
  const [serveHttp1] = server.listeners("secureConnection") as [(socket: TLSSocket) => void];
  server.removeAllListeners("secureConnection").on("secureConnection", (socket) => {
    secured.begin(socket);
    if (socket.alpnProtocol === "h2" && serveHttp2 !== undefined) {
      serveHttp2(socket);
      return;
    }
    serveHttp1.call(server, socket);
    secured.beginHttp1(socket);
  });
  // Node would take these for errors of the HTTP parser.
  server.removeAllListeners("tlsClientError").on("tlsClientError", (error: NodeJS.ErrnoException, socket) => {
    const reason = failureOf(error);
    onHandshakeFailed(reason);
    if (reason !== "http") socket.destroy();
  });
  certificate.follow(server);
  return server;
}

function failureOf({ code = "" }: NodeJS.ErrnoException): HandshakeFailure {
  if (code === "ERR_SSL_HTTP_REQUEST") return "http";
  if (code === "ERR_TLS_HANDSHAKE_TIMEOUT") return "timeout";
  // Node closes connections whose client showed a bad certificate as if the client had gone.
  return code === "ERR_SSL_PEER_DID_NOT_RETURN_A_CERTIFICATE" ? "certificate" : "other";
}
