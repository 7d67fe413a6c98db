import { GatewayError } from "../errors.ts";
import type { RequestFilter } from "../observe/request-log.ts";

/** As many as are kept. */
const MAX_LIMIT = 500;

const KEYS = ["outcome", "code", "upstream", "client"] as const;

/** The form of a cursor. */
const CURSOR = /^[0-9a-z]{1,32}\.[0-9a-z]{1,32}$/;

/**
 * @throws GatewayError 400 for another parameter, one that is given twice, a `limit` that is no number from 1 to 500, and
 * a `since` that never was a cursor
 */
export function parseRequestFilter(query: unknown): RequestFilter {
  const { limit = String(MAX_LIMIT), ...wanted } = query as Readonly<Record<string, unknown>>;
  if (typeof limit !== "string" || !/^[0-9]{1,3}$/.test(limit) || Number(limit) < 1 || Number(limit) > MAX_LIMIT) {
    throw new GatewayError("invalid_query", `limit must be a whole number from 1 to ${MAX_LIMIT}, given once`);
  }
  for (const [key, value] of Object.entries(wanted)) {
    const isKnown = key === "since" || KEYS.some((known) => known === key);
    if (!isKnown || typeof value !== "string") {
      throw new GatewayError("invalid_query", `this path takes limit, since, ${KEYS.join(", ")}, each of them once`);
    }
  }
  const { since } = wanted;
  if (typeof since === "string" && !CURSOR.test(since)) {
    throw new GatewayError("invalid_query", "since must be the cursor of an earlier answer of this path");
  }
  return { limit: Number(limit), ...wanted };
}
