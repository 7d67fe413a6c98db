import { pipeline, Transform } from "node:stream";
import type { Readable } from "node:stream";
import { isHeadTooLarge } from "../../answer-fields.ts";
import { GatewayError } from "../../errors.ts";
import { fieldValue } from "../../fields.ts";
import type { Fields } from "../../fields.ts";
import { findRefusal, undecodable } from "./answer.ts";
import { contentCodings, createDecoders } from "./content-coding.ts";
import { tooLarge, tooLargeHead } from "../failure.ts";
import type { Failure } from "../failure.ts";
import type { UpstreamParts } from "../parts.ts";

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

/** What hears of a body on its way to the client. */
export interface BodyListener {
  /**
   * What is passed on is of the coding it names, as far as can be told before the head goes out: a body that is not
   * coded at once, a coded one when it was decoded to its end or for {@link LOOKED_AT} bytes.
   */
  ready(body: Readable): void;
  /** The body was read to its end, or its source or its reader broke off (`error`). */
  ended(error: Error | null | undefined): void;
  /** The body is not what it may be. */
  refused(failure: Failure): void;
}

/** Bytes of a decoded body that are held back: most bodies that are no good are found out before the head goes out. */
const LOOKED_AT = 64 * 1024;

/** The body of an answer, decoded and bounded. Errors destroy the stream that is returned. */
export function shapeBody(
  { config, limits }: UpstreamParts,
  answer: { readonly status: number; readonly fields: Fields; readonly body: Readable },
  listener: BodyListener,
): Readable {
  const codings = hasNoBody(answer.status, answer.fields) ? [] : (contentCodings(answer.fields) ?? []);
  const limiter: Transform = limitBytes(limits.responseBody, {
    tooMuch: () => tooLarge(config.name, limits.responseBody).error,
    ready: codings.length === 0 ? undefined : () => listener.ready(limiter),
  });
  // An error before the caller listens must not end the process.
  limiter.on("error", () => undefined);
  pipeline([answer.body, ...createDecoders(codings), limiter], (error) => {
    if (error instanceof GatewayError) listener.refused({ reason: "too-large", error });
    // Neither did the source break nor the reader leave: it is a decoder's.
    else if (error && answer.body.errored === null && error.code !== "ERR_STREAM_PREMATURE_CLOSE") {
      listener.refused(undecodable(config.name, "sent a body that is not of the content coding it names"));
    } else listener.ended(error);
  });
  if (codings.length === 0) listener.ready(limiter);
  return limiter;
}

/** Passes bytes on until there are more than `most`; then it breaks with what `tooMuch` makes. */
function limitBytes(most: number, on: { tooMuch: () => Error; ready: (() => void) | undefined }): Transform {
  let size = 0;
  return new Transform({
    // Nothing is read of it before it is ready: it must be able to come so far.
    readableHighWaterMark: LOOKED_AT,
    transform(chunk: Buffer, _encoding, callback) {
      const before = size;
      size += chunk.length;
      if (size > most) return callback(on.tooMuch());
      callback(null, chunk);
      if (before < LOOKED_AT && size >= LOOKED_AT) on.ready?.();
    },
    flush(callback) {
      if (size < LOOKED_AT) on.ready?.();
      callback();
    },
  });
}

/** Nothing comes that could be decoded, whatever coding the fields name (RFC 9110 §15.4.5). */
function hasNoBody(status: number, fields: Fields): boolean {
  return status === 204 || status === 304 || fieldValue(fields, "content-length") === "0";
}
