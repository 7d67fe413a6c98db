import type { IncomingMessage } from "node:http";
import { isIPv6 } from "node:net";
import { TLSSocket } from "node:tls";
import { GatewayError } from "../errors.ts";

/**
 * Fields of one request, as many as most servers take: one of a few bytes takes some hundred in memory, and requests that
 * never end come on as many connections as there may be.
 */
export const MOST_FIELDS = 100;

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

/**
 * Whether what is here of a request's body takes about as much memory as it has bytes. Of what comes in pieces of a byte (chunks,
 * records of TLS, packets) each takes some hundred until somebody reads it.
 */
export function isInOnePiece(request: IncomingMessage): boolean {
  if (!hasBody(request)) return true;
  const { headers, complete, socket } = request;
  return complete && headers["transfer-encoding"] === undefined && !(socket instanceof TLSSocket);
}

/** A registered name, which an IPv4 address is too; a comma would make it a list to parsers of fields. */
const NAME_AND_PORT = /^(?:[A-Za-z0-9._~!$&'()*+;=-]|%[0-9A-Fa-f]{2})+(?::[0-9]*)?$/;
const IPV6_AND_PORT = /^\[([0-9A-Fa-f:.]+)\](?::[0-9]*)?$/;

/** Whether `text` is a host with or without a port, as `Host` and `http` URLs have it (RFC 9110 §4.2.1, §7.2). */
export function isAuthority(text: string): boolean {
  if (NAME_AND_PORT.test(text)) return true;
  const address = IPV6_AND_PORT.exec(text)?.[1];
  return address !== undefined && isIPv6(address);
}

function countHosts(rawHeaders: readonly string[]): number {
  let hosts = 0;
  for (let i = 0; i < rawHeaders.length; i += 2) {
    const name = rawHeaders[i]!;
    if (name.length === 4 && name.toLowerCase() === "host") hosts++;
  }
  return hosts;
}
