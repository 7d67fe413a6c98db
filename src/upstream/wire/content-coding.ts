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
import type { Transform } from "node:stream";
import { fieldValue } from "../../fields.ts";
import type { Fields } from "../../fields.ts";

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
const decodeZstd = promisify(zstdDecompress);

const gzip: Coding = { decode: promisify(gunzip), createDecoder: () => createGunzip() };

/** Content codings an upstream may use although identity was asked for (RFC 9110 §8.4.1). */
const CODINGS: Readonly<Record<string, Coding>> = {
  gzip,
  "x-gzip": gzip,
  deflate: { decode: promisify(inflate), createDecoder: () => createInflate() },
  br: { decode: promisify(brotliDecompress), createDecoder: () => createBrotliDecompress() },
  zstd: {
    decode: (body, bounds) => decodeZstd(body, { ...ZSTD, ...bounds }),
    createDecoder: () => createZstdDecompress(ZSTD),
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
export function createDecoders(codings: readonly string[]): Transform[] {
  return codings.toReversed().map((coding) => CODINGS[coding]!.createDecoder());
}
