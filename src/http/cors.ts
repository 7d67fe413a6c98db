import type { Config } from "../config/schema.ts";
import type { Fields } from "../fields.ts";

/** CORS fields for answers and for preflights. */
export interface Cors {
  /** Fields of an answer to a request with this `Origin` (undefined: none). */
  answerFields(origin: string | undefined): Fields;
  /** What the answer to a preflight has besides: what the browser may send. */
  preflightFields(origin: string | undefined): Fields;
}

/** What a browser shows to a page beyond the few fields that it always shows. */
const EXPOSED = [
  "age",
  "etag",
  "cache-status",
  "proxy-status",
  "retry-after",
  "ratelimit",
  "ratelimit-policy",
  "registry-gateway-error",
  "x-request-id",
  "x-registry-partial",
].join(", ");
const METHODS = "GET, HEAD, POST, OPTIONS";
const MAX_AGE = "7200";

/**
 * CORS as browser wallets need it: on every answer, errors too. Credentials are never allowed: cookies mean nothing
 * here, and a bearer token is an ordinary header.
 *
 * @param cors `cors`: origin `*` allows every origin; `allowHeaders` come besides what the gateway understands
 */
export function createCors({ origins, allowHeaders }: Config["cors"], adminHeader: string): Cors {
  const allowedHeaders = new Set([
    "authorization",
    "x-api-key",
    "if-none-match",
    "cache-control",
    "x-requested-with",
    "content-type",
    adminHeader,
    "x-request-id",
    "traceparent",
    "request-timeout",
    ...allowHeaders,
  ]);
  const preflight = [
    "access-control-allow-methods",
    METHODS,
    "access-control-allow-headers",
    [...allowedHeaders].join(", "),
    "access-control-max-age",
    MAX_AGE,
  ];
  const answer = ["access-control-expose-headers", EXPOSED];

  const isOpen = origins.includes("*");
  const toAnyOrigin = isOpen ? ["access-control-allow-origin", "*", ...answer] : [];

  function isAllowed(origin: string | undefined): origin is string {
    return origin !== undefined && origins.includes(origin);
  }

  return {
    answerFields(origin) {
      if (isOpen || origins.length === 0) return toAnyOrigin;
      if (!isAllowed(origin)) return ["vary", "origin"];
      return ["access-control-allow-origin", origin, "vary", "origin", ...answer];
    },
    preflightFields: (origin) => (isOpen || isAllowed(origin) ? preflight : []),
  };
}
