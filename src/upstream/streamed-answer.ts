import { pipeline } from "node:stream";
import type { Readable, Transform } from "node:stream";
import { isHeadTooLarge } from "../answer-fields.ts";
import { fieldValue } from "../fields.ts";
import type { Fields } from "../fields.ts";
import { findRefusal, undecodable } from "./answer.ts";
import { contentCodings, createDecoders } from "./content-coding.ts";
import { tooLarge, tooLargeHead } from "./failure.ts";
import type { Failure } from "./failure.ts";
import type { UpstreamParts } from "./parts.ts";
import { limitBytes } from "./streamed-exchange.ts";

interface AnswerHead {
  readonly status: number;
  readonly fields: Fields;
  /** Those of them that a client would get. */
  readonly passed: Fields;
  /** The request carried a condition. */
  readonly isConditional: boolean;
  /** A 401 or 403 is about credentials of the gateway's. */
  readonly isOwnRefusal: boolean;
}

/** Why the answer with this head is not passed on; undefined when it is. */
export function refuseHead(parts: UpstreamParts, head: AnswerHead): Failure | undefined {
  const { config, limits } = parts;
  const { status, fields, passed, isConditional, isOwnRefusal } = head;
  const refusal = findRefusal(
    status,
    { fields: [], body: Buffer.alloc(0) },
    { upstream: config.name, isConditional, isOwnRefusal },
  );
  if (refusal !== undefined) return refusal;
  if (isHeadTooLarge(passed)) return tooLargeHead(config.name);
  if (contentCodings(fields) === undefined) {
    return undecodable(config.name, "uses a content coding the gateway does not know");
  }
  const isLarge = Number(fieldValue(fields, "content-length") ?? 0) > limits.responseBody;
  return isLarge ? tooLarge(config.name, limits.responseBody) : undefined;
}

/**
 * The body of an answer, decoded and bounded; `onEnd` hears that it was read to its end, or why not. Errors destroy the
 * stream that is returned.
 */
export function shapeBody(
  { config, limits }: UpstreamParts,
  answer: { readonly status: number; readonly fields: Fields; readonly body: Readable },
  onEnd: (error: Error | null | undefined) => void,
): Readable {
  const limiter = limitBytes(limits.responseBody, () => tooLarge(config.name, limits.responseBody).error);
  const codings = hasNoBody(answer.status, answer.fields) ? [] : (contentCodings(answer.fields) ?? []);
  const steps: Transform[] = [...createDecoders(codings), limiter];
  // An error before the caller listens must not end the process.
  limiter.on("error", () => undefined);
  pipeline([answer.body, ...steps], onEnd);
  return limiter;
}

/** Nothing comes that could be decoded, whatever coding the fields name (RFC 9110 §15.4.5). */
function hasNoBody(status: number, fields: Fields): boolean {
  return status === 204 || status === 304 || fieldValue(fields, "content-length") === "0";
}
