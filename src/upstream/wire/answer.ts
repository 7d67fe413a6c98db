import { STATUS_CODES } from "node:http";
import type { AnswerContent } from "../../bodies/answer.ts";
import type { CollectFault } from "../../bodies/collected-body.ts";
import type { Instant } from "../../clock.ts";
import type { UpstreamConfig } from "../../config/schema.ts";
import { ERROR_FIELD, type ErrorCode, GatewayError } from "../../errors.ts";
import {
  endToEndFields,
  type Fields,
  fieldsOfDecodedBody,
  fieldsOfReplacedBody,
  fieldValue,
  isHeadTooLarge,
  retryAfter,
} from "../../fields.ts";
import type { UpstreamAnswer } from "../call.ts";
import {
  type Failure,
  type FailureReason,
  tooCostly,
  tooLarge,
  tooLargeHead,
  undecodable,
  unusable,
} from "../failure.ts";
import { contentCodings, decodeBody, DecodedTooLarge } from "./content-coding.ts";
import { isHtml, readErrorText } from "./error-text.ts";
import { withOwnMembers } from "./member-fields.ts";

/** A complete answer as it came from the wire. */
export interface RawAnswer {
  readonly status: number;
  readonly fields: Fields;
  readonly body: Buffer;
  readonly requestedAt: Instant;
  readonly receivedAt: Instant;
}

/** Of an answer whose body is not taken. */
export function refusedAnswer(
  fault: CollectFault,
  { upstream, maxBody }: { upstream: string; maxBody: number },
): Failure {
  return fault === "too-large" ? tooLarge(upstream, maxBody) : tooCostly(upstream);
}

/** What is made of an answer from the wire. */
export interface Reading<Answer = UpstreamAnswer> {
  /** Undefined when the answer is none a client could be given, or is streamed to it already. */
  readonly answer: Answer | undefined;
  /** Why another node would be worth asking, or why there is no answer. */
  readonly failure: Failure | undefined;
  /** The body of an error as it came, which `answer` may say in our own words. */
  readonly original?: Buffer | undefined;
}

/**
 * Whether a 401 or 403 to a request with these fields is about the gateway: it showed its own credentials, or its client
 * certificate. Where a client's Authorization went along, it is about the client.
 */
export function isOwnRefusal({ auth, tls, forwardAuthorization }: UpstreamConfig, clientFields: Fields): boolean {
  if (auth === undefined && tls?.certFile === undefined) return false;
  return !(forwardAuthorization !== false && fieldValue(clientFields, "authorization") !== undefined);
}

/** What has to be known to read an answer. */
export interface ReadingContext {
  readonly upstream: string;
  readonly node: number;
  readonly maxBody: number;
  /** The request carried a condition, so that 304 is an answer. */
  readonly isConditional: boolean;
  /** A 401 or 403 is about credentials of the gateway's. */
  readonly isOwnRefusal: boolean;
  /** A registry need not have the endpoint: clients learn by its 404, whatever the body, that it has not. */
  readonly isOptional: boolean;
}

const BUSY: Readonly<Record<number, FailureReason>> = {
  429: "http-429",
  502: "http-502",
  503: "http-503",
  504: "http-504",
};

const NO_BODY = Buffer.alloc(0);

/**
 * Whether the answer has to be decoded first, by {@link decodeAnswer}. Without a body there is nothing to decode,
 * whatever its fields say: those of a 304 are about the body of another answer (RFC 9110 §15.4.5).
 */
export function isCoded(raw: RawAnswer): boolean {
  return raw.body.length > 0 && raw.fields.includes("content-encoding");
}

/** The answer without its content codings; a failure when that cannot be had. */
export async function decodeAnswer(raw: RawAnswer, context: ReadingContext): Promise<RawAnswer | Failure> {
  const body = await decodeWhole(raw.fields, raw.body, context);
  if (!Buffer.isBuffer(body)) return body;
  return body === raw.body ? raw : { ...raw, fields: fieldsOfDecodedBody(raw.fields), body };
}

