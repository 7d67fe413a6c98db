import type { IncomingMessage } from "node:http";
import { GatewayError } from "../errors.ts";

/**
 * True for a request without a body and with exactly one `Host`: nothing in it that two HTTP parsers could read
 * differently.
 */
export function isFramedSafely(request: IncomingMessage): boolean {
  const { headers } = request;
  return (
    request.httpVersionMajor === 1 &&
    headers["transfer-encoding"] === undefined &&
    (headers["content-length"] === undefined || headers["content-length"] === "0") &&
    countHosts(request.rawHeaders) === 1
  );
}

/**
 * Refuses what Node's parser lets through although parsers disagree about it. Whoever refuses a request for this closes
 * its connection: what follows on it may be no request.
 *
 * @throws GatewayError 400 for a version other than HTTP/1.0 and 1.1, a missing or repeated `Host` (RFC 9112 §3.2), a
 * transfer coding other than `chunked`, or any in HTTP/1.0 (§6.1)
 */
export function checkFraming(request: IncomingMessage): void {
  if (request.httpVersionMajor !== 1) throw new GatewayError(400, "the gateway speaks HTTP/1.1 and HTTP/1.0 only");
  const hosts = countHosts(request.rawHeaders);
  if (hosts > 1) throw new GatewayError(400, "the header host is there twice");
  const isHttp10 = request.httpVersionMinor === 0;
  if (hosts === 0 && !isHttp10) throw new GatewayError(400, "the header host is missing");
  const coding = request.headers["transfer-encoding"];
  if (coding === undefined) return;
  if (isHttp10) throw new GatewayError(400, "HTTP/1.0 has no transfer-encoding");
  if (coding.toLowerCase() !== "chunked") throw new GatewayError(400, "the only transfer-encoding here is chunked");
}

/** True while a body is still to come, so that the connection can't serve another request before it was read. */
export function hasUnreadBody({ headers, complete }: IncomingMessage): boolean {
  const length = headers["content-length"];
  return !complete && (headers["transfer-encoding"] !== undefined || (length !== undefined && length !== "0"));
}

function countHosts(rawHeaders: readonly string[]): number {
  let hosts = 0;
  for (let i = 0; i < rawHeaders.length; i += 2) {
    const name = rawHeaders[i]!;
    if (name.length === 4 && name.toLowerCase() === "host") hosts++;
  }
  return hosts;
}
