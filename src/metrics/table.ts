import { OPERATIONS } from "../spec/endpoints.ts";
import { AGE, counter, gauge, histogram } from "./definition.ts";
import {
  ALIAS,
  ALIAS_OR_NONE,
  ATTEMPT_OUTCOME,
  BREAKER_STATE,
  CACHE_OUTCOME,
  CACHED_OPERATION,
  CALL_KIND,
  CHECK_OUTCOME,
  FAILURE_REASON,
  HEDGE_RESULT,
  NODE_STATE,
  OPERATION,
  OUTCOME,
  PURGE_REACH,
  REDIS_OUTCOME,
  REFRESH_OUTCOME,
  REFUSAL,
  RELOAD_RESULT,
  SKIP_REASON,
  STALE_REASON,
  STATUS,
  STATUS_CLASS,
  TIER,
  UPSTREAM_STATE,
} from "./labels.ts";

const CACHED = CACHED_OPERATION.length;
const UNCACHED = OPERATION.length - CACHED;

/**
 * Every metric of the gateway: the source of the client's objects, of the table in the documentation, and of what the
 * dashboards and rules may refer to.
 *
 * Labels are bounded: an operation is one of the endpoints, an upstream is called by its alias, and no party, contract
 * or instrument id is a label ever.
 */
