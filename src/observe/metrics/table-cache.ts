import { CACHE_OUTCOMES, REFRESH_OUTCOMES, SKIP_REASONS, STALE_REASONS } from "../../cache/resource.ts";
import { PURGE_REACHES } from "../../sharing/ports.ts";
import { CACHED_OPERATIONS } from "../../spec/operations.ts";
import { CHANGE_TYPES } from "../../spec/schemas.ts";
import { AGE, counter, gauge, histogram } from "./definition.ts";
import { ALIAS, ALIAS_OR_NONE, CALL_SPARED_BY, CATALOGUE_BOUND, LEASE_STATE } from "./labels.ts";

/** What the cache does, and how old what it serves is. */
export const CACHE = {
  cacheAnswers: counter("cache_answers", {
    help: "Answers of cached endpoints, by what the cache made of them.",
    labels: { upstream: ALIAS_OR_NONE, operation: CACHED_OPERATIONS, outcome: CACHE_OUTCOMES },
  }),
  servedAge: histogram("cache_served_age", {
    help: "Age of the answers of cached endpoints.",
    labels: { operation: CACHED_OPERATIONS },
    buckets: AGE,
  }),
  windowUsed: histogram("cache_stale_window_used", {
    unit: "ratio",
    help: "Of each answer that stood in for a failure, how much of the time for which it may (staleIfError) was over.",
    labels: { operation: CACHED_OPERATIONS },
    buckets: [0.25, 0.5, 0.8, 1],
  }),
  cacheSkips: counter("cache_skipped_stores", {
    help: "Answers that were not stored, by reason.",
    labels: { reason: SKIP_REASONS },
  }),
  cacheStale: counter("cache_stale_served", {
    help: "Stale answers served, by what allowed it.",
    labels: { reason: STALE_REASONS },
  }),
  cacheRefreshes: counter("cache_refreshes", {
    help: "Background refreshes, by what became of them.",
    labels: { result: REFRESH_OUTCOMES },
  }),
  cacheEvictions: counter("cache_evictions", {
    help: "Entries that the memory tier let go to stay within its bound.",
  }),
  cacheBytes: gauge("cache_bytes", {
    resetBy: "reading",
    help: "Bytes held by the memory tier.",
  }),
  cacheEntries: gauge("cache_entries", {
    resetBy: "reading",
    help: "Entries held by the memory tier.",
  }),
  cacheMaxBytes: gauge("cache_max_bytes", {
    resetBy: "reading",
    help: "Bound of the memory tier.",
  }),
  callsSpared: counter("context_calls_spared", {
    help:
      "Factories and choice contexts that clients got without a call of their own (upstreams[].contexts): shared, by a call " +
      "that was running; kept, by an answer that the registry lets be reused.",
    labels: { upstream: ALIAS, by: CALL_SPARED_BY },
  }),
  contextBytes: gauge("context_bytes", {
    resetBy: "reading",
    help: "What the kept factories and choice contexts take: 16 MiB at most.",
  }),
  catalogueBytes: gauge("catalogue_bytes", {
    resetBy: "reading",
    help: "What the instruments cost that the catalogue keeps, about: each process keeps 128 MiB at most.",
  }),
  catalogueCutShort: gauge("catalogue_cut_short", {
    resetBy: "reading",
    help:
      "1 where the catalogue lacks the end of a registry's listing, by the bound that it met: of one listing, of all that " +
      "are read at a time (bytes_of_all), or of the whole catalogue; else 0. Answers name the registry in X-Registry-Partial.",
    labels: { upstream: ALIAS, reason: CATALOGUE_BOUND },
  }),
  changes: counter("catalogue_changes", {
    help: "Changes of the catalogue that this replica learned of while it ran, found by itself or by another one.",
    labels: { type: CHANGE_TYPES },
  }),
  subscribers: gauge("catalogue_subscribers", {
    resetBy: "reading",
    help: "Clients that follow the changes of the catalogue as they come.",
  }),
  leases: gauge("leases", {
    resetBy: "reading",
    help: "Fetches that one replica makes for all that share a Redis: those this one makes, and those it waits for.",
    labels: { state: LEASE_STATE },
  }),
  supplyAsOf: gauge("supply_as_of_timestamp_seconds", {
    help: "The newest totalSupplyAsOf that the registry has sent, as Unix time.",
    labels: { upstream: ALIAS },
  }),
  purges: counter("purges", {
    help: "Purges asked for here, by how far they got.",
    labels: { reach: PURGE_REACHES },
  }),
  purgeLag: histogram("purge_lag", {
    help: "From a purge by another replica to its taking effect here.",
  }),
} as const;
