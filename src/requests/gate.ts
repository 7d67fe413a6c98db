import type { IncomingMessage } from "node:http";
import type { FastifyReply, FastifyRequest } from "fastify";
import type { Client } from "../clients/client.ts";
import { GatewayError } from "../errors.ts";
import { type AnswerParts, hold } from "./context.ts";

/** Who may come in: framing first, then who calls, then how much. All of it is synchronous, but for a token never seen. */

type Done = (error?: Error) => void;

/** A registered name, which an IPv4 address is too; a comma would make it a list to parsers of fields. */
const HOST = /^(?:(?:[A-Za-z0-9._~!$&'()*+;=-]|%[0-9A-Fa-f]{2})+|\[[0-9A-Fa-f:.]+\])(?::[0-9]*)?$/;

/**
 * Finds what Node's parser lets through although parsers disagree about it; undefined: nothing. The connection of a
 * refused one is closed: what follows on it may be no request.
 *
 * @returns a 400 for a version other than HTTP/1.0 and 1.1, a `Host` that is missing, repeated or no host (RFC 9112 §3.2), a
 * transfer coding other than `chunked`, or any in HTTP/1.0 (§6.1), an expectation other than `100-continue`
 */
export function framingProblem(request: IncomingMessage): GatewayError | undefined {
  const { headers, rawHeaders, httpVersionMajor, httpVersionMinor } = request;
  if (httpVersionMajor !== 1) return malformed("the gateway speaks HTTP/1.1 and HTTP/1.0 alone");
  const isHttp10 = httpVersionMinor === 0;
  const { host } = headers;
  if (host === undefined && !isHttp10) return malformed("the header host is missing");
  if (host !== undefined && !HOST.test(host)) {
    return malformed("the header host must be one host name or IP address, with or without a port");
  }
  if (isTwice(rawHeaders, "host")) return malformed("the header host is there twice");
  const { expect } = headers;
  if (expect !== undefined && expect.toLowerCase() !== "100-continue") {
    return malformed("the only expectation that the gateway meets is 100-continue");
  }
  const coding = headers["transfer-encoding"];
  if (coding === undefined) return undefined;
  if (isHttp10) return malformed("HTTP/1.0 has no transfer-encoding");
  return coding.toLowerCase() === "chunked" ? undefined : malformed("the only transfer-encoding here is chunked");
}

function isTwice(rawHeaders: readonly string[], name: string): boolean {
  let count = 0;
  for (let i = 0; i < rawHeaders.length; i += 2) {
    if (rawHeaders[i]!.length === name.length && rawHeaders[i]!.toLowerCase() === name) count += 1;
  }
  return count > 1;
}

function malformed(text: string): GatewayError {
  return new GatewayError("malformed_request", `${text}; mend the client, or the proxy in front of the gateway`);
}

/** `onRequest`: who calls, and whether that client may call now. @throws GatewayError 401, 429, 503 */
export function admitClient(request: FastifyRequest, reply: FastifyReply, done: Done): void {
  const { clients } = request.state.snapshot;
  if (clients === undefined) return done();
  const client = clients.identify(request.raw.rawHeaders, request.ip);
  if (!(client instanceof Promise)) return done(admit(request, client));
  client.then(
    (known) => {
      // A client that left while its token was checked holds nothing any more.
      if (!reply.raw.destroyed) done(admit(request, known));
    },
    (error: Error) => done(error),
  );
}

function admit({ state }: FastifyRequest, client: Client): GatewayError | undefined {
  state.client = client;
  state.limit = state.snapshot.clients?.admit(client);
  return state.limit?.refusal;
}

/**
 * Lets in what costs more than a hit: it is shed while the event loop is late, and has a place among the client's calls.
 *
 * @throws GatewayError 503, 429
 */
export function enter({ state }: FastifyRequest, { isOverloaded }: Pick<AnswerParts, "isOverloaded">): void {
  if (isOverloaded()) {
    throw new GatewayError("overloaded", "the gateway has too much to do just now; try again in 2 s", {
      retryAfter: 2,
    });
  }
  const { client, snapshot } = state;
  if (client !== undefined && snapshot.clients !== undefined) hold(state, snapshot.clients.enter(client));
}

/** Characters of a content type: over more spaces the expressions would take long. */
const LONGEST_TYPE = 200;

/** @throws GatewayError 415 for a body that is coded: an admin in it could not be compared */
export function checkCoding({ headers }: FastifyRequest): void {
  const coding = headers["content-encoding"];
  if (coding === undefined || coding.toLowerCase() === "identity") return;
  throw new GatewayError("unsupported_media_type", "the body has a content coding; send it without Content-Encoding");
}

/**
 * @param length of the body, as far as it is known
 * @throws GatewayError 415 for a body that is not JSON by its type; one that is empty needs none
 */
export function checkJson(request: FastifyRequest, length: number): void {
  checkCoding(request);
  const type = request.headers["content-type"];
  if (type === undefined ? length === 0 : isJson(type)) return;
  const text = "the body is not JSON by its type; send it with Content-Type: application/json, in UTF-8";
  throw new GatewayError("unsupported_media_type", text);
}

/** JSON in UTF-8, by its type alone; what other parameters say changes nothing (RFC 8259 §11). */
function isJson(type: string): boolean {
  if (type.length > LONGEST_TYPE) return false;
  const [name = "", ...parameters] = type.toLowerCase().split(";");
  const isUtf8 = (parameter: string): boolean => /^charset\s*=\s*"?utf-?8"?$/.test(parameter);
  return (
    name.trim() === "application/json" &&
    parameters.map((each) => each.trim()).every((each) => !each.startsWith("charset") || isUtf8(each))
  );
}
