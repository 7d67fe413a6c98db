import type { RequestListener, Server, ServerOptions } from "node:http";
import { createServer } from "node:https";
import type { Duration } from "../clock.ts";
import type { ListenerCertificate } from "./listener-certificate.ts";

/** From the first byte of a connection to the end of its handshake. */
const HANDSHAKE_TIMEOUT: Duration = 10_000;

/** Why no connection came out of a TLS handshake: `http`, the client does not know that it is to speak TLS. */
export type HandshakeFailure = "certificate" | "http" | "timeout" | "other";

export interface TlsServerOptions {
  readonly certificate: ListenerCertificate;
  readonly onHandshakeFailed: (reason: HandshakeFailure) => void;
}

/**
 * An HTTPS server. Its connections are counted from their first byte, as those of any server. Node refuses clients that
 * offer other protocols than HTTP/1.1 alone (ALPN).
 */
export function createTlsServer(
  http: ServerOptions,
  answer: RequestListener,
  { certificate, onHandshakeFailed }: TlsServerOptions,
): Server {
  const server = createServer(
    {
      ...http,
      ...certificate.context(),
      requestCert: certificate.clientAuth !== "none",
      rejectUnauthorized: certificate.clientAuth === "require",
      ALPNProtocols: ["http/1.1"],
      handshakeTimeout: HANDSHAKE_TIMEOUT,
    },
    answer,
  );
  // Node gives the same to `clientError`, where the connection is closed.
  server.on("tlsClientError", (error: NodeJS.ErrnoException) => onHandshakeFailed(failureOf(error)));
  certificate.follow(server);
  return server;
}

function failureOf({ code = "" }: NodeJS.ErrnoException): HandshakeFailure {
  if (code === "ERR_SSL_HTTP_REQUEST") return "http";
  if (code === "ERR_TLS_HANDSHAKE_TIMEOUT") return "timeout";
  // Node closes connections whose client showed a bad certificate as if the client had gone.
  return code === "ERR_SSL_PEER_DID_NOT_RETURN_A_CERTIFICATE" ? "certificate" : "other";
}
