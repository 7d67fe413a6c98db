import { fieldValue, filterFields, type Fields, HOP_BY_HOP } from "./fields.ts";

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

function isDropped(name: string): boolean {
  return DROPPED.has(name) || OF_DROPPED_FAMILY.test(name);
}

/** What of an upstream's fields may reach a client or the cache, in order. */
export function endToEndFields(fields: Fields): string[] {
  const connection = fieldValue(fields, "connection");
  const named = connection === undefined ? undefined : new Set(connection.toLowerCase().split(/[\s,]+/));
  return filterFields(fields, (name) => !isDropped(name) && named?.has(name) !== true);
}

/** The field that is for the gateway's cache alone (RFC 9213 §2.2): the cache reads it, and no client gets it. */
export const OWN_TARGETED_FIELD = "registry-gateway-cache-control";

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

/** Whether there are clients that would not take an answer with these fields. */
export function isHeadTooLarge(fields: Fields): boolean {
  // A line has colon, space, CR and LF besides.
  const bytes = fields.reduce((sum, text) => sum + text.length + 2, 0);
  return fields.length > 2 * MOST_FIELDS || bytes > MOST_BYTES;
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
