import { GatewayError } from "../errors.ts";
import type { RecentRequest, RequestFilter } from "../observe/recent-requests.ts";

/** What `GET /requests` answers: the latest first. */
export interface RequestsReport {
  readonly requests: readonly RecentRequest[];
}

/** As many as are kept. */
const MAX_LIMIT = 500;

const KEYS = ["outcome", "code", "upstream", "client"] as const;

/** @throws GatewayError 400 for another parameter, one that is given twice, and a `limit` that is no number from 1 to 500 */
export function parseRequestFilter(query: unknown): RequestFilter {
  const { limit = String(MAX_LIMIT), ...wanted } = query as Readonly<Record<string, unknown>>;
  if (typeof limit !== "string" || !/^[0-9]{1,3}$/.test(limit) || Number(limit) < 1 || Number(limit) > MAX_LIMIT) {
    throw new GatewayError("invalid_query", `limit must be a whole number from 1 to ${MAX_LIMIT}, given once`);
  }
  for (const [key, value] of Object.entries(wanted)) {
    if (!KEYS.some((known) => known === key) || typeof value !== "string") {
      throw new GatewayError("invalid_query", `this path takes limit, ${KEYS.join(", ")}, each of them once`);
    }
  }
  return { limit: Number(limit), ...wanted };
}

/** What several workers had, in the order of time. */
export function mergeRequests(reports: readonly RequestsReport[], limit: number): RequestsReport {
  const requests = reports.flatMap((report) => report.requests);
  return { requests: requests.toSorted((one, other) => other.at.localeCompare(one.at)).slice(0, limit) };
}
