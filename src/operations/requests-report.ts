import { GatewayError } from "../errors.ts";
import type { RequestFilter } from "../observe/request-log.ts";
import { readLimit, readQuery } from "./query.ts";

const KEYS = ["limit", "since", "outcome", "code", "upstream", "client"] as const;

/** The form of a cursor. */
const CURSOR = /^[0-9a-z]{1,32}\.[0-9a-z]{1,32}$/;

/**
 * @throws GatewayError 400 for another parameter, one that is given twice, a `limit` that is no number from 1 to 500, and
 * a `since` that never was a cursor
 */
export function parseRequestFilter(query: unknown): RequestFilter {
  const { limit, ...wanted } = readQuery(query, KEYS);
  const { since } = wanted;
  if (since !== undefined && !CURSOR.test(since)) {
    throw new GatewayError("invalid_query", "since must be the cursor of an earlier answer of this path");
  }
  return { limit: readLimit(limit), ...wanted };
}
