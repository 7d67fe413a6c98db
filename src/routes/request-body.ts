import { isUtf8 } from "node:buffer";
import type { IncomingHttpHeaders } from "node:http";
import { parse } from "secure-json-parse";
import { GatewayError } from "../errors.ts";

/** A request body that was accepted: its text and what it says. The bytes themselves go upstream untouched. */
export interface JsonBody {
  readonly text: string;
  readonly json: unknown;
}

/**
 * Checks that a body may be read as JSON at all, by its headers.
 *
 * @throws GatewayError 415 for a content coding, or a media type other than JSON in UTF-8
 */
export function checkBodyHeaders(headers: IncomingHttpHeaders): void {
  checkContentCoding(headers);
  const type = headers["content-type"];
  if (type === undefined || !JSON_TYPE.test(type)) {
    throw new GatewayError(415, "the body must be sent with the header content-type: application/json");
  }
  const charset = CHARSET.exec(type)?.[1];
  if (charset !== undefined && !/^utf-?8$/i.test(charset)) {
    throw new GatewayError(415, "the body must be JSON in UTF-8, whatever charset the content-type names");
  }
}

/** @throws GatewayError 415 when the body is compressed: an admin in it could not be checked */
export function checkContentCoding(headers: IncomingHttpHeaders): void {
  const coding = headers["content-encoding"];
  if (coding !== undefined && coding.trim().toLowerCase() !== "identity") {
    throw new GatewayError(415, "the body must be sent without content-encoding");
  }
}

/**
 * Reads a body as strict JSON.
 *
 * @throws GatewayError 400 for bytes that are no UTF-8 or begin with a byte order mark, text that is not one JSON
 * value, and a key `__proto__` anywhere
 */
export function parseJsonBody(body: Buffer): JsonBody {
  if (!isUtf8(body)) throw new GatewayError(400, "the body is not UTF-8");
  if (body[0] === 0xef && body[1] === 0xbb && body[2] === 0xbf) {
    throw new GatewayError(400, "the body begins with a byte order mark; send JSON without one");
  }
  const text = body.toString("utf8");
  try {
    // Without these no key can be __proto__, and the search for one is spared.
    if (!text.includes("__proto__") && !text.includes("\\u")) return { text, json: JSON.parse(text) as unknown };
    return { text, json: parse(text, null, { protoAction: "error", constructorAction: "ignore" }) as unknown };
  } catch (cause) {
    const forbidden = cause instanceof SyntaxError && cause.message.includes("forbidden");
    throw new GatewayError(400, forbidden ? "the body has a key __proto__" : "the body is not valid JSON", { cause });
  }
}

const JSON_TYPE = /^application\/json[ \t]*(?:;|$)/i;
const CHARSET = /;[ \t]*charset[ \t]*=[ \t]*"?([^";, \t]+)/i;
