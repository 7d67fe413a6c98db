import { ERROR_FIELD } from "./errors.ts";

/**
 * Header fields of one message as a flat list: name, value, name, value, … in the order received, repeated fields kept
 * apart. Names are in lower case; values are latin1 strings, so that a value written again has the same bytes.
 */
export type Fields = readonly string[];

/** Fields that speak of one connection or its framing (RFC 9110 §7.6.1), and what older servers made of them. */
export const HOP_BY_HOP = [
  "connection",
  "keep-alive",
  "proxy-connection",
  "te",
  "trailer",
  "transfer-encoding",
  "upgrade",
] as const;

/** All values of the field `name` (lower case), in order. */
export function fieldValues(fields: Fields, name: string): string[] {
  const values: string[] = [];
  for (let i = 0; i < fields.length; i += 2) {
    if (fields[i] === name) values.push(fields[i + 1]!);
  }
  return values;
}

/** The values of the field `name` joined by `, ` (RFC 9110 §5.3), or undefined when the field is absent. */
export function fieldValue(fields: Fields, name: string): string | undefined {
  let value: string | undefined;
  for (let i = 0; i < fields.length; i += 2) {
    if (fields[i] === name) value = value === undefined ? fields[i + 1]! : `${value}, ${fields[i + 1]!}`;
  }
  return value;
}

/** The longest `Retry-After` that is passed on, in seconds. */
const MOST_SECONDS = 999_999_999;
const HTTP_DATE = /^[A-Z][a-z]{2}, \d{2} [A-Z][a-z]{2} \d{4} \d{2}:\d{2}:\d{2} GMT$/;

/**
 * Whole seconds of a `Retry-After`, which counts them or names a time (RFC 9110 §10.2.3); undefined without one.
 *
 * @param now when it is (Unix ms) by the clock that such a time is of; otherwise the `Date` beside it
 */
export function retryAfter(fields: Fields, now = Date.parse(fieldValue(fields, "date") ?? "")): number | undefined {
  const value = fieldValue(fields, "retry-after") ?? "";
  if (/^\d{1,9}$/.test(value)) return Number(value);
  const at = HTTP_DATE.test(value) ? Date.parse(value) : Number.NaN;
  const seconds = Math.ceil((at - now) / 1_000);
  return Number.isNaN(seconds) ? undefined : Math.min(Math.max(seconds, 0), MOST_SECONDS);
}

/** The fields whose (lower-case) name satisfies `keep`. */
export function filterFields(fields: Fields, keep: (name: string) => boolean): string[] {
  const kept: string[] = [];
  for (let i = 0; i < fields.length; i += 2) {
    if (keep(fields[i]!)) kept.push(fields[i]!, fields[i + 1]!);
  }
  return kept;
}

/** Fields from Node's or undici's raw header list (strings or latin1 bytes), names lower-cased. */
export function fieldsFromRaw(raw: readonly (string | Buffer)[]): string[] {
  const fields: string[] = [];
  for (let i = 0; i < raw.length; i += 2) {
    const name = raw[i]!;
    const value = raw[i + 1]!;
    fields.push(
      (typeof name === "string" ? name : name.toString("latin1")).toLowerCase(),
      typeof value === "string" ? value : value.toString("latin1"),
    );
  }
  return fields;
}

/** Fields of a registry's answer that no client gets, whatever the configuration names. */
const NEVER_PASSED: ReadonlySet<string> = new Set([
  ...HOP_BY_HOP,
  "proxy-authenticate",
  "proxy-authentication-info",
  // Of the servers behind the gateway.
  "server",
  "via",
  "x-powered-by",
  // Framing is ours, and bodies are decoded.
  "content-length",
  "content-encoding",
  // Between the registry and the gateway.
  "set-cookie",
  "set-cookie2",
  "x-request-id",
  // Ours to say.
  "x-content-type-options",
  "x-registry-partial",
  // Act on the gateway's origin in a browser, beyond this one answer.
  "alt-svc",
  "clear-site-data",
  "nel",
  "refresh",
  "report-to",
  "reporting-endpoints",
  "service-worker-allowed",
  "strict-transport-security",
  "forwarded",
]);

/**
 * The same by how names begin: CORS, rate limits and our own name; then what steers a server in front of the gateway, which
 * would fetch a file or an internal URL, or keep the answer. `Registry-Gateway-Cache-Control` is for the cache.
 */
const NEVER_PASSED_FAMILY =
  /^(?:access-control-|ratelimit|x-ratelimit|x-rate-limit|registry-gateway-(?!cache-control$)|x-accel-|x-sendfile|x-lighttpd-|x-reproxy-|surrogate-|edge-|x-forwarded-)/;

/** Whether a field (lower case) of a registry's answer ends at the gateway whatever the configuration names. */
export function isNeverPassed(name: string): boolean {
  return NEVER_PASSED.has(name) || NEVER_PASSED_FAMILY.test(name);
}

