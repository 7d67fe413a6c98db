import { promisify } from "node:util";
import { brotliDecompress, constants, gunzip, inflate, zstdDecompress } from "node:zlib";
import { fieldValue } from "../../fields.ts";
import type { Fields } from "../../fields.ts";

/** Decodes a whole body; rejects when it is not of this coding, or larger than `maxOutputLength`. */
type Decode = (body: Buffer, bounds: { maxOutputLength: number }) => Promise<Buffer>;

/**
 * A zstd window of 8 MiB at most: this coding allows no larger one (RFC 9659 §3), and the decoder takes as much memory
 * as a frame asks for before it has seen a byte of it.
 */
const ZSTD = { params: { [constants.ZSTD_d_windowLogMax]: 23 } };
/** What is behind the end, as a second frame, Node would drop without a word; it reads the members of gzip itself. */
const WHOLE = { rejectGarbageAfterEnd: true };
const decodeGzip = promisify(gunzip);
const decodeZstd = promisify(zstdDecompress);
const decodeBrotli = promisify(brotliDecompress);
const decodeDeflate = promisify(inflate);

/** Content codings an upstream may use although identity was asked for (RFC 9110 §8.4.1). */
const CODINGS: Readonly<Record<string, Decode>> = {
  gzip: decodeGzip,
  "x-gzip": decodeGzip,
  deflate: (body, bounds) => decodeDeflate(body, { ...WHOLE, ...bounds }),
  br: (body, bounds) => decodeBrotli(body, { ...WHOLE, ...bounds }),
  zstd: (body, bounds) => decodeZstd(body, { ...ZSTD, ...WHOLE, ...bounds }),
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
      decoded = await CODINGS[coding]!(decoded, { maxOutputLength: maxBody });
    } catch (error) {
      throw error instanceof RangeError ? new DecodedTooLarge() : error;
    }
  }
  return decoded;
}

/** Whether an answer with this head has a body that is coded, by codings that are known. */
export function isDecoded(status: number, fields: Fields): boolean {
  // Nothing comes that could be decoded, whatever coding the fields name (RFC 9110 §15.4.5).
  if (status === 204 || status === 304 || fieldValue(fields, "content-length") === "0") return false;
  return (contentCodings(fields) ?? []).length > 0;
}