/** A whole body without the content codings that `fields` name; a failure when that cannot be had. */
export async function decodeWhole(
  fields: Fields,
  body: Buffer,
  { upstream, maxBody }: { upstream: string; maxBody: number },
): Promise<Buffer | Failure> {
  if (body.length === 0) return body;
  const codings = contentCodings(fields);
  if (codings === undefined) return undecodable(upstream, "uses a content coding the gateway does not know");
  try {
    return await decodeBody(body, codings, maxBody);
  } catch (error) {
    if (error instanceof DecodedTooLarge) return tooLarge(upstream, maxBody);
    return undecodable(upstream, "sent a body that is not of the content coding it names");
  }
}

/** Reads an answer whose body is not coded any more, and says `content`. */
export function readAnswer(raw: RawAnswer, content: AnswerContent, context: ReadingContext): Reading {
  const reading = readByStatus(raw, content, context);
  const { answer } = reading;
  if (answer === undefined || !isHeadTooLarge(answer.fields)) return reading;
  return { answer: undefined, failure: tooLargeHead(context.upstream) };
}

function readByStatus(raw: RawAnswer, content: AnswerContent, context: ReadingContext): Reading {
  const { status } = raw;
  if (status === 200) return readSuccess(raw, content, context);
  const refusal = findRefusal(status, raw, context);
  if (refusal !== undefined) return { answer: undefined, failure: refusal };
  if (status === 204 || status === 304)
    return { answer: answerOf(raw, context, { body: NO_BODY, content: undefined }), failure: undefined };
  if (status < 300) return readSuccess(raw, content, context);
  const answer = readError(raw, content, context);
  return { answer, failure: findBusy(status, answer.fields, context.upstream, raw.body), original: raw.body };
}

