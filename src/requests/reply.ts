import type { FastifyReply, FastifyRequest } from "fastify";
import { clientAnswer } from "../cache/answer.ts";
import type { Found } from "../cache/types.ts";
import type { Clock } from "../clock.ts";
import { ERROR_FIELD, errorBody, type GatewayError } from "../errors.ts";
import type { Fields } from "../fields.ts";
import { commonFields, varyOf } from "./answer-fields.ts";

/** How answers leave: those of registries and errors by one write, pages and what is passed through by Fastify's reply. */

/**
 * Sends an answer of the cache, or one composed of such: whole, as a 304, or coded gzip.
 *
 * @param further fields of this answer alone
 */
export function sendFound(
  request: FastifyRequest,
  reply: FastifyReply,
  found: Found,
  { clock, further = [] }: { readonly clock: Clock; readonly further?: Fields },
): void {
  request.state.outcome = found.outcome;
  const { status, fields, body } = clientAnswer(found, request.headers, clock.now());
  sendWhole(request, reply, { status, fields: further.length === 0 ? fields : [...further, ...fields], body });
}

/** Sends an answer by one write, past Fastify's reply, which costs more than all that is done for a hit. */
export function sendWhole(
  request: FastifyRequest,
  reply: FastifyReply,
  { status, fields, body }: { readonly status: number; readonly fields: Fields; readonly body: Buffer | undefined },
): void {
  const { raw } = reply;
  reply.hijack();
  if (raw.destroyed) return;
  const sent = commonFields(request);
  let vary: string | undefined;
  for (let i = 0; i < fields.length; i += 2) {
    const [name, value] = [fields[i]!, fields[i + 1]!];
    if (name !== "vary") sent.push(name, value);
    else vary = vary === undefined ? value : `${vary}, ${value}`;
  }
  // One line: of several, some caches in front read only the last.
  const varies = varyOf(request, vary);
  if (varies !== "") sent.push("vary", varies);
  // RFC 9110 §8.6.
  if (body !== undefined && status !== 204) sent.push("content-length", String(body.length));
  raw.writeHead(status, sent);
  if (body === undefined || request.method === "HEAD") raw.end();
  else {
    request.state.bytes = body.length;
    raw.end(body);
  }
}

/** Fields as Node and Fastify take them. */
export function headersOf(fields: Fields): Record<string, string | string[]> {
  // Of no prototype: registries may name a field `constructor`.
  const record = Object.create(null) as Record<string, string | string[]>;
  for (let i = 0; i < fields.length; i += 2) {
    const [name, value] = [fields[i]!, fields[i + 1]!];
    const known = record[name];
    if (known === undefined) record[name] = value;
    else if (typeof known === "string") record[name] = [known, value];
    else known.push(value);
  }
  return record;
}

/** Sends an error of the gateway's own. Nobody is to keep it: it says how things are now. */
export function sendError(request: FastifyRequest, reply: FastifyReply, error: GatewayError): void {
  const { state, id } = request;
  state.error = error;
  const fields = errorFields(error);
  // What is left of a body that was not taken is read and dropped: a connection closed before would take the refusal with it.
  if (error.code === "malformed_request" && !state.listener.isClosing) fields.push("connection", "close");
  sendWhole(request, reply, { status: error.status, fields, body: Buffer.from(errorBody(error, id)) });
}

/** Fields that an error of ours has besides those of every answer. */
export function errorFields({ code, status, retryAfter, allow, proxyError }: GatewayError): string[] {
  const fields = ["content-type", "application/json", "cache-control", "no-store", ERROR_FIELD, code];
  if (retryAfter !== undefined) fields.push("retry-after", String(retryAfter));
  if (allow !== undefined) fields.push("allow", allow);
  // A request without a credential gets no fault (RFC 6750 §3.1).
  const fault = code === "credential_missing" ? "" : ', error="invalid_token"';
  if (status === 401) fields.push("www-authenticate", `Bearer realm="registry-gateway"${fault}`);
  if (proxyError !== undefined && status >= 502) fields.push("proxy-status", `registry-gateway;error=${proxyError}`);
  return fields;
}
