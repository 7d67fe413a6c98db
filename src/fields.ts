import type { IncomingHttpHeaders } from "node:http";
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
  const isNamed = (name: string) => (further === "*" || further.includes(name)) && !isNeverPassed(name);
  return filterFields(
    fields,
    (name) =>
      PASSED.has(name) || (name === "location" && status === 201) || (name !== OWN_TARGETED_FIELD && isNamed(name)),
  );
}

/** The field that is for the gateway's cache alone (RFC 9213 §2.2): the cache reads it, and no client gets it. */
export const OWN_TARGETED_FIELD = "registry-gateway-cache-control";

/** By these caches decide: an answer without one that it came with would be kept longer, or given to others. */
export const DECIDING_FIELDS: ReadonlySet<string> = new Set([
  OWN_TARGETED_FIELD,
  "age",
  "cache-control",
  "cdn-cache-control",
  "date",
  "expires",
  "pragma",
  "vary",
]);

/**
 * What of an upstream's fields may reach the cache, in order. What `Connection` names ends here, but for fields that are
 * meant for all who hold the answer: it must not name those (RFC 9110 §7.6.1).
 */
export function endToEndFields(fields: Fields): string[] {
  const connection = fieldValue(fields, "connection");
  const named = connection === undefined ? undefined : new Set(connection.toLowerCase().split(/[\s,]+/));
  return filterFields(
    fields,
    (name) => !isNeverPassed(name) && (named?.has(name) !== true || DECIDING_FIELDS.has(name)),
  );
}

const OF_CACHES: ReadonlySet<string> = new Set([
  OWN_TARGETED_FIELD,
  "cache-control",
  "cdn-cache-control",
  "expires",
  "pragma",
]);

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

/** Digests of a body's bytes as they were coded. */
const DIGESTS: ReadonlySet<string> = new Set(["content-digest", "content-md5", "digest", "repr-digest"]);

/**
 * The fields of an answer whose body was decoded on the way: another representation of the same thing (RFC 9110 §8.8.3,
 * RFC 9530 §3), so that digests of the coded one are wrong, and its `ETag` says no more than what is alike.
 */
export function fieldsOfDecodedBody(fields: Fields): string[] {
  const kept: string[] = [];
  for (let i = 0; i < fields.length; i += 2) {
    const name = fields[i]!;
    const value = fields[i + 1]!;
    if (DIGESTS.has(name)) continue;
    kept.push(name, name === "etag" && value.startsWith('"') ? `W/${value}` : value);
  }
  return kept;
}

/** {@link endToEndFields} for an answer whose body was replaced by JSON of ours. */
export function fieldsOfReplacedBody(fields: Fields): string[] {
  const kept: string[] = ["content-type", "application/json"];
  const endToEnd = endToEndFields(fields);
  for (let i = 0; i < endToEnd.length; i += 2) {
    if (!OF_THE_BODY.has(endToEnd[i]!)) kept.push(endToEnd[i]!, endToEnd[i + 1]!);
  }
  return kept;
}

/** What a client says of its trace, in good form. */
export type TraceFields =
  | readonly []
  | readonly ["traceparent", string]
  | readonly ["traceparent", string, "tracestate", string];

/** Names of the fields that carry a trace on (W3C Trace Context). */
export const TRACE_FIELDS: ReadonlySet<string> = new Set(["traceparent", "tracestate"]);

/** §3.2.2: version 0, and of versions to come what they have in common with it. */
const VERSION_0 = /^00-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}$/;
const LATER_VERSION =
  /^(?!00|ff)[0-9a-f]{2}-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}(?:-[!-+\--~]{1,200})?$/;

/** §3.3.1: the list and its members; what is longer need not be passed on. */
const MOST_STATE = 512;
const MOST_MEMBERS = 32;
const MEMBER = /^([a-z0-9][a-z0-9_*/@-]{0,255})=[ -+\--<>-~]{0,255}[!-+\--<>-~]$/;

/**
 * The `traceparent` and `tracestate` of a request as they may go on: none without a good `traceparent`, and of a
 * `tracestate` in bad form nothing. Registries and collectors parse what they are sent.
 */
export function traceFieldsOf({ traceparent, tracestate }: IncomingHttpHeaders): TraceFields {
  if (typeof traceparent !== "string" || !(VERSION_0.test(traceparent) || LATER_VERSION.test(traceparent))) return [];
  return typeof tracestate === "string" && isTraceState(tracestate)
    ? ["traceparent", traceparent, "tracestate", tracestate]
    : ["traceparent", traceparent];
}

/** Members may be empty, and no key comes twice. */
function isTraceState(text: string): boolean {
  if (text.length > MOST_STATE) return false;
  const members = text.split(",").map((member) => member.trim());
  const keys = members.filter((member) => member !== "").map((member) => MEMBER.exec(member)?.[1]);
  return (
    keys.length > 0 && keys.length <= MOST_MEMBERS && !keys.includes(undefined) && new Set(keys).size === keys.length
  );
}

/** Fields that `Connection` makes hop-by-hop (RFC 9110 §7.6.1). */
export function nominatedFields({ connection }: { readonly connection?: string | undefined }): ReadonlySet<string> {
  if (connection === undefined || connection === "keep-alive" || connection === "close") return NONE;
  return new Set(
    connection
      .toLowerCase()
      .split(",")
      .map((name) => name.trim()),
  );
}

const NONE: ReadonlySet<string> = new Set();
