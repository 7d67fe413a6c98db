import { X509Certificate } from "node:crypto";
import { type IncomingMessage, type Server as HttpServer, type ServerResponse, STATUS_CODES } from "node:http";
import type { Server as HttpsServer } from "node:https";
import type { Socket } from "node:net";
import type { Duplex } from "node:stream";
import type { FastifyHttpOptions, FastifyHttpsOptions, FastifyInstance } from "fastify";
import type { Clock } from "../clock.ts";
import type { LoadedConfig } from "../config/loaded.ts";
import type { Config } from "../config/schema.ts";
import { errorBody, GatewayError } from "../errors.ts";
import { corsFields } from "./answer-fields.ts";
import { requestIdOf } from "./context.ts";
import { errorFields } from "./reply.ts";

/** The server below Fastify: sockets, TLS, and what becomes no request. */

/** Milliseconds from the first byte of a connection to the end of its handshake. */
const HANDSHAKE_TIMEOUT = 10_000;
/** Milliseconds that a refused connection is read, for its client to see why. */
const LINGER = 1_000;
/** Milliseconds between two looks of Node for requests that take too long. */
const CHECK_EVERY = 1_000;

type ServerOptions = Pick<
  FastifyHttpOptions<HttpServer>,
  "http" | "keepAliveTimeout" | "requestTimeout" | "trustProxy"
> &
  Pick<FastifyHttpsOptions<HttpsServer>, "https">;

/** Fastify's options that speak of connections. */
export function serverOptions(loaded: LoadedConfig): ServerOptions {
  const { keepAliveTimeout, requestTimeout, trustedProxies, tls } = loaded.config.listen;
  const http = {
    keepAliveTimeout,
    requestTimeout,
    connectionsCheckingInterval: CHECK_EVERY,
    // A missing Host is refused in our form.
    requireHostHeader: false,
    // Clients that offer h2c with every request, as the JDK's, are answered as if they had not.
    shouldUpgradeCallback: () => false,
    noDelay: true,
    optimizeEmptyRequests: true,
  };
  const common = { keepAliveTimeout, requestTimeout, trustProxy: trustedProxies.length > 0 && [...trustedProxies] };
  if (tls === undefined) return { ...common, http, https: null };
  const alpn = { ALPNProtocols: ["http/1.1"], handshakeTimeout: HANDSHAKE_TIMEOUT };
  return { ...common, https: { ...http, ...secureContext(loaded), ...alpn } };
}

function secureContext({ config, texts }: LoadedConfig) {
  const { certFile, keyFile } = config.listen.tls!;
  return { cert: texts.get(certFile)!, key: texts.get(keyFile)!, minVersion: "TLSv1.2" as const };
}

/**
 * Shows the certificate of a new configuration to connections from now on.
 *
 * @returns why the one before stays, for the log; undefined: it does not, or there is none
 */
export function renewCertificate(server: HttpServer, loaded: LoadedConfig, clock: Clock): string | undefined {
  if (loaded.config.listen.tls === undefined || !("setSecureContext" in server)) return undefined;
  const context = secureContext(loaded);
  const { validToDate } = new X509Certificate(context.cert);
  if (validToDate.getTime() <= clock.wallNow()) {
    return `the listener's certificate ended on ${validToDate.toISOString()}; the one before stays in use`;
  }
  (server as HttpsServer).setSecureContext(context);
  return undefined;
}

/** Bytes of a URL that leave hardly anything to the other fields of a head. */
const LONG_URL = 8 * 1_024;

type ParserError = NodeJS.ErrnoException & { readonly rawPacket?: Buffer };

function refusalOf({ code, rawPacket }: ParserError): GatewayError {
  if (code === "ERR_HTTP_REQUEST_TIMEOUT") {
    return new GatewayError("request_timeout", "the request took too long to arrive; send it again");
  }
  if (code !== "HPE_HEADER_OVERFLOW") {
    return new GatewayError(
      "malformed_request",
      "the request is not valid HTTP/1.1; mend the client, or the proxy in front",
    );
  }
  const firstLine = rawPacket?.indexOf("\n") ?? 0;
  return firstLine === -1 || firstLine > LONG_URL
    ? new GatewayError("uri_too_long", "the URL is too long; send a shorter one")
    : new GatewayError(
        "headers_too_large",
        "the header fields of the request are too large; send fewer or shorter ones",
      );
}

