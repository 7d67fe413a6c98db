import type { Fields } from "../fields.ts";

/** CORS fields for answers and for preflights. */
export interface Cors {
  /** Fields of an answer to a request with this `Origin` (undefined: none). */
  answerFields(origin: string | undefined): Fields;
  /** What the answer to a preflight has besides: what the browser may send. */
  preflightFields(origin: string | undefined): Fields;
}

const EXPOSED = "age, etag, cache-status, proxy-status, retry-after, x-request-id, x-registry-partial";
const METHODS = "GET, HEAD, POST, OPTIONS";
const MAX_AGE = "7200";

/**
 * CORS as browser wallets need it: on every answer, errors too. Credentials are never allowed: cookies mean nothing
 * here, and a bearer token is an ordinary header.
 *
 * @param origins `cors.origins`; `*` allows every origin
 */
export function createCors(origins: readonly string[], adminHeader: string): Cors {
  const allowedHeaders = `authorization, content-type, ${adminHeader}, x-request-id, traceparent, request-timeout`;
  const preflight = [
    "access-control-allow-methods",
    METHODS,
    "access-control-allow-headers",
    allowedHeaders,
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
