import type { IncomingHttpHeaders } from "node:http";

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

/**
 * Fields of a registry's answer that end at the gateway, whatever route it takes, and whichever release stored it. The one
 * list: what is not on it goes on to clients, unknown fields too.
 */
const DROPPED: ReadonlySet<string> = new Set([
  ...HOP_BY_HOP,
  // Of the way the answer took behind the gateway.
  "proxy-authenticate",
  "proxy-authentication-info",
  "via",
  "forwarded",
  "cdn-loop",
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
  "x-registry-partial",
  "proxy-status",
  // Would act on the gateway's origin in a browser, beyond this one answer.
  "accept-ch",
  "accept-ch-lifetime",
  "activate-storage-access",
  "alt-svc",
  "clear-site-data",
  "critical-ch",
  "expect-ct",
  "nel",
  "no-vary-search",
  "observe-browsing-topics",
  "origin-agent-cluster",
  "origin-trial",
  "public-key-pins",
  "public-key-pins-report-only",
  "refresh",
  "report-to",
  "reporting-endpoints",
  "sec-session-challenge",
  "sec-session-registration",
  "secure-session-challenge",
  "secure-session-registration",
  "service-worker-allowed",
  "set-login",
  "shared-storage-write",
  "speculation-rules",
  "strict-transport-security",
  "supports-loading-mode",
  "use-as-dictionary",
  // Instructions to H2O, and the tags by which caches in front of the gateway purge.
  "x-compress-hint",
  "cache-tag",
  "cdn-tag",
  "xkey",
]);

/** Families of fields, by how their names begin. */
const DROPPED_FAMILIES = [
  // The rate limit is between the upstream and us, CORS is ours, and so is our own name.
  "access-control-",
  "ratelimit",
  "x-ratelimit",
  "x-rate-limit",
  // What the cache reads ends with the cache (`OWN_TARGETED_FIELD`).
  "registry-gateway-(?!cache-control$)",
  // Act on the gateway's origin in a browser.
  "ad-auction-",
  "attribution-reporting-",
  // Speak of requests; in answers they are leaks at best.
  "x-forwarded-",
  // Orders to servers in front of the gateway, which fetch a file, an internal URL or another backend, keep the answer
  // or take the gateway out of service for them: nginx; Apache, lighttpd and others; LiteSpeed; Perlbal and H2O;
  // mod_pagespeed; Envoy and Linkerd; edge servers and CDNs by the name of all (RFC 9213 leaves `CDN-Cache-Control` to
  // all caches on the way) and by their own.
  "x-accel-",
  "x-sendfile",
  "x-lighttpd-",
  "x-litespeed-",
  "x-lsadc-",
  "x-reproxy-",
  "pagespeed",
  "x-envoy-",
  "endpoint-load-metrics",
  "l5d-",
  "surrogate-",
  "edge-",
  "akamai-",
  "x-akamai-",
  "cf-",
  "cloudflare-",
  "fastly-",
  "x-fastly-",
  "netlify-",
  "vercel-",
];

const OF_DROPPED_FAMILY = new RegExp(`^(?:${DROPPED_FAMILIES.join("|")})`);

/** So many names are remembered, and none that is longer: registries choose them. */
const MOST_NAMES = 1_000;
const LONGEST_NAME = 100;
/** Names that answers had, and whether they end here: looking for their families costs more than remembering. */
const known = new Map<string, boolean>();

function isDropped(name: string): boolean {
  let dropped = known.get(name);
  if (dropped === undefined) {
    dropped = DROPPED.has(name) || OF_DROPPED_FAMILY.test(name);
    if (known.size === MOST_NAMES) known.clear();
    if (name.length <= LONGEST_NAME) known.set(name, dropped);
  }
  return dropped;
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
 * What of an upstream's fields may reach a client or the cache, in order. What `Connection` names ends here, but for
 * fields that are meant for all who hold the answer: it must not name those (RFC 9110 §7.6.1).
 */
export function endToEndFields(fields: Fields): string[] {
  const connection = fieldValue(fields, "connection");
  const named = connection === undefined ? undefined : new Set(connection.toLowerCase().split(/[\s,]+/));
  return filterFields(fields, (name) => !isDropped(name) && (named?.has(name) !== true || DECIDING_FIELDS.has(name)));
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
 * RFC 9530 §3), so that digests of the coded one are wrong, and its `ETag` tells no more than what is alike.
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
