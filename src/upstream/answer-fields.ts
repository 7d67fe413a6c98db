import { fieldValue } from "../fields.ts";
import type { Fields } from "../fields.ts";

/** Fields of an answer that end here. */
const DROPPED: ReadonlySet<string> = new Set([
  // Of this connection only (RFC 9110 §7.6.1).
  "connection",
  "keep-alive",
  "proxy-authenticate",
  "proxy-authentication-info",
  "proxy-connection",
  "te",
  "trailer",
  "transfer-encoding",
  "upgrade",
  // Framing is ours, and bodies are decoded.
  "content-length",
  "content-encoding",
  // Private to the upstream, or ours to say.
  "set-cookie",
  "set-cookie2",
  "server",
  "x-powered-by",
  "x-request-id",
  "x-content-type-options",
  // Would act on the gateway's origin.
  "strict-transport-security",
  "clear-site-data",
  "alt-svc",
  "nel",
  "report-to",
  "reporting-endpoints",
  "service-worker-allowed",
  "refresh",
]);

/** Families of fields: the rate limit is between the upstream and us, and CORS is ours. */
const DROPPED_PREFIXES = ["access-control-", "ratelimit", "x-ratelimit", "x-rate-limit"] as const;

// The prefixes begin with these letters: one comparison instead of four for all other names.
const FIRST_LETTERS = /^[arx]/;

function isDropped(name: string): boolean {
  return DROPPED.has(name) || (FIRST_LETTERS.test(name) && DROPPED_PREFIXES.some((prefix) => name.startsWith(prefix)));
}

/** What of an upstream's fields may reach a client, in order; unknown fields pass. */
export function endToEndFields(fields: Fields): string[] {
  const connection = fieldValue(fields, "connection");
  const named = connection === undefined ? undefined : new Set(connection.toLowerCase().split(/[\s,]+/));
  const kept: string[] = [];
  for (let i = 0; i < fields.length; i += 2) {
    const name = fields[i]!;
    if (!isDropped(name) && named?.has(name) !== true) kept.push(name, fields[i + 1]!);
  }
  return kept;
}

/** Fields that describe the bytes of a body, and are wrong once the body is another one. */
const OF_THE_BODY: ReadonlySet<string> = new Set([
  "content-type",
  "content-language",
  "content-location",
  "content-disposition",
  "content-range",
  "content-md5",
  "content-digest",
  "repr-digest",
  "digest",
  "accept-ranges",
  "etag",
  "last-modified",
]);

/** {@link endToEndFields} for an answer whose body was replaced by JSON of ours. */
export function fieldsOfReplacedBody(fields: Fields): string[] {
  const kept: string[] = ["content-type", "application/json"];
  const endToEnd = endToEndFields(fields);
  for (let i = 0; i < endToEnd.length; i += 2) {
    if (!OF_THE_BODY.has(endToEnd[i]!)) kept.push(endToEnd[i]!, endToEnd[i + 1]!);
  }
  return kept;
}
