import { Counter, Gauge, Histogram, Registry } from "@prometheus-io/client";

/** Seconds, from a memory hit to the longest configured deadline. */
const LATENCY_BUCKETS = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 15, 30, 60];

interface Definition<Type extends "counter" | "gauge" | "histogram", Label extends string> {
  readonly type: Type;
  readonly name: string;
  readonly help: string;
  readonly labels: readonly Label[];
  readonly buckets?: readonly number[];
}

function counter<const Label extends string>(name: string, help: string, labels: readonly Label[]) {
  return { type: "counter", name: `registry_gateway_${name}_total`, help, labels } satisfies Definition<
    "counter",
    Label
  >;
}

function gauge<const Label extends string>(name: string, help: string, labels: readonly Label[]) {
  return { type: "gauge", name: `registry_gateway_${name}`, help, labels } satisfies Definition<"gauge", Label>;
}

function histogram<const Label extends string>(name: string, help: string, labels: readonly Label[]) {
  return {
    type: "histogram",
    name: `registry_gateway_${name}`,
    help,
    labels,
    buckets: LATENCY_BUCKETS,
  } satisfies Definition<"histogram", Label>;
}

/**
 * Every metric of the gateway. Labels are bounded: `operation` is one of the endpoints, `upstream` an alias, never a
 * party, contract or instrument id.
 */
export const METRICS = {
  requests: counter("requests", "Requests answered, by what they asked for and how they were answered.", [
    "operation",
    "upstream",
    "status",
    "outcome",
  ]),
  requestDuration: histogram("request_duration_seconds", "From the request's head to the answer's last byte.", [
    "operation",
    "outcome",
  ]),
  upstreamAttempts: counter("upstream_attempts", "Calls sent to upstream nodes, retries and hedges included.", [
    "upstream",
    "operation",
    "outcome",
  ]),
  upstreamDuration: histogram("upstream_attempt_duration_seconds", "From sending a call to the end of its answer.", [
    "upstream",
    "operation",
  ]),
  cacheLookups: counter("cache_lookups", "Lookups in the cache, by the tier that decided and what it found.", [
    "tier",
    "result",
  ]),
  cacheSkips: counter("cache_skipped_stores", "Answers that were not stored, by reason.", ["reason"]),
  cacheCollapsed: counter("cache_collapsed", "Requests that joined a fetch already under way.", ["scope"]),
  cacheStale: counter("cache_stale_served", "Stale answers served, by why that was allowed.", ["reason"]),
  cacheRevalidations: counter("cache_revalidations", "Conditional requests to upstreams, by what they found.", [
    "result",
  ]),
  cacheRefreshes: counter("cache_refreshes", "Background refreshes, by why they ran.", ["reason"]),
  cacheEvictions: counter("cache_evictions", "Entries that the memory tier let go to stay within its bound.", []),
  cacheBytes: gauge("cache_bytes", "Bytes held by the memory tier.", []),
  cacheEntries: gauge("cache_entries", "Entries held by the memory tier.", []),
  cacheMaxBytes: gauge("cache_max_bytes", "Bound of the memory tier.", []),
  schemaViolations: counter("schema_violations", "Answers of upstreams that break the published schema.", [
    "upstream",
    "operation",
  ]),
  purges: counter("purges", "Purges asked for, by how far they got.", ["reach"]),
  buildInfo: gauge("build_info", "Always 1; the version of the gateway is in the label.", ["version"]),
} as const;

type Instrument<D> =
  D extends Definition<"counter", infer L>
    ? Counter<L>
    : D extends Definition<"gauge", infer L>
      ? Gauge<L>
      : D extends Definition<"histogram", infer L>
        ? Histogram<L>
        : never;

export type Metrics = { readonly [K in keyof typeof METRICS]: Instrument<(typeof METRICS)[K]> };

/** All metrics, registered in a registry of their own, with its exposition. */
export function createMetrics(): { metrics: Metrics; registry: Registry } {
  const registry = new Registry();
  const metrics = Object.fromEntries(
    Object.entries(METRICS).map(([key, definition]) => {
      const { type, name, help } = definition;
      const options = { name, help, labelNames: [...definition.labels], registers: [registry] };
      switch (type) {
        case "counter":
          return [key, new Counter(options)];
        case "gauge":
          return [key, new Gauge(options)];
        case "histogram":
          return [key, new Histogram({ ...options, buckets: [...definition.buckets] })];
      }
    }),
  ) as unknown as Metrics;
  return { metrics, registry };
}
