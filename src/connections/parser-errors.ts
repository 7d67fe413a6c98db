import type { IncomingMessage, Server } from "node:http";
import type { Socket } from "node:net";
import { GatewayError } from "../errors.ts";
import type { Fields } from "../fields.ts";
import type { ClientConnections } from "./connections.ts";

const REASONS: Readonly<Record<number, string>> = {
  400: "Bad Request",
  405: "Method Not Allowed",
  408: "Request Timeout",
  414: "URI Too Long",
  431: "Request Header Fields Too Large",
};

/** What Node refuses, with the packet that it read last. */
type ParserError = NodeJS.ErrnoException & { readonly rawPacket?: Buffer };

interface ParserErrorOptions {
  /** The longest URL, in bytes. */
  readonly maxUri: number;
  readonly connections: ClientConnections;
  /** Says how a refusal is answered. It is called for each: there is no request for the log and the metrics. */
  readonly answer: (error: GatewayError) => { readonly fields: Fields; readonly body: Buffer };
}

/**
 * Answers, in our form, what Node's HTTP parser refuses before there is a request: malformed or too large heads,
 * requests that take too long, and CONNECT. The connection is closed after it: nothing behind a parse error can be
 * trusted; where the client does not close it within a second, it is reset.
 */
export function answerParserErrors(server: Server, options: ParserErrorOptions): void {
  const { maxUri, connections, answer } = options;

  function refuse(socket: Socket, error: GatewayError): void {
    connections.refuse(socket, () => endSocket(socket, error.status, answer(error)));
  }

  server.on("clientError", (error: ParserError, socket: Socket) => {
    // RFC 9112 §9.6: what comes behind a request that says `Connection: close` is ignored.
    if (error.code === "HPE_CLOSED_CONNECTION") return;
    const transport = error.code === "ERR_SSL_HTTP_REQUEST" ? connections.transportOf(socket) : undefined;
    // Below what was to become TLS.
    if (transport !== undefined)
      refuse(transport, new GatewayError("malformed_request", "this port speaks HTTPS; use https://"));
    else if (error.code === "ECONNRESET") socket.destroy();
    else refuse(socket, parserError(error, socket, maxUri));
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

function parserError(error: ParserError, socket: Socket, maxUri: number): GatewayError {
  switch (error.code) {
    case "HPE_HEADER_OVERFLOW":
      return headTooLarge(error.rawPacket, socket, maxUri);
    case "ERR_HTTP_REQUEST_TIMEOUT":
      return new GatewayError("request_timeout", "the request took too long to arrive");
    default:
      return new GatewayError("malformed_request", "the request is not valid HTTP/1.1");
  }
}

/**
 * What of a head is too large is seen in the packet that was read last, where all of the head is in that: for sure in the
 * first of a connection alone. Records of TLS are packets, too small for such a head.
 */
function headTooLarge(packet: Buffer | undefined, { bytesRead }: Socket, maxUri: number): GatewayError {
  if (packet?.length !== bytesRead)
    return new GatewayError("headers_too_large", "the request's URL and header fields are too large together");
  const firstLine = packet.indexOf("\n");
  return firstLine === -1 || firstLine > maxUri
    ? new GatewayError("uri_too_long", "the URL is too long")
    : new GatewayError("headers_too_large", "the request's header fields are too large");
}

function endSocket(socket: Socket, status: number, { fields, body }: ReturnType<ParserErrorOptions["answer"]>): void {
  const lines = [`HTTP/1.1 ${status} ${REASONS[status] ?? "Error"}`, `date: ${new Date().toUTCString()}`];
  for (let i = 0; i < fields.length; i += 2) lines.push(`${fields[i]!}: ${fields[i + 1]!}`);
  lines.push(`content-length: ${body.length}`, "connection: close", "", "");
  socket.end(Buffer.concat([Buffer.from(lines.join("\r\n"), "latin1"), body]));
}