export const METRICS = {
  requests: counter("requests", {
    help: "Requests answered, by endpoint, registry and class of status.",
    labels: { operation: OPERATION, upstream: ALIAS_OR_NONE, status: STATUS_CLASS },
    // 1xx is never final; 3xx is a 304 of the cache or passed through.
    series: (upstreams) => (upstreams + 1) * (OPERATION.length * 4 + CACHED + 1),
  }),
  responses: counter("responses", {
    help: "Requests answered, by exact status; 499: the client went away first.",
    labels: { status: STATUS },
  }),
  requestDuration: histogram("request_duration", {
    help: "From the request's head to the answer's last byte.",
    labels: { operation: OPERATION, outcome: OUTCOME },
    // What is not cached is either sent on or refused.
    series: () => CACHED * OUTCOME.length + UNCACHED * 2,
  }),
  requestsInFlight: gauge("requests_in_flight", { help: "Requests not answered yet, memory hits apart." }),
  cacheAnswers: counter("cache_answers", {
    help: "Answers of cached endpoints, by what the cache made of them.",
    labels: { upstream: ALIAS_OR_NONE, operation: CACHED_OPERATION, outcome: CACHE_OUTCOME },
  }),
  cacheAnswerBytes: counter("cache_answer_bytes", {
    help: "Bytes of bodies of cached endpoints, by what the cache made of them.",
    labels: { operation: CACHED_OPERATION, outcome: CACHE_OUTCOME },
  }),
  servedAge: histogram("cache_served_age", {
    help: "Age of the answers of cached endpoints.",
    labels: { operation: CACHED_OPERATION },
    buckets: AGE,
  }),
  cacheLookups: counter("cache_lookups", {
    help: "Lookups in the cache, by the tier that decided and what it found.",
    labels: { tier: TIER, result: CACHE_OUTCOME },
  }),
  cacheSkips: counter("cache_skipped_stores", {
    help: "Answers that were not stored, by reason.",
    labels: { reason: SKIP_REASON },
  }),
  cacheCollapsed: counter("cache_collapsed", { help: "Requests that joined a fetch already under way." }),
  cacheStale: counter("cache_stale_served", {
    help: "Stale answers served, by what allowed it.",
    labels: { reason: STALE_REASON },
  }),
  cacheRevalidations: counter("cache_revalidations", { help: "Entries that an upstream confirmed with a 304." }),
  cacheRefreshes: counter("cache_refreshes", {
    help: "Background refreshes, by what became of them.",
    labels: { result: REFRESH_OUTCOME },
  }),
  cacheEvictions: counter("cache_evictions", {
    help: "Entries that the memory tier let go to stay within its bound.",
  }),
  cacheBytes: gauge("cache_bytes", { help: "Bytes held by the memory tier." }),
  cacheEntries: gauge("cache_entries", { help: "Entries held by the memory tier." }),
  cacheMaxBytes: gauge("cache_max_bytes", { help: "Bound of the memory tier." }),
  chainResets: counter("page_chain_resets", {
    help: "Pages that changed, so that the pages behind them had to be asked for anew.",
    labels: { upstream: ALIAS },
  }),
  supplyAsOf: gauge("supply_as_of_timestamp_seconds", {
    help: "The newest totalSupplyAsOf that the registry has sent, as Unix time.",
    labels: { upstream: ALIAS },
    aggregation: "max",
  }),
  purges: counter("purges", { help: "Purges asked for here, by how far they got.", labels: { reach: PURGE_REACH } }),
  purgeLag: histogram("purge_lag", { help: "From a purge by another replica to its taking effect here." }),

  upstreamState: gauge("upstream_state", {
    help: "1 for the state the upstream is in, 0 for the others.",
    labels: { upstream: ALIAS, state: UPSTREAM_STATE },
    aggregation: "max",
  }),
  upstreamNodes: gauge("upstream_nodes", {
    help: "Nodes of the upstream in each state.",
    labels: { upstream: ALIAS, state: NODE_STATE },
    aggregation: "max",
  }),
  upstreamAttempts: counter("upstream_attempts", {
    help: "Calls sent to nodes, retries and hedges included, checks apart; error: an error of the registry's own.",
    labels: { upstream: ALIAS, outcome: ATTEMPT_OUTCOME },
  }),
  upstreamFailures: counter("upstream_attempt_failures", {
    help: "Calls to nodes without a usable answer, by reason.",
    labels: { upstream: ALIAS, reason: FAILURE_REASON },
  }),
  upstreamDuration: histogram("upstream_attempt_duration", {
    help: "From sending a call to a node to the end of its answer.",
    labels: { upstream: ALIAS, kind: CALL_KIND },
  }),
  upstreamInFlight: gauge("upstream_calls_in_flight", {
    help: "Calls to the upstream that run.",
    labels: { upstream: ALIAS },
  }),
  upstreamQueued: gauge("upstream_calls_queued", {
    help: "Calls to the upstream that wait for their turn.",
    labels: { upstream: ALIAS },
  }),
  upstreamMaxInFlight: gauge("upstream_calls_max_in_flight", {
    help: "Calls to the upstream that may run at once.",
    labels: { upstream: ALIAS },
  }),
  upstreamRefused: counter("upstream_refused_calls", {
    help: "Calls refused before any attempt, by reason.",
    labels: { upstream: ALIAS, reason: REFUSAL },
  }),
  breakerState: gauge("upstream_breaker_state", {
    help: "The circuit breaker: 0 closed, 1 half-open, 2 open.",
    labels: { upstream: ALIAS },
    aggregation: "max",
  }),
  breakerTransitions: counter("upstream_breaker_transitions", {
    help: "Changes of the circuit breaker, by the state it changed to.",
    labels: { upstream: ALIAS, state: BREAKER_STATE },
  }),
  upstreamEjections: counter("upstream_node_ejections", {
    help: "Nodes taken out because they failed or were too slow.",
    labels: { upstream: ALIAS },
  }),
  upstreamChecks: counter("upstream_node_checks", {
    help: "Checks of nodes' info.",
    labels: { upstream: ALIAS, outcome: CHECK_OUTCOME },
  }),
  upstreamRetries: counter("upstream_retries", {
    help: "Further attempts after one that failed.",
    labels: { upstream: ALIAS },
  }),
  retriesExhausted: counter("upstream_retry_budget_exhausted", {
    help: "Further attempts not made because the retry budget was spent.",
    labels: { upstream: ALIAS },
  }),
  upstreamRetriesLeft: gauge("upstream_retries_left", {
    help: "Further attempts that the retry budget allows now.",
    labels: { upstream: ALIAS },
  }),
  upstreamHedges: counter("upstream_hedges", {
    help: "Second calls to another node because the first was slow.",
    labels: { upstream: ALIAS, result: HEDGE_RESULT },
  }),
  callBudget: gauge("upstream_call_budget", {
    help: "Calls that rateLimit allows in one window.",
    labels: { upstream: ALIAS },
    aggregation: "max",
  }),
  callBudgetLeft: gauge("upstream_call_budget_left", {
    help: "Calls left in the window of rateLimit as last seen.",
    labels: { upstream: ALIAS },
    aggregation: "min",
  }),
  callBudgetShare: gauge("upstream_call_budget_share", {
    help: "Share of rateLimit that is used: less than 1 for a while after the upstream answered 429.",
    labels: { upstream: ALIAS },
    aggregation: "min",
  }),
  adminProved: gauge("upstream_admin_proved", {
    help: "1 once a node has proved the upstream's admin.",
    labels: { upstream: ALIAS },
    aggregation: "max",
  }),
  adminMismatches: counter("upstream_admin_mismatches", {
    help: "Checks in which a node named another admin than expected.",
    labels: { upstream: ALIAS },
  }),
  credentialFailures: counter("upstream_credential_failures", {
    help: "Credentials that could not be read or fetched.",
    labels: { upstream: ALIAS },
  }),
  schemaViolations: counter("schema_violations", {
    help: "Answers of upstreams that break the published schema.",
    labels: { upstream: ALIAS, operation: OPERATIONS },
  }),

  redisConfigured: gauge("redis_configured", { help: "1 where a Redis is configured.", aggregation: "max" }),
  redisUp: gauge("redis_up", { help: "1 while Redis may be read and written.", aggregation: "min" }),
  redisCommands: counter("redis_commands", {
    help: "Commands to Redis, by how they ended.",
    labels: { outcome: REDIS_OUTCOME },
  }),
  redisDuration: histogram("redis_command_duration", { help: "From sending a command to its reply or its end." }),
  redisDroppedWrites: counter("redis_dropped_writes", {
    help: "Values not written to Redis because too many were waiting.",
  }),
  redisRejectedValues: counter("redis_rejected_values", {
    help: "Values in Redis that were damaged or somebody else's, and were taken for absent.",
  }),

  reloads: counter("config_reloads", {
    help: "Reloads of the configuration, by result.",
    labels: { result: RELOAD_RESULT },
  }),
  lastReloadGood: gauge("config_last_reload_successful", {
    help: "1 while the configuration file, as last read, is the one in use.",
    aggregation: "min",
  }),
  lastReloadTime: gauge("config_last_reload_success_timestamp_seconds", {
    help: "When a configuration was last put to use, as Unix time.",
    aggregation: "max",
  }),
  eventLoopActive: counter("event_loop_active_seconds", { help: "Time in which the event loop was busy." }),
  eventLoopIdle: counter("event_loop_idle_seconds", { help: "Time in which the event loop waited." }),
  buildInfo: gauge("build_info", {
    help: "Always 1; the version is in the label.",
    labels: { version: ALIAS },
    series: () => 1,
    aggregation: "first",
  }),
} as const;

export type MetricKey = keyof typeof METRICS;