/** A JSON body of gRPC's ABORTED, or of a contract that is being reassigned: registries send it as 429. */
const CONFLICT = /^\s*\{.*(?:ABORTED|reassign)/is;

/**
 * Why an answer that may be passed on speaks for another node, or for calling less: a 429, 502, 503 or 504. Its error
 * only serves to decide: a client gets the answer itself. Without `body`, which is streamed, a 429 that does not say for
 * how long may be the ledger's about one contract.
 */
export function findBusy(status: number, fields: Fields, upstream: string, body?: Buffer): Failure | undefined {
  const reason = BUSY[status];
  if (reason === undefined) return undefined;
  const text = `upstream "${upstream}" answered ${status}`;
  const asked = retryAfter(fields);
  const error = new GatewayError("upstream_busy", text, { status, retryAfter: asked });
  return { reason, error, isConflict: isConflict(status, fields, body) };
}

/** Whether it is a 429 of the ledger's about one contract, which says nothing of how much is asked. */
export function isConflict(status: number, fields: Fields, body: Buffer | undefined): boolean {
  if (status !== 429 || retryAfter(fields) !== undefined) return false;
  return body === undefined || CONFLICT.test(body.toString("utf8", 0, 4_096));
}

/** Why an answer of this status is not passed on whatever its body says; undefined when it may be. */
function findRefusal(
  status: number,
  raw: { readonly fields: Fields; readonly body: Buffer },
  context: Omit<ReadingContext, "node" | "maxBody">,
): Failure | undefined {
  const { upstream } = context;
  // RFC 9110 §15: a status beyond 599 is none, and is treated as a server's error.
  if (status > 599)
    return {
      reason: "protocol",
      error: unusable(upstream, `answered with the status ${status}, which HTTP does not have`),
    };
  if (status === 304 && !context.isConditional) {
    const text = "answered 304 Not Modified to a request without conditions; it or a cache before it is broken";
    return { reason: "protocol", error: unusable(upstream, text) };
  }
  if (status >= 300 && status < 400 && status !== 304) {
    const text = `answered with a redirect (${status}), which is not followed; its URL is probably wrong`;
    return { reason: "redirect", error: unusable(upstream, text) };
  }
  if ((status === 401 || status === 403) && context.isOwnRefusal) {
    const text = `refused the gateway's credentials (${status}); report it to the gateway's operator`;
    return { reason: "credentials", error: unusable(upstream, text, "upstream_credentials") };
  }
  if (status === 404 && !context.isOptional && isHtml(fieldValue(raw.fields, "content-type"), raw.body)) {
    const text =
      "answered 404 with an HTML page: its registry URL is probably wrong; report it to the gateway's operator";
    return { reason: "wrong-url", error: unusable(upstream, text, "upstream_wrong_url") };
  }
  return undefined;
}

/**
 * Why an answer with this head is not streamed to a client; undefined when it is. `passed`: those of its fields that the
 * client would get.
 */
export function refuseHead(
  { status, fields, passed }: { readonly status: number; readonly fields: Fields; readonly passed: Fields },
  context: Omit<ReadingContext, "node">,
): Failure | undefined {
  const { upstream, maxBody } = context;
  const refusal = findRefusal(status, { fields: [], body: NO_BODY }, context) ?? refuseTransferCoding(fields, upstream);
  if (refusal !== undefined) return refusal;
  if (isHeadTooLarge(passed)) return tooLargeHead(upstream);
  if (contentCodings(fields) === undefined) {
    return undecodable(upstream, "uses a content coding the gateway does not know");
  }
  return Number(fieldValue(fields, "content-length") ?? 0) > maxBody ? tooLarge(upstream, maxBody) : undefined;
}

/** Why the framing of an answer is not understood: only `chunked` was undone by the time it is read (RFC 9112 §7). */
export function refuseTransferCoding(fields: Fields, upstream: string): Failure | undefined {
  const value = fieldValue(fields, "transfer-encoding");
  if (value === undefined || /^(?:identity *, *)?(?:chunked|identity)$/i.test(value)) return undefined;
  return { reason: "protocol", error: unusable(upstream, "uses a transfer coding that it was not asked for") };
}

function readSuccess(raw: RawAnswer, content: AnswerContent, context: ReadingContext): Reading {
  if (content.isJson) return { answer: answerOf(raw, context, { body: raw.body, content }), failure: undefined };
  const what = isHtml(fieldValue(raw.fields, "content-type"), raw.body) ? "an HTML page" : "something that is not JSON";
  const text = `answered ${raw.status} with ${what}; its URL is wrong or it is broken`;
  return { answer: undefined, failure: { reason: "unreadable", error: unusable(context.upstream, text) } };
}

function readError(raw: RawAnswer, content: AnswerContent, context: ReadingContext): UpstreamAnswer {
  const isPassedOn = content.isError || (raw.status === 404 && context.isOptional && content.isJson);
  if (isPassedOn) return answerOf(raw, context, { body: raw.body, content });
  const text = readErrorText(raw.body) || (STATUS_CODES[raw.status] ?? "no text");
  const code: ErrorCode = "upstream_error";
  const error = `registry-gateway: upstream "${context.upstream}" answered ${raw.status}: ${text}`;
  return {
    // Each request that gets it adds its own id.
    ...answerOf(raw, context, { body: Buffer.from(JSON.stringify({ error, code })), content: undefined }),
    fields: [...withOwnMembers(fieldsOfReplacedBody(raw.fields), raw.status, true), ERROR_FIELD, code],
  };
}

function answerOf(
  raw: RawAnswer,
  context: ReadingContext,
  { body, content }: Pick<UpstreamAnswer, "body" | "content">,
): UpstreamAnswer {
  return {
    status: raw.status,
    fields: withOwnMembers(endToEndFields(raw.fields), raw.status),
    body,
    content,
    requestedAt: raw.requestedAt,
    receivedAt: raw.receivedAt,
    node: context.node,
  };
}
