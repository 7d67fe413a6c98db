import { randomBytes } from "node:crypto";
import type { IncomingMessage, ServerResponse } from "node:http";
import type { Config } from "../config/schema.ts";
import { ERROR_FIELD, errorBody, type ErrorCode, type ErrorReport, type GatewayError } from "../errors.ts";
import { type Fields, fieldValue, proxyStatus, retryAfter } from "../fields.ts";
import type { RequestContext } from "./context.ts";

/** An answer as it goes to the client, but for the fields that every answer has. */
export interface Answer {
  readonly status: number;
  readonly fields: Fields;
  /** Undefined where there is none (304). */
  readonly body: Buffer | undefined;
}

/** Bytes. Beyond, copying a body costs more than it spares. */
const SMALL = 1024;

/** Sends an answer of ours in one write: the given fields, then those that every answer has. */
export function sendAnswer(
  request: IncomingMessage,
  response: ServerResponse,
  answer: Answer,
  commonFields: readonly string[],
): void {
  const body = bodyOf(answer);
  response.writeHead(answer.status, headOf(answer, body, commonFields));
  if (body === undefined || request.method === "HEAD") response.end();
  // As text, a small body goes into one buffer with the head: copying it costs less than writing two.
  else if (body.length < SMALL) response.end(body.toString("latin1"), "latin1");
  else response.end(body);
}

/** All fields of an answer. */
function headOf(answer: Answer, body: Buffer | undefined, commonFields: readonly string[]): string[] {
  const head = [...commonFields, ...answer.fields];
  if (head[VARY - 1] === "vary") joinVary(head);
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
function bodyOf({ status, body }: Answer): Buffer | undefined {
  return status === 204 ? undefined : body;
}

const SAFE_ID = /^[A-Za-z0-9._:/+=@~-]{1,128}$/;

// One random prefix per process and a counter: unique without asking the kernel for random bytes on every request.
const ID_PREFIX = randomBytes(8).toString("hex");
let ids = 0;

/** The client's `X-Request-Id` when it is at most 128 safe characters and no key, else a new one. */
export function requestIdOf(received: string | string[] | undefined): string {
  // A key that got into the wrong place goes no further.
  if (typeof received === "string" && SAFE_ID.test(received) && !received.includes("rgk_")) return received;
  ids++;
  return `${ID_PREFIX}-${ids.toString(36)}`;
}

/** What makes a difference to who asks. A cache in front must not give one client what another one may see. */
const VARY_BY_CLIENT = "X-API-Key, Authorization";

/** Where the value of `Vary` is among common fields, if there is one: of CORS, which has it first, where there is no other. */
const VARY = 5;

/** A URL without a registry means that of the admin header: a cache in front must not give one registry's answer for another's. */
function varyOf({ snapshot, request, limitState }: Addressed): string {
  const { prefix } = snapshot.addressing;
  const isNamed = request.url!.startsWith(prefix) && request.url![prefix.length] === "/";
  const byAdmin = isNamed ? "" : snapshot.config.routing.adminHeader;
  if (limitState === undefined) return byAdmin;
  return byAdmin === "" ? VARY_BY_CLIENT : `${VARY_BY_CLIENT}, ${byAdmin}`;
}

type Addressed = Pick<RequestContext, "snapshot" | "request" | "limitState">;

/** The fields that every answer has: id, `nosniff`, CORS, the client's limits, and `close` while the process drains. */
export function commonFieldsOf(context: Addressed & Pick<RequestContext, "id">, isDraining: boolean): string[] {
  const { id, snapshot, request, limitState } = context;
  const fields = ["x-request-id", id, "x-content-type-options", "nosniff"];
  const vary = varyOf(context);
  if (vary !== "") fields.push("vary", vary);
  if (limitState !== undefined) fields.push(...limitState.fields);
  fields.push(...snapshot.cors.answerFields(request.headers.origin));
  if (vary !== "") joinVary(fields);
  if (isDraining) fields.push("connection", "close");
  return fields;
}

/** The answer for an error of the gateway's own. Never to be kept: it says how things are now. */
export function errorAnswer(error: GatewayError, requestId: string): Answer {
  const fields = ["content-type", "application/json", "cache-control", "no-store", ERROR_FIELD, error.code];
  if (error.retryAfter !== undefined) fields.push("retry-after", String(error.retryAfter));
  if (error.status === 401) fields.push("www-authenticate", challengeOf(error.code));
  if (error.allow !== undefined) fields.push("allow", error.allow);
  if (error.proxyError !== undefined && error.status >= 502)
    fields.push("proxy-status", proxyStatus("error", error.proxyError));
  return { status: error.status, fields, body: Buffer.from(errorBody(error, requestId)) };
}

/** Fields and body for what never became a request: it has no id of its own. */
export function answerUnparsed(
  error: GatewayError,
  corsFields: Fields,
): { readonly fields: Fields; readonly body: Buffer } {
  const id = requestIdOf(undefined);
  const { fields, body } = errorAnswer(error, id);
  return { fields: [...fields, "x-request-id", id, "x-content-type-options", "nosniff", ...corsFields], body: body! };
}

/** Whether an answer that came through the cache, or from a registry, has an error body of ours. */
export function isOwnError({ status, fields }: Pick<Answer, "status" | "fields">): boolean {
  return status >= 400 && fieldValue(fields, ERROR_FIELD) !== undefined;
}

/**
 * A registry's error in our words, which may be kept and given to several requests, as one of them gets it.
 *
 * @param now wall-clock time, in milliseconds since the Unix epoch
 */
export function withRequestId(answer: Answer, requestId: string, now: number): Answer {
  const report = reportOf(answer, now);
  if (report === undefined) return answer;
  const { status, fields } = answer;
  return { status, fields, body: Buffer.from(errorBody(report, requestId)) };
}

/** What an error of ours says that a registry's answer was made into. */
export function reportOf(answer: Answer, now: number): ErrorReport | undefined {
  if (answer.body === undefined || !isOwnError(answer)) return undefined;
  const { error, code } = JSON.parse(answer.body.toString()) as { readonly error: string; readonly code: ErrorCode };
  return { code, message: error.replace(/^registry-gateway: /, ""), retryAfter: retryAfter(answer.fields, now) };
}

/** How to authenticate (RFC 9110 §11.6.1); a request without any credential gets no fault (RFC 6750 §3.1). */
function challengeOf(code: ErrorCode): string {
  const challenge = 'Bearer realm="registry-gateway"';
  return code === "credential_missing" ? challenge : `${challenge}, error="invalid_token"`;
}

/** CORS fields for answers and for preflights. */
export interface Cors {
  /** Fields of an answer to a request with this `Origin` (undefined: none); `vary` first. */
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
    "last-event-id",
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

  const toOthers = ["vary", "origin"];
  const toOrigins = new Map(
    origins.map((origin) => [origin, [...toOthers, "access-control-allow-origin", origin, ...answer]]),
  );

  return {
    answerFields(origin) {
      if (isOpen || origins.length === 0) return toAnyOrigin;
      return (origin === undefined ? undefined : toOrigins.get(origin)) ?? toOthers;
    },
    preflightFields: (origin) => (isOpen || (origin !== undefined && toOrigins.has(origin)) ? preflight : []),
  };
}
