import { CACHE } from "./table-cache.ts";
import { CLIENTS, TRAFFIC } from "./table-traffic.ts";
import { DISCOVERY, UPSTREAM } from "./table-upstream.ts";
import { PROCESS, REDIS } from "./table-process.ts";

/** The metrics by what they are about; the dashboards have a row for each. */
export const METRIC_GROUPS = {
  Traffic: TRAFFIC,
  Clients: CLIENTS,
  Cache: CACHE,
  Upstreams: UPSTREAM,
  Discovery: DISCOVERY,
  Redis: REDIS,
  Process: PROCESS,
} as const;

/**
 * Every metric of the gateway: the source of the client's objects, of the table in the documentation, and of what the
 * dashboards and rules may refer to.
 *
 * Labels are bounded: an operation is one of the endpoints, an upstream is called by its alias, and no party, contract
 * or instrument id is a label ever.
 */
export const METRICS = { ...TRAFFIC, ...CLIENTS, ...CACHE, ...UPSTREAM, ...DISCOVERY, ...REDIS, ...PROCESS } as const;

export type MetricKey = keyof typeof METRICS;
