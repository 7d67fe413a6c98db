import type { FastifyReply, FastifyRequest } from "fastify";
import { clientAnswer } from "../cache/answer.ts";
import type { Found } from "../cache/types.ts";
import type { Clock } from "../clock.ts";
import { ERROR_FIELD, errorBody, type GatewayError } from "../errors.ts";
import type { Fields } from "../fields.ts";
import { commonFields, varyOf } from "./answer-fields.ts";

/** How answers leave: those of the cache by one write, all others by Fastify's. */

/**
 * Sends an answer of the cache, or one composed of such: whole, as a 304, or coded gzip. The only place beside Fastify's reply,
 * which costs a hit more than all else.
 *
 * @param further fields of this answer alone
 */
export function sendFound(
  request: FastifyRequest,
  reply: FastifyReply,
  found: Found,
  { clock, further = [] }: { readonly clock: Clock; readonly further?: Fields },
): void {
  const { headers, state, method } = request;
  const { raw } = reply;
  state.outcome = found.outcome;
  reply.hijack();
  if (raw.destroyed) return;
  const answer = clientAnswer(found, headers, clock.now());
  const fields = commonFields(request);
  if (further.length > 0) fields.push(...further);
  let vary: string | undefined;
  for (let i = 0; i < answer.fields.length; i += 2) {
    const [name, value] = [answer.fields[i]!, answer.fields[i + 1]!];
    if (name !== "vary") fields.push(name, value);
    else vary = vary === undefined ? value : `${vary}, ${value}`;
  }
  // One line: of several, some caches in front read only the last.
  const varies = varyOf(request, vary);
  if (varies !== "") fields.push("vary", varies);
  const { body } = answer;
  if (body !== undefined) fields.push("content-length", String(body.length));
  raw.writeHead(answer.status, fields);
  if (body === undefined || method === "HEAD") raw.end();
  else {
    state.bytes = body.length;
    raw.end(body);
  }
}

/** An answer that is no cached one. */
export interface PlainAnswer {
  readonly status: number;
  readonly fields: Fields;
  readonly body: Buffer;
}

/** Sends an answer by Fastify's means; fields that come several times stay apart. */
export function sendAnswer(reply: FastifyReply, { status, fields, body }: PlainAnswer): void {
  reply.code(status);
  for (const [name, values] of Object.entries(recordOf(fields))) reply.header(name, values);
  reply.send(body);
}

/** Fields as Node and Fastify take them. */
export function recordOf(fields: Fields): Record<string, string | string[]> {
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
  request.state.error = error;
  if (error.code === "malformed_request") reply.header("connection", "close");
  sendAnswer(reply, {
    status: error.status,
    fields: errorFields(error),
    body: Buffer.from(errorBody(error, request.id)),
  });
}

/** What an error of ours has besides the fields of every answer. */
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
