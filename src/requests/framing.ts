import type { IncomingMessage, Server } from "node:http";
import { isIPv6, type Socket } from "node:net";
import { GatewayError } from "../errors.ts";
import type { Fields } from "../fields.ts";
import type { ClientConnections } from "../connections/connections.ts";
import { requestIdOf } from "./request-id.ts";
import { errorAnswer } from "./send.ts";

/**
 * Fields of one request, as many as most servers take: one of a few bytes takes some hundred in memory, and requests that
 * never end come on as many connections as there may be.
 */
export const MOST_FIELDS = 100;

/**
 * True for a request without a body and with exactly one good `Host`: nothing in it that two HTTP parsers could read
 * differently.
 */
export function isFramedSafely(request: IncomingMessage): boolean {
  const { headers, rawHeaders, httpVersionMajor } = request;
  if (rawHeaders.length > 2 * MOST_FIELDS) return false;
  return (
    httpVersionMajor === 1 &&
    headers["transfer-encoding"] === undefined &&
    (headers["content-length"] === undefined || headers["content-length"] === "0") &&
    countHosts(rawHeaders) === 1 &&
    isAuthority(headers.host!)
  );
}

/**
 * What Node's parser lets through although parsers disagree about it; undefined for a sound request. The connection
 * of a refused request is closed: what follows on it may be no request.
 *
 * @returns GatewayError 431 for more than {@link MOST_FIELDS} fields, 400 for a version other than HTTP/1.0 and 1.1, a `Host` that is missing, repeated or no host
 * (RFC 9112 §3.2), a transfer coding other than `chunked`, or any in HTTP/1.0 (§6.1)
 */
export function framingProblem(request: IncomingMessage): GatewayError | undefined {
  if (request.rawHeaders.length > 2 * MOST_FIELDS)
    return new GatewayError("headers_too_large", `the request has more than ${MOST_FIELDS} header fields`);
  if (request.httpVersionMajor !== 1)
    return new GatewayError("malformed_request", "the gateway speaks HTTP/1.1 and HTTP/1.0 only");
  const hosts = countHosts(request.rawHeaders);
  if (hosts > 1) return new GatewayError("malformed_request", "the header host is there twice");
  const isHttp10 = request.httpVersionMinor === 0;
  if (hosts === 0 && !isHttp10) return new GatewayError("malformed_request", "the header host is missing");
  const problem = hosts === 1 ? authorityProblem(request) : undefined;
  if (problem !== undefined) return problem;
  const coding = request.headers["transfer-encoding"];
  if (coding === undefined) return undefined;
  if (isHttp10) return new GatewayError("malformed_request", "HTTP/1.0 has no transfer-encoding");
  if (coding.toLowerCase() !== "chunked")
    return new GatewayError("malformed_request", "the only transfer-encoding here is chunked");
  return undefined;
}

function authorityProblem({ headers }: IncomingMessage): GatewayError | undefined {
  if (isAuthority(headers.host!)) return undefined;
  return new GatewayError(
    "malformed_request",
    "the header host must be one host name or IP address, with or without a port",
  );
}

/** True while a body is still to come, so that the connection can't serve another request before it was read. */
export function hasUnreadBody(request: IncomingMessage): boolean {
  return !request.complete && hasBody(request);
}

export function hasBody({ headers }: IncomingMessage): boolean {
  const length = headers["content-length"];
  return headers["transfer-encoding"] !== undefined || (length !== undefined && length !== "0");
}

