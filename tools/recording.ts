import type { CallKind } from "../src/observe/metrics/labels.ts";
import { aggregate, Queries, ratio, sum } from "./promql.ts";

/** A question that is asked often, with its answer kept under a name of its own. */
export interface RecordingRule {
  readonly record: string;
  readonly expr: string;
}

export const q = new Queries([], "5m");
export const JOB = ["job"];
export const INSTANCE = ["job", "instance"];
export const UPSTREAM = ["job", "upstream"];

export const errorRatio = (range: string) => `job:registry_gateway_request_errors:ratio_rate${range}`;
export const HIT_RATIO = "job:registry_gateway_cache_hits:ratio_rate30m";
export const STALE_RATIO = "job:registry_gateway_cache_stale:ratio_rate5m";
export const AMPLIFICATION = "job_upstream:registry_gateway_upstream_calls:amplification_rate5m";
export const BUDGET_USED = "job_upstream:registry_gateway_upstream_rate_limit:used_ratio";
export const BUSY = "job_instance:registry_gateway_event_loop:utilization_rate5m";

/** Of a registry's calls of one kind: not those that the gateway refused by its own limits. */
export const UPSTREAM_KIND = [...UPSTREAM, "kind"];
export const failureRatio = (range: string) =>
  `job_upstream_kind:registry_gateway_upstream_call_failures:ratio_rate${range}`;
export const failures = (range: string, kind?: CallKind) =>
  sum(
    UPSTREAM_KIND,
    q.over(range).increase("upstreamCalls", { outcome: "failed", ...(kind === undefined ? {} : { kind }) }),
  );

const extraCalls = `(${q.rate("upstreamRetries")} or ${q.rate("upstreamHedges", { result: "started" })})`;

/** In the order of evaluation. */
export const RECORDING_RULES: readonly RecordingRule[] = [
  ...["5m", "30m", "1h", "6h"].map((range) => ({
    record: errorRatio(range),
    expr: ratio(JOB, q.over(range).rate("requests", { status: "5xx" }), q.over(range).rate("requests")),
  })),
  ...["10m", "1h"].map((range) => ({
    record: failureRatio(range),
    expr: ratio(
      UPSTREAM_KIND,
      q.over(range).rate("upstreamCalls", { outcome: "failed" }),
      q.over(range).rate("upstreamCalls"),
    ),
  })),
  {
    record: HIT_RATIO,
    expr: ratio(
      JOB,
      q.over("30m").rate("cacheAnswers", { outcome: ["hit", "stale", "revalidated"] }),
      q.over("30m").rate("cacheAnswers", { outcome: { not: ["bypass"] } }),
    ),
  },
  {
    record: STALE_RATIO,
    expr: ratio(JOB, q.rate("cacheAnswers", { outcome: "stale" }), q.rate("cacheAnswers")),
  },
  {
    record: AMPLIFICATION,
    expr: `1 / (1 - clamp_max(${ratio(UPSTREAM, extraCalls, q.rate("upstreamAttempts"))}, 0.99))`,
  },
  {
    record: BUDGET_USED,
    expr: `1 - ${aggregate("min", UPSTREAM, q.series("rateLimitLeft"))} / ${aggregate("max", UPSTREAM, q.series("rateLimit"))}`,
  },
  {
    record: BUSY,
    expr: ratio(INSTANCE, q.rate("eventLoopActive"), `(${q.rate("eventLoopActive")} + ${q.rate("eventLoopIdle")})`),
  },
];

/** The share of what takes longer than one of the buckets' bounds, in seconds. */
export function slowShare(
  key: "requestDuration" | "upstreamDuration",
  by: readonly string[],
  bound: number,
  matches: { readonly outcome?: "hit" } = {},
): string {
  const over = q.over("10m");
  const all = sum(by, over.rate(key, matches, "_count"));
  const quick = sum(
    by,
    over.rate(key, matches, "_bucket").replace(/\}?\[/, (end) => (end === "[" ? "{" : ",") + `le="${bound}"}[`),
  );
  return `(1 - ${quick} / (${all} > 0))`;
}

export const REPLICAS = `count by (job) (${q.series("buildInfo")})`;
const WITHIN_AN_HOUR = `last_over_time(${q.series("buildInfo")}[1h])`;
/** 0 of a job that had one within the last hour and has none, and where no job had one. */
export const REPLICAS_OF_ALL_JOBS = `(${REPLICAS} or 0 * count by (job) (${WITHIN_AN_HOUR}) or (vector(0) unless on () ${WITHIN_AN_HOUR}))`;
/** The most that lasted five minutes within half an hour: not the one more that an upgrade starts before it ends another. */
export const REPLICAS_BEFORE = `max_over_time(min_over_time(${REPLICAS}[5m:15s])[30m:15s])`;
/** Of jobs that have a gateway which answers. */
export const TARGETS_DOWN = `count by (job) ((up == 0) and on (job) ${REPLICAS})`;
