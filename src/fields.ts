/**
 * Header fields of one message as a flat list: name, value, name, value, … in the order received, repeated fields kept
 * apart. Names are in lower case; values are latin1 strings, so that a value written again has the same bytes.
 */
export type Fields = readonly string[];

/** All values of the field `name` (lower case), in order. */
export function fieldValues(fields: Fields, name: string): string[] {
  return fields.filter((_text, i) => i % 2 === 1 && fields[i - 1] === name);
}

/** The values of the field `name` joined by `, ` (RFC 9110 §5.3); undefined when the field is absent. */
export function fieldValue(fields: Fields, name: string): string | undefined {
  const values = fieldValues(fields, name);
  return values.length === 0 ? undefined : values.join(", ");
}

/** The fields whose (lower-case) name satisfies `keep`. */
export function filterFields(fields: Fields, keep: (name: string) => boolean): string[] {
  return fields.filter((_text, i) => keep(fields[i - (i % 2)]!));
}

/** Fields from Node's or undici's raw header list (strings or latin1 bytes), names lower-cased. */
export function fieldsFromRaw(raw: readonly (string | Buffer)[]): string[] {
  return raw.map((text, i) => {
    const value = typeof text === "string" ? text : text.toString("latin1");
    return i % 2 === 0 ? value.toLowerCase() : value;
  });
}

/** The answer fields of a registry that pass to clients without `cache.forwardResponseHeaders`. */
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
]);

/** Fields that no configuration lets pass: of one connection (RFC 9110 §7.6.1), of framing, cookies, and ours to say. */
const NEVER_PASSED: ReadonlySet<string> = new Set([
  "connection",
  "keep-alive",
  "proxy-connection",
  "proxy-authenticate",
  "proxy-authentication-info",
  "te",
  "trailer",
  "transfer-encoding",
  "upgrade",
  "content-length",
  "content-encoding",
  "set-cookie",
  "set-cookie2",
  "server",
  "via",
  "x-powered-by",
  "x-request-id",
  "x-content-type-options",
  "x-registry-partial",
  "cache-status",
  "proxy-status",
  "alt-svc",
  "clear-site-data",
  "refresh",
  "service-worker-allowed",
  "strict-transport-security",
]);

/** Families of such fields: CORS, limits and our own name; then what steers a server in front of the gateway. */
const NEVER_PASSED_FAMILY =
  /^(?:access-control-|ratelimit|registry-gateway-|x-accel-|x-sendfile|x-lighttpd-|x-reproxy-)/;

/** Whether a field (lower case) of a registry's answer ends at the gateway whatever the configuration names. */
function isNeverPassed(name: string): boolean {
  return NEVER_PASSED.has(name) || NEVER_PASSED_FAMILY.test(name);
}

/**
 * The fields of a registry's answer that may go on, in order; a field that `Connection` names ends here, too.
 *
 * @param further `cache.forwardResponseHeaders`, lower case
 */
export function passedFields(fields: Fields, further: readonly string[]): string[] {
  const nominated = new Set((fieldValue(fields, "connection") ?? "").toLowerCase().split(/[\s,]+/));
  const passes = (name: string): boolean => PASSED.has(name) || (further.includes(name) && !isNeverPassed(name));
  return filterFields(fields, (name) => passes(name) && !nominated.has(name));
}

/** Digests of a body's bytes as they came: wrong once the body was decoded or replaced. */
const DIGESTS = ["digest", "content-digest"];

/** Fields that describe the bytes of a body. */
const OF_THE_BODY: ReadonlySet<string> = new Set([
  ...DIGESTS,
  "content-type",
  "content-language",
  "content-disposition",
  "etag",
  "last-modified",
]);

/** The fields of an answer whose body was decoded on the way: digests go, and an `ETag` is weak (RFC 9110 §8.8.3). */
export function fieldsOfDecodedBody(fields: Fields): string[] {
  const kept = filterFields(fields, (name) => !DIGESTS.includes(name));
  return kept.map((value, i) =>
    kept[i - 1] === "etag" && i % 2 === 1 && value.startsWith('"') ? `W/${value}` : value,
  );
}

/** The fields of an answer whose body was replaced by one of ours. */
export function fieldsOfReplacedBody(fields: Fields): string[] {
  return filterFields(fields, (name) => !OF_THE_BODY.has(name));
}

const MAX_SECONDS = 999_999_999;
/** A date as it is to be sent, and as RFC 850 has it. Caches read names in any case (RFC 9111 §4.2). */
const HTTP_DATE = /^(?:[a-z]{3}, \d{2} [a-z]{3} \d{4}|[a-z]{6,9}, \d{2}-[a-z]{3}-\d{2}) \d{2}:\d{2}:\d{2} gmt$/i;
const ASCTIME = /^[a-z]{3} [a-z]{3} [ \d]\d \d{2}:\d{2}:\d{2} \d{4}$/i;

/** Milliseconds since the epoch of an HTTP date in one of its three forms (RFC 9110 §5.6.7); undefined for anything else. */
export function httpDate(value: string | undefined): number | undefined {
  if (value === undefined) return undefined;
  const at = HTTP_DATE.test(value) ? Date.parse(value) : ASCTIME.test(value) ? Date.parse(`${value} GMT`) : Number.NaN;
  return Number.isNaN(at) ? undefined : at;
}

/**
 * Whole seconds of a `Retry-After`, which counts them or names a time (RFC 9110 §10.2.3); undefined without one.
 *
 * @param wallNow the time (Unix ms) that a named one is compared with where no `Date` stands beside it
 */
export function retryAfter(fields: Fields, wallNow: number): number | undefined {
  const value = fieldValue(fields, "retry-after");
  if (value === undefined) return undefined;
  if (/^\d{1,9}$/.test(value)) return Number(value);
  const at = httpDate(value);
  const seconds =
    at === undefined ? undefined : Math.ceil((at - (httpDate(fieldValue(fields, "date")) ?? wallNow)) / 1_000);
  return seconds === undefined ? undefined : Math.min(Math.max(seconds, 0), MAX_SECONDS);
}