/** A registered name, which an IPv4 address is too; a comma would make it a list to parsers of fields. */
const NAME_AND_PORT = /^(?:[A-Za-z0-9._~!$&'()*+;=-]|%[0-9A-Fa-f]{2})+(?::[0-9]*)?$/;
const IPV6_AND_PORT = /^\[([0-9A-Fa-f:.]+)\](?::[0-9]*)?$/;

/** Clients of one gateway name it by few names: what was good is good again. */
const known = new Set<string>();
const MOST_KNOWN = 100;
const LONGEST_KNOWN = 255;

/** Whether `text` is a host with or without a port, as `Host` and `http` URLs have it (RFC 9110 §4.2.1, §7.2). */
export function isAuthority(text: string): boolean {
  if (known.has(text)) return true;
  if (!NAME_AND_PORT.test(text)) {
    const address = IPV6_AND_PORT.exec(text)?.[1];
    if (address === undefined || !isIPv6(address)) return false;
  }
  if (known.size === MOST_KNOWN) known.clear();
  if (text.length <= LONGEST_KNOWN) known.add(text);
  return true;
}

function countHosts(rawHeaders: readonly string[]): number {
  let hosts = 0;
  for (let i = 0; i < rawHeaders.length; i += 2) {
    const name = rawHeaders[i]!;
    if (name.length === 4 && name.toLowerCase() === "host") hosts++;
  }
  return hosts;
}

const REASONS: Readonly<Record<number, string>> = {
  400: "Bad Request",
  405: "Method Not Allowed",
  408: "Request Timeout",
  414: "URI Too Long",
  431: "Request Header Fields Too Large",
};

interface ParserErrorOptions {
  /** The longest URL, in bytes. */
  readonly maxUri: number;
  readonly corsFields: () => Fields;
  /** Told of each refusal: there is no request for the log and the metrics. */
  readonly onRefused: (error: GatewayError) => void;
  readonly connections: ClientConnections;
}

/**
 * Answers, in our form, what Node's HTTP parser refuses before there is a request: malformed or too large heads,
 * requests that take too long, and CONNECT. The connection is closed after it: nothing behind a parse error can be
 * trusted; where the client does not close it within a second, it is reset.
 */
export function answerParserErrors(server: Server, options: ParserErrorOptions): void {
  const { maxUri, corsFields, onRefused, connections } = options;

  function refuse(socket: Socket, error: GatewayError): void {
    connections.refuse(socket, () => {
      onRefused(error);
      endSocket(socket, error, corsFields());
    });
  }

  server.on("clientError", (error: NodeJS.ErrnoException & { rawPacket?: Buffer }, socket: Socket) => {
    // RFC 9112 §9.6: what comes behind a request that says `Connection: close` is ignored.
    if (error.code === "HPE_CLOSED_CONNECTION") return;
    const transport = error.code === "ERR_SSL_HTTP_REQUEST" ? connections.transportOf(socket) : undefined;
    // Below what was to become TLS.
    if (transport !== undefined)
      refuse(transport, new GatewayError("malformed_request", "this port speaks HTTPS; use https://"));
    else if (error.code === "ECONNRESET") socket.destroy();
    else refuse(socket, parserError(error, maxUri));
  });
  server.on("connect", (_request: IncomingMessage, socket: Socket) => {
    // From here on nothing else listens, and a reset would end the process.
    socket.on("error", () => socket.destroy());
    refuse(
      socket,
      new GatewayError("method_not_allowed", "the gateway opens no tunnels", { allow: "GET, HEAD, POST, OPTIONS" }),
    );
  });
}

function parserError(error: NodeJS.ErrnoException & { rawPacket?: Buffer }, maxUri: number): GatewayError {
  switch (error.code) {
    case "HPE_HEADER_OVERFLOW": {
      const firstLine = error.rawPacket?.indexOf("\n") ?? 0;
      return firstLine === -1 || firstLine > maxUri
        ? new GatewayError("uri_too_long", "the URL is too long")
        : new GatewayError("headers_too_large", "the request's header fields are too large");
    }
    case "ERR_HTTP_REQUEST_TIMEOUT":
      return new GatewayError("request_timeout", "the request took too long to arrive");
    default:
      return new GatewayError("malformed_request", "the request is not valid HTTP/1.1");
  }
}

function endSocket(socket: Socket, error: GatewayError, corsFields: Fields): void {
  // What the client named it cannot be read.
  const id = requestIdOf(undefined);
  const { status, fields, body } = errorAnswer(error, id);
  const all = [...fields, "x-request-id", id, "x-content-type-options", "nosniff", ...corsFields];
  const lines = [`HTTP/1.1 ${status} ${REASONS[status] ?? "Error"}`, `date: ${new Date().toUTCString()}`];
  for (let i = 0; i < all.length; i += 2) lines.push(`${all[i]!}: ${all[i + 1]!}`);
  lines.push(`content-length: ${body!.length}`, "connection: close", "", "");
  socket.end(Buffer.concat([Buffer.from(lines.join("\r\n"), "latin1"), body!]));
}
