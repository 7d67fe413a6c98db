import type { IncomingMessage, ServerResponse } from "node:http";
import { type Item, serializeList, Token } from "structured-headers";
import type { Config } from "../config/schema.ts";
import type { Lasting } from "../cache/resource.ts";
import { ERROR_FIELD, errorBody, type ErrorCode, type GatewayError } from "../errors.ts";
import type { Fields } from "../fields.ts";
import type { RequestContext } from "./context.ts";
import type { RequestHead } from "./repeated-head.ts";

/** An answer as it goes to the client, but for the fields that every answer has. */
export interface Answer {
  readonly status: number;
  readonly fields: Fields;
  /** Undefined where there is none (304). */
  readonly body: Buffer | undefined;
}

/** Bytes. Beyond, copying a body costs more than it spares. */
const SMALL = 1024;

/** An answer that many requests get. */
export interface KeptAnswer extends Answer {
  /** The same object for as long as these fields, status and body are the same. */
  readonly lasting: Lasting;
  /** The fields after these. The same array for as long as they are the same. */
  readonly passing: Fields;
}

/** Sends an answer of ours in one write: the given fields, then those that every answer has. */
export function sendAnswer(
  request: IncomingMessage,
  response: ServerResponse,
  answer: Answer,
  commonFields: readonly string[],
): void {
  response.writeHead(answer.status, headOf(answer, commonFields));
  sendBody(request, response, answer);
}

/** Sends what follows the head. */
export function sendBody(request: IncomingMessage, response: ServerResponse, answer: Answer): void {
  const body = bodyOf(answer);
  if (body === undefined || request.method === "HEAD") response.end();
  // As text, a small body goes into one buffer with the head: copying it costs less than writing two.
  else if (body.length < SMALL) response.end(body.toString("latin1"), "latin1");
  else response.end(body);
}

/** Writes an answer to a request that Node's parser has not seen, under this head. */
export function writeAnswer({ method, socket }: RequestHead, head: string, answer: Answer): void {
  const body = method === "HEAD" ? undefined : bodyOf(answer);
  if (body === undefined) socket.write(head, "latin1");
  else if (body.length < SMALL) socket.write(head + body.toString("latin1"), "latin1");
  else {
    socket.cork();
    socket.write(head, "latin1");
    socket.write(body);
    socket.uncork();
  }
}

/** All fields of an answer. */
export function headOf(answer: Answer, commonFields: readonly string[]): string[] {
  const body = bodyOf(answer);
  const head = [...commonFields, ...answer.fields];
  if (commonFields[VARY] === VARY_BY_CLIENT) joinVary(head);
  if (body !== undefined) head.push("content-length", String(body.length));
  return head;
}

/** One line: of several, some caches in front read only the last. */
function joinVary(head: string[]): void {
  for (let i = VARY + 1; i < head.length;) {
    if (head[i] !== "vary") i += 2;
    else head[VARY] += `, ${head.splice(i, 2)[1]}`;
  }
}

/** RFC 9110 §8.6: a 204 has no content-length, nor a body. */
export function bodyOf({ status, body }: Answer): Buffer | undefined {
  return status === 204 ? undefined : body;
}

/** Where among the fields that every answer has, which begin its head, the id's value is. */
export const REQUEST_ID = 1;

/** What makes a difference to who asks. A cache in front must not give one client what another one may see. */
const VARY_BY_CLIENT = "X-API-Key, Authorization";

/** Where, in answers that depend on the client, the value of `Vary` is, and where the fields of its standing begin. */
const VARY = 5;
export const STANDING = 6;

/** The fields that every answer has: id, `nosniff`, CORS, the client's limits, and `close` while the process drains. */
export function commonFieldsOf(
  {
    id,
    snapshot,
    request,
    standing,
  }: Pick<RequestContext, "id" | "snapshot" | "standing"> & { readonly request: Pick<RequestHead, "headers"> },
  isDraining: boolean,
): string[] {
  const fields = ["x-request-id", id, "x-content-type-options", "nosniff"];
  if (standing !== undefined) fields.push("vary", VARY_BY_CLIENT, ...standing.fields);
  fields.push(...snapshot.cors.answerFields(request.headers.origin));
  if (isDraining) fields.push("connection", "close");
  return fields;
}