/** The answer that was begun last on each connection, and the one before it where that has not left yet. */
const lastAnswers = new WeakMap<Socket, readonly [last: ServerResponse, before: ServerResponse | undefined]>();
/** Connections that end with a refusal. */
const refused = new WeakSet<Socket>();

/** Remembers what has to leave before the refusal of what may come behind it. */
export function noteAnswer(response: ServerResponse): void {
  const { socket } = response.req;
  const earlier = lastAnswers.get(socket)?.[0];
  lastAnswers.set(socket, [response, earlier?.closed === false ? earlier : undefined]);
}

/** Parts that answer what never became a request. */
export interface Refusing {
  readonly config: () => Config;
  readonly clock: Clock;
  /** Told of each. */
  readonly onRefused: (refusal: GatewayError, address: string) => void;
}

/**
 * Answers, in our form, what Node's parser refuses before there is a request, and closes the connection: nothing behind it can
 * be trusted. The answers to the requests before it go first; where it is the body of one that waits, it is that one's answer.
 */
export function refuseUnparsed(error: ParserError, socket: Socket, refusing: Refusing): void {
  if (error.code === "ECONNRESET" || !socket.writable) socket.destroy();
  else refuse(socket, refusalOf(error), refusing);
}

/** Sets what Fastify has no option for: bounds of the server, odd expectations, CONNECT. */
export function prepareServer(app: FastifyInstance, { config }: LoadedConfig, refusing: Refusing): void {
  const { server } = app;
  server.maxConnections = config.listen.maxConnections;
  // Their bytes are bounded; beyond a number Node leaves the others out without a word.
  server.maxHeadersCount = 0;
  // An expectation that is not 100-continue is refused with the rest of bad framing.
  server.on("checkExpectation", (request, response) => app.routing(request, response));
  const text = "the gateway opens no tunnels; send a request to it";
  server.on("connect", (_request: IncomingMessage, tunnel: Duplex) => {
    const socket = tunnel as Socket;
    socket.on("error", () => socket.destroy());
    refuse(socket, new GatewayError("method_not_allowed", text, { allow: "GET, HEAD, POST, OPTIONS" }), refusing);
  });
}

function refuse(socket: Socket, refusal: GatewayError, { config, clock, onRefused }: Refusing): void {
  if (refused.has(socket)) return;
  refused.add(socket);
  const end = (isAnswered: boolean): void => {
    if (isAnswered) onRefused(refusal, socket.remoteAddress ?? "");
    socket.end(isAnswered ? refusalBytes(refusal, config()) : "");
    clock.after(LINGER, () => socket.destroy());
  };
  const [last, earlier] = lastAnswers.get(socket) ?? [];
  // Of a request whose body the refused bytes are, and which has no answer yet, the refusal is the answer.
  const isAnswer = last !== undefined && !last.req.complete && !last.headersSent;
  const before = isAnswer ? earlier : last;
  if (before === undefined || before.closed) end(true);
  // Behind an answer to a request whose body they are, nothing is said any more.
  else before.once("close", () => end(isAnswer || before.req.complete));
}

function refusalBytes(refusal: GatewayError, config: Config): Buffer {
  const id = requestIdOf({ headers: {} });
  const body = Buffer.from(errorBody(refusal, id));
  const fields = [...errorFields(refusal), "x-request-id", id, "x-content-type-options", "nosniff"];
  fields.push(...corsFields(config, undefined), "content-length", String(body.length), "connection", "close");
  const lines = [`HTTP/1.1 ${refusal.status} ${STATUS_CODES[refusal.status]}`, `date: ${new Date().toUTCString()}`];
  for (let i = 0; i < fields.length; i += 2) lines.push(`${fields[i]}: ${fields[i + 1]}`);
  return Buffer.concat([Buffer.from(`${lines.join("\r\n")}\r\n\r\n`, "latin1"), body]);
}
