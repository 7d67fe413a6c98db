import { isUtf8 } from "node:buffer";
import { promisify } from "node:util";
import { brotliDecompress, gunzip, inflate } from "node:zlib";
import { type Fields, fieldValue } from "../fields.ts";
import type { Size } from "../units.ts";

/** Reads a body as JSON; undefined where it is none. A byte order mark before it is tolerated (RFC 8259 §8.1). */
export function readJson(body: Buffer): { readonly json: unknown } | undefined {
  if (!isUtf8(body)) return undefined;
  const hasMark = body.length >= 3 && body[0] === 0xef && body[1] === 0xbb && body[2] === 0xbf;
  try {
    return { json: JSON.parse(body.toString("utf8", hasMark ? 3 : 0)) as unknown };
  } catch {
    return undefined;
  }
}

/** Whether a body is a page for browsers and not an answer of a registry. */
export function isHtml(fields: Fields, body: Buffer): boolean {
  return (
    /html/i.test(fieldValue(fields, "content-type")?.slice(0, 200) ?? "") ||
    /^\s*<(!doctype|html|head|body)/i.test(body.toString("latin1", 0, 64))
  );
}

/** Decodes a whole body; rejects when it is not of this coding, or larger than `maxOutputLength`. */
type Decode = (body: Buffer, bounds: { maxOutputLength: number }) => Promise<Buffer>;

/** Codings that a registry may use although identity was asked for (RFC 9110 §8.4.1). */
const CODINGS: Readonly<Record<string, Decode>> = {
  gzip: promisify(gunzip),
  "x-gzip": promisify(gunzip),
  deflate: promisify(inflate),
  br: promisify(brotliDecompress),
};

/** Codings on top of each other; more are an attack. */
const MOST_CODINGS = 3;

/** Why a coded body cannot be had. */
type CodingFault = "unknown" | "broken" | "too_large";

/**
 * Undoes the content codings that the fields of a body name; where they name none, the body stays as it is.
 *
 * @param limit bytes that any step may yield
 */
export async function decodeBody(fields: Fields, body: Buffer, limit: Size): Promise<Buffer | CodingFault> {
  const named = (fieldValue(fields, "content-encoding") ?? "").slice(0, 200).toLowerCase().split(",");
  const codings = named.map((coding) => coding.trim()).filter((coding) => coding !== "" && coding !== "identity");
  if (codings.length > MOST_CODINGS || !codings.every((coding) => Object.hasOwn(CODINGS, coding))) return "unknown";
  let decoded = body;
  for (const coding of codings.toReversed()) {
    try {
      decoded = await CODINGS[coding]!(decoded, { maxOutputLength: limit });
    } catch (error) {
      return error instanceof RangeError ? "too_large" : "broken";
    }
  }
  return decoded;
}
