import type { IncomingMessage, ServerResponse } from "node:http";
import { type Item, serializeList, Token } from "structured-headers";
import type { Config } from "../config/schema.ts";
import { ERROR_FIELD, errorBody, type ErrorCode, type GatewayError } from "../errors.ts";
import type { Fields } from "../fields.ts";
import type { RequestContext } from "./context.ts";
import { HeadText } from "./head-text.ts";

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
  sendUnder(headOf(answer, commonFields), request, response, answer);
}

/** Sends an answer under a head made by {@link headOf}; keeps nothing of it. */
function sendUnder(head: readonly string[], request: IncomingMessage, response: ServerResponse, answer: Answer): void {
  response.writeHead(answer.status, head as string[]);
  sendBody(request, response, answer);
}

function sendBody(request: IncomingMessage, response: ServerResponse, answer: Answer): void {
  const body = bodyOf(answer);
  if (body === undefined || request.method === "HEAD") response.end();
  // As text, a small body goes into one buffer with the head: copying it costs less than writing two.
  else if (body.length < SMALL) response.end(body.toString("latin1"), "latin1");
  else response.end(body);
}

/**
 * Sends an answer that many requests get, under a head made by {@link headFor}: from the second on, the head's text is
 * kept for as long as it is right.
 *
 * @param now wall-clock time
 */
export function sendAgain(
  sent: SentHead,
  { request, response }: Pick<RequestContext, "request" | "response">,
  answer: Answer,
  now: number,
): void {
  const { head } = sent;
  if (sent.text?.writeTo(response, head, now) === true) return sendBody(request, response, answer);
  response.writeHead(answer.status, head);
  if (sent.isRepeated) sent.text = HeadText.of(response, head, varyingOf(sent), now) ?? sent.text;
  sent.isRepeated = true;
  sendBody(request, response, answer);
}

/** How many of the first entries of a head are of one request and not of the next. */
function varyingOf({ standing }: SentHead): number {
  return standing === undefined ? REQUEST_ID + 1 : STANDING + standing.length;
}

/** All fields of an answer. */
function headOf(answer: Answer, commonFields: readonly string[]): string[] {
  const body = bodyOf(answer);
  const head = [...commonFields, ...answer.fields];
  if (commonFields[VARY] === VARY_BY_CLIENT) joinVary(head);
  if (body !== undefined) head.push("content-length", String(body.length));
  return head;
}

/** A head that was sent, and what it was made of besides the request's id. It must not keep a body in memory. */
export interface SentHead {
  /** Those of one answer and no other. */
  readonly fields: Fields;
  readonly cors: Fields;
  readonly head: string[];
  /** Of the client that got it, see {@link STANDING}. */
  standing: Fields | undefined;
  /** See {@link sendAgain}. */
  text: HeadText | undefined;
  isRepeated: boolean;
}

/**
 * The head of an answer in a process that does not drain: the one that was `sent` last, with the id and the standing of
 * this one, as long as nothing else in it has changed. Filling in one of thirty strings costs less than making the list
 * anew.
 */
export function headFor(
  sent: SentHead | undefined,
  answer: Answer,
  context: Pick<RequestContext, "id" | "snapshot" | "request" | "standing">,
): SentHead {
  const cors = context.snapshot.cors.answerFields(context.request.headers.origin);
  const standing = context.standing?.fields;
  if (sent !== undefined && sent.fields === answer.fields && sent.cors === cors && restand(sent, standing)) {
    sent.head[REQUEST_ID] = context.id;
    return sent;
  }
  const head = headOf(answer, commonFieldsOf(context, false));
  return { fields: answer.fields, cors, head, standing, text: undefined, isRepeated: false };
}

/** Writes a client's limits in the place of those of the client before; false where they are other fields. */
function restand(sent: SentHead, standing: Fields | undefined): boolean {
  if (sent.standing === standing) return true;
  if (sent.standing?.length !== standing?.length || standing === undefined) return false;
  sent.standing = standing;
  for (const [i, text] of standing.entries()) sent.head[STANDING + i] = text;
  return true;
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

/** Where among the fields that every answer has, which begin its head, the id's value is. */
const REQUEST_ID = 1;

/** What makes a difference to who asks. A cache in front must not give one client what another one may see. */
const VARY_BY_CLIENT = "X-API-Key, Authorization";

/** Where, in answers that depend on the client, the value of `Vary` is, and where the fields of its standing begin. */
const VARY = 5;
const STANDING = 6;

/** The fields that every answer has: id, `nosniff`, CORS, the client's limits, and `close` while the process drains. */
export function commonFieldsOf(
  { id, snapshot, request, standing }: Pick<RequestContext, "id" | "snapshot" | "request" | "standing">,
  isDraining: boolean,
): string[] {
  const fields = ["x-request-id", id, "x-content-type-options", "nosniff"];
  if (standing !== undefined) fields.push("vary", VARY_BY_CLIENT, ...standing.fields);
  fields.push(...snapshot.cors.answerFields(request.headers.origin));
  if (isDraining) fields.push("connection", "close");
  return fields;
}

/** The answer for an error of the gateway's own. Never to be kept: it says how things are now. */
export function errorAnswer(error: GatewayError): Answer {
  const fields = ["content-type", "application/json", "cache-control", "no-store", ERROR_FIELD, error.code];
  if (error.retryAfter !== undefined) fields.push("retry-after", String(error.retryAfter));
  if (error.status === 401) fields.push("www-authenticate", challengeOf(error.code));
  if (error.allow !== undefined) fields.push("allow", error.allow);
  if (error.proxyError !== undefined && error.status >= 502) fields.push("proxy-status", proxyStatus(error.proxyError));
  return { status: error.status, fields, body: Buffer.from(errorBody(error.message)) };
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

  function isAllowed(origin: string | undefined): origin is string {
    return origin !== undefined && origins.includes(origin);
  }

  return {
    answerFields(origin) {
      if (isOpen || origins.length === 0) return toAnyOrigin;
      if (!isAllowed(origin)) return ["vary", "origin"];
      return ["access-control-allow-origin", origin, "vary", "origin", ...answer];
    },
    preflightFields: (origin) => (isOpen || isAllowed(origin) ? preflight : []),
  };
}
