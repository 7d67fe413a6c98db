import { promisify } from "node:util";
import {
  brotliDecompress,
  constants,
  createBrotliDecompress,
  createGunzip,
  createInflate,
  createZstdDecompress,
  gunzip,
  inflate,
  zstdDecompress,
} from "node:zlib";
import { pipeline, Transform } from "node:stream";
import type { Readable } from "node:stream";
import { GatewayError } from "../../errors.ts";
import { fieldValue } from "../../fields.ts";
import type { Fields } from "../../fields.ts";
import { tooLarge, undecodable } from "../failure.ts";
import type { Failure } from "../failure.ts";

interface Coding {
  /** Decodes a whole body; rejects when it is not of this coding, or larger than `maxOutputLength`. */
  readonly decode: (body: Buffer, bounds: { maxOutputLength: number }) => Promise<Buffer>;
  readonly createDecoder: () => Transform;
}

/**
 * A zstd window of 8 MiB at most: this coding allows no larger one (RFC 9659 §3), and the decoder takes as much memory
 * as a frame asks for before it has seen a byte of it.
 */
const ZSTD = { params: { [constants.ZSTD_d_windowLogMax]: 23 } };
/** What is behind the end, as a second frame, Node would drop without a word; it reads the members of gzip itself. */
const WHOLE = { rejectGarbageAfterEnd: true };
const decodeZstd = promisify(zstdDecompress);
const decodeBrotli = promisify(brotliDecompress);
const decodeDeflate = promisify(inflate);

const gzip: Coding = { decode: promisify(gunzip), createDecoder: () => createGunzip() };

/** Content codings an upstream may use although identity was asked for (RFC 9110 §8.4.1). */
const CODINGS: Readonly<Record<string, Coding>> = {
  gzip,
  "x-gzip": gzip,
  deflate: {
    decode: (body, bounds) => decodeDeflate(body, { ...WHOLE, ...bounds }),
    createDecoder: () => createInflate(WHOLE),
  },
  br: {
    decode: (body, bounds) => decodeBrotli(body, { ...WHOLE, ...bounds }),
    createDecoder: () => createBrotliDecompress(WHOLE),
  },
  zstd: {
    decode: (body, bounds) => decodeZstd(body, { ...ZSTD, ...WHOLE, ...bounds }),
    createDecoder: () => createZstdDecompress({ ...ZSTD, ...WHOLE }),
  },
};

/** More than this is no coding but an attack. */
const MAX_CODINGS = 3;

/** The decoded body would be larger than allowed. */
export class DecodedTooLarge extends Error {
  constructor() {
    super("the decoded body is too large");
    this.name = "DecodedTooLarge";
  }
}

/** The body's codings in the order they were applied, or undefined when one of them is unknown. */
export function contentCodings(fields: Fields): string[] | undefined {
  const value = fieldValue(fields, "content-encoding");
  if (value === undefined) return [];
  const codings = value
    .toLowerCase()
    .split(",")
    .map((coding) => coding.trim())
    .filter((coding) => coding !== "" && coding !== "identity");
  return codings.length <= MAX_CODINGS && codings.every((coding) => Object.hasOwn(CODINGS, coding))
    ? codings
    : undefined;
}

/**
 * `body` without its `codings`.
 * @throws {@link DecodedTooLarge} when any step yields more than `maxBody` bytes; other errors when the body is not of
 * the coding.
 */
export async function decodeBody(body: Buffer, codings: readonly string[], maxBody: number): Promise<Buffer> {
  let decoded = body;
  for (const coding of codings.toReversed()) {
    try {
      decoded = await CODINGS[coding]!.decode(decoded, { maxOutputLength: maxBody });
    } catch (error) {
      throw error instanceof RangeError ? new DecodedTooLarge() : error;
    }
  }
  return decoded;
}

/** Streams that undo the codings, in the order in which they have to be passed. */
function createDecoders(codings: readonly string[]): Transform[] {
  return codings.toReversed().map((coding) => CODINGS[coding]!.createDecoder());
}

/** Gets a body on its way to the client. */
export interface BodyListener {
  /**
   * What is passed on is of the coding it names, as far as can be known before the head goes out: a body that is not
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
  answer: { readonly status: number; readonly fields: Fields; readonly body: Readable },
  { upstream, maxBody }: { readonly upstream: string; readonly maxBody: number },
  listener: BodyListener,
): Readable {
  const codings = codingsToUndo(answer.status, answer.fields);
  const limiter: Transform = limitBytes(maxBody, {
    tooMuch: () => tooLarge(upstream, maxBody).error,
    ready: codings.length === 0 ? undefined : () => listener.ready(limiter),
  });
  // An error before the caller listens must not end the process.
  limiter.on("error", () => undefined);
  pipeline([answer.body, ...createDecoders(codings), limiter], (error) => {
    if (error instanceof GatewayError) listener.refused({ reason: "too-large", error });
    // Neither did the source break nor the reader leave: it is a decoder's.
    else if (error && answer.body.errored === null && error.code !== "ERR_STREAM_PREMATURE_CLOSE") {
      listener.refused(undecodable(upstream, "sent a body that is not of the content coding it names"));
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

/** Whether {@link shapeBody} makes another body of it than was sent. */
export function isDecoded(status: number, fields: Fields): boolean {
  return codingsToUndo(status, fields).length > 0;
}

function codingsToUndo(status: number, fields: Fields): readonly string[] {
  return hasNoBody(status, fields) ? [] : (contentCodings(fields) ?? []);
}

/** Nothing comes that could be decoded, whatever coding the fields name (RFC 9110 §15.4.5). */
function hasNoBody(status: number, fields: Fields): boolean {
  return status === 204 || status === 304 || fieldValue(fields, "content-length") === "0";
}