/** The answer fields that clients get without being configured, and `Location` of a 201. */
const PASSED: ReadonlySet<string> = new Set([
  "content-type",
  "content-language",
  "content-disposition",
  "cache-control",
  "age",
  "date",
  "expires",
  "etag",
  "last-modified",
  "vary",
  "retry-after",
  "link",
  "deprecation",
  "sunset",
  "allow",
  "digest",
  "content-digest",
  "traceparent",
  "proxy-status",
  // Of an error body that the gateway made; a registry's ended where it was received.
  ERROR_FIELD,
]);

/** `cache.forwardResponseHeaders`: names of further fields (lower case), or all that may pass. */
export type FurtherFields = readonly string[] | "*";

/** What of a registry's {@link endToEndFields} a client gets, in order. */
export function clientFields(fields: Fields, status: number, further: FurtherFields): string[] {
  const isNamed = (name: string) => (further === "*" || further.includes(name)) && name !== OWN_TARGETED_FIELD;
  const passes = (name: string) =>
    PASSED.has(name) || (name === "location" && status === 201) || (isNamed(name) && !isNeverPassed(name));
  return filterFields(fields, passes);
}

/** The field that is for the gateway's cache alone (RFC 9213 §2.2): the cache reads it, and no client gets it. */
export const OWN_TARGETED_FIELD = "registry-gateway-cache-control";

/** These tell caches whether, and how long, to keep an answer. */
const OF_CACHES: ReadonlySet<string> = new Set([
  OWN_TARGETED_FIELD,
  "cache-control",
  "cdn-cache-control",
  "expires",
  "pragma",
]);

/** By these caches decide: an answer without one that it came with would be kept longer, or given to others. */
export const DECIDING_FIELDS: ReadonlySet<string> = new Set([...OF_CACHES, "age", "date", "vary"]);

/** Fields that `Connection` makes hop-by-hop (RFC 9110 §7.6.1). */
export function nominatedFields({ connection }: { readonly connection?: string | undefined }): ReadonlySet<string> {
  if (connection === undefined || connection === "keep-alive" || connection === "close") return NONE;
  return new Set(connection.toLowerCase().split(/[\s,]+/));
}

const NONE: ReadonlySet<string> = new Set();

/**
 * What of an upstream's fields may reach the cache, in order. What `Connection` names ends here, but for fields that are
 * meant for all who hold the answer: it must not name those (RFC 9110 §7.6.1).
 */
export function endToEndFields(fields: Fields): string[] {
  const nominated = nominatedFields({ connection: fieldValue(fields, "connection") });
  return filterFields(fields, (name) => !isNeverPassed(name) && (!nominated.has(name) || DECIDING_FIELDS.has(name)));
}

/** The fields of an answer that no cache is to keep: it says so, and nothing in it says otherwise. */
export function neverKept(fields: Fields): string[] {
  return [...filterFields(fields, (name) => !OF_CACHES.has(name)), "cache-control", "no-store"];
}

/**
 * With our own fields, a head of at most 100 fields and 16 KiB: Python's clients take no more fields, Node's no more
 * bytes.
 */
const MOST_FIELDS = 80;
const MOST_BYTES = 15 * 1024;
/** Bytes of a field that the gateway adds by itself. */
const MOST_ADDED = 100;

/** Whether there are clients that would not take an answer with these fields; `more` of them are not counted. */
export function isHeadTooLarge(fields: Fields, more = 0): boolean {
  // A line has colon, space, CR and LF besides.
  const bytes = fields.reduce((sum, text) => sum + text.length + 2, 0);
  return fields.length > 2 * (MOST_FIELDS + more) || bytes > MOST_BYTES + more * MOST_ADDED;
}

/** The gateway's name in fields to which each intermediary adds a member. */
export const OWN_NAME = "registry-gateway";

/** Our member of `Proxy-Status` (RFC 9209 §2), with one parameter, whose value is a token or an integer. */
export function proxyStatus(parameter: "error" | "received-status", value: string | number): string {
  return `${OWN_NAME};${parameter}=${value}`;
}

/** Digests of a body's bytes as they were coded. */
const DIGESTS: ReadonlySet<string> = new Set(["content-digest", "content-md5", "digest", "repr-digest"]);

/** Fields that describe the bytes of a body, and are wrong once the body is another one. */
const OF_THE_BODY: ReadonlySet<string> = new Set([
  ...DIGESTS,
  "content-type",
  "content-language",
  "content-location",
  "content-disposition",
  "content-range",
  "accept-ranges",
  "etag",
  "last-modified",
]);

/**
 * The fields of an answer whose body was decoded on the way: another representation of the same thing (RFC 9110 §8.8.3,
 * RFC 9530 §3), so that digests of the coded one are wrong, and its `ETag` says no more than what is alike.
 */
export function fieldsOfDecodedBody(fields: Fields): string[] {
  const kept = filterFields(fields, (name) => !DIGESTS.has(name));
  return kept.map((text, i) => (kept[i - 1] === "etag" && i % 2 === 1 && text.startsWith('"') ? `W/${text}` : text));
}

/** {@link endToEndFields} for an answer whose body was replaced by JSON of ours. */
export function fieldsOfReplacedBody(fields: Fields): string[] {
  const kept = filterFields(endToEndFields(fields), (name) => !OF_THE_BODY.has(name));
  return ["content-type", "application/json", ...kept];
}