/** The answer for an error of the gateway's own. Never to be kept: it says how things are now. */
export function errorAnswer(error: GatewayError): KeptAnswer {
  const fields = ["content-type", "application/json", "cache-control", "no-store", ERROR_FIELD, error.code];
  if (error.retryAfter !== undefined) fields.push("retry-after", String(error.retryAfter));
  if (error.status === 401) fields.push("www-authenticate", challengeOf(error.code));
  if (error.allow !== undefined) fields.push("allow", error.allow);
  if (error.proxyError !== undefined && error.status >= 502) fields.push("proxy-status", proxyStatus(error.proxyError));
  const body = Buffer.from(errorBody(error.message));
  return { status: error.status, fields, lasting: { fields }, passing: [], body };
}

/** How to authenticate (RFC 9110 §11.6.1); a request without any credential is told no fault (RFC 6750 §3.1). */
function challengeOf(code: ErrorCode): string {
  const challenge = 'Bearer realm="registry-gateway"';
  return code === "credential_missing" ? challenge : `${challenge}, error="invalid_token"`;
}

/** `Proxy-Status: registry-gateway; error=…` (RFC 9209 §2.1, §2.3). */
function proxyStatus(error: string): string {
  const member: Item = [new Token("registry-gateway"), new Map([["error", new Token(error)]])];
  return serializeList([member]);
}

/** CORS fields for answers and for preflights. */
export interface Cors {
  /** Fields of an answer to a request with this `Origin` (undefined: none). */
  answerFields(origin: string | undefined): Fields;
  /** What the answer to a preflight has besides: what the browser may send. */
  preflightFields(origin: string | undefined): Fields;
}

/** What a browser shows to a page beyond the few fields that it always shows. */
const EXPOSED = [
  "age",
  "etag",
  "cache-status",
  "proxy-status",
  "retry-after",
  "ratelimit",
  "ratelimit-policy",
  "registry-gateway-error",
  "x-request-id",
  "x-registry-partial",
].join(", ");
const METHODS = "GET, HEAD, POST, OPTIONS";
const MAX_AGE = "7200";

/**
 * CORS as browser wallets need it: on every answer, errors too. Credentials are never allowed: cookies mean nothing
 * here, and a bearer token is an ordinary header.
 *
 * @param cors `cors`: origin `*` allows every origin; `allowHeaders` come besides what the gateway understands
 */
export function createCors({ origins, allowHeaders }: Config["cors"], adminHeader: string): Cors {
  const allowedHeaders = new Set([
    "authorization",
    "x-api-key",
    "if-none-match",
    "cache-control",
    "x-requested-with",
    "content-type",
    adminHeader,
    "x-request-id",
    "traceparent",
    "request-timeout",
    ...allowHeaders,
  ]);
  const preflight = [
    "access-control-allow-methods",
    METHODS,
    "access-control-allow-headers",
    [...allowedHeaders].join(", "),
    "access-control-max-age",
    MAX_AGE,
  ];
  const answer = ["access-control-expose-headers", EXPOSED];

  const isOpen = origins.includes("*");
  const toAnyOrigin = isOpen ? ["access-control-allow-origin", "*", ...answer] : [];

  // The same array each time: heads that are kept are told apart by it.
  const toOthers = ["vary", "origin"];
  const toOrigins = new Map(
    origins.map((origin) => [origin, ["access-control-allow-origin", origin, ...toOthers, ...answer]]),
  );

  return {
    answerFields(origin) {
      if (isOpen || origins.length === 0) return toAnyOrigin;
      return (origin === undefined ? undefined : toOrigins.get(origin)) ?? toOthers;
    },
    preflightFields: (origin) => (isOpen || (origin !== undefined && toOrigins.has(origin)) ? preflight : []),
  };
}
