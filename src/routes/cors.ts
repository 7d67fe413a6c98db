import type { Fields } from "../fields.ts";

/** CORS fields for answers and for preflights. */
export interface Cors {
  /** Fields of an answer to a request with this `Origin` (undefined: none). */
  answerFields(origin: string | undefined): Fields;
  /** Fields of the answer to a preflight. */
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

  function allow(origin: string | undefined, fields: Fields): Fields {
    if (origins.includes("*")) return ["access-control-allow-origin", "*", ...fields];
    if (origins.length === 0) return [];
    if (origin === undefined || !origins.includes(origin)) return ["vary", "origin"];
    return ["access-control-allow-origin", origin, "vary", "origin", ...fields];
  }

  const toAnyOrigin = allow(undefined, answer);
  const isSame = origins.length === 0 || origins.includes("*");
  return {
    answerFields: (origin) => (isSame ? toAnyOrigin : allow(origin, answer)),
    preflightFields: (origin) => allow(origin, preflight),
  };
}
