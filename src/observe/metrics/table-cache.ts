import { CACHE_OUTCOMES, CACHE_TIERS } from "../../cache/resource.ts";
import { SKIP_REASONS, STALE_REASONS, COLLAPSE_SCOPES, REFRESH_OUTCOMES } from "../../cache/observer.ts";
import { PURGE_REACHES } from "../../sharing/ports.ts";
import { CACHED_OPERATIONS } from "../../spec/operations.ts";
import { AGE, counter, gauge, histogram } from "./definition.ts";
import { ALIAS, ALIAS_OR_NONE, CATALOGUE_BOUND, LEASE_STATE } from "./labels.ts";

/** What the cache does, and how old what it serves is. */
export const CACHE = {
  cacheAnswers: counter("cache_answers", {
    help: "Answers of cached endpoints, by what the cache made of them.",
    labels: { upstream: ALIAS_OR_NONE, operation: CACHED_OPERATIONS, outcome: CACHE_OUTCOMES },
    panel: { title: "Answers by outcome", unit: "per second", by: ["outcome"] },
  }),
  cacheAnswerBytes: counter("cache_answer_bytes", {
    help: "Bytes of bodies of cached endpoints, by what the cache made of them.",
    labels: { operation: CACHED_OPERATIONS, outcome: CACHE_OUTCOMES },
    panel: { title: "Bytes by outcome", unit: "bytes per second", by: ["outcome"] },
  }),
  servedAge: histogram("cache_served_age", {
    help: "Age of the answers of cached endpoints.",
    labels: { operation: CACHED_OPERATIONS },
    buckets: AGE,
    panel: { title: "Age served", unit: "seconds", by: ["operation"] },
  }),
  agePromise: gauge("cache_age_promise_seconds", {
    help: "The oldest answer that the configuration lets be served, over all upstreams.",
    labels: { operation: CACHED_OPERATIONS },
    aggregation: "max",
    panel: { title: "Oldest age allowed", unit: "seconds", by: ["operation"] },
  }),
  cacheLookups: counter("cache_lookups", {
    help: "Lookups in the cache, by the tier that decided and what it found.",
    labels: { tier: CACHE_TIERS, result: CACHE_OUTCOMES },
    panel: { title: "Lookups by tier and result", unit: "per second", by: ["tier", "result"] },
  }),
  cacheSkips: counter("cache_skipped_stores", {
    help: "Answers that were not stored, by reason.",
    labels: { reason: SKIP_REASONS },
    panel: { title: "Answers not stored, by reason", unit: "per second", by: ["reason"] },
  }),
  cacheCollapsed: counter("cache_collapsed", {
    help: "Requests that joined a fetch already under way, by where it runs.",
    labels: { scope: COLLAPSE_SCOPES },
    panel: { title: "Requests that joined a fetch", unit: "per second", by: ["scope"] },
  }),
  cacheStale: counter("cache_stale_served", {
    help: "Stale answers served, by what allowed it.",
    labels: { reason: STALE_REASONS },
    panel: { title: "Stale answers by reason", unit: "per second", by: ["reason"] },
  }),
  cacheRevalidations: counter("cache_revalidations", {
    help: "Entries that an upstream confirmed with a 304.",
    panel: { title: "Entries confirmed by 304", unit: "per second" },
  }),
  cacheRefreshes: counter("cache_refreshes", {
    help: "Background refreshes, by what became of them.",
    labels: { result: REFRESH_OUTCOMES },
    panel: { title: "Background refreshes by result", unit: "per second", by: ["result"] },
  }),
  cacheEvictions: counter("cache_evictions", {
    help: "Entries that the memory tier let go to stay within its bound.",
    panel: { title: "Entries evicted", unit: "per second" },
  }),
  cacheBytes: gauge("cache_bytes", {
    help: "Bytes held by the memory tier.",
    panel: { title: "Bytes in memory", unit: "bytes" },
  }),
  cacheEntries: gauge("cache_entries", {
    help: "Entries held by the memory tier.",
    panel: { title: "Entries in memory", unit: "count" },
  }),
  cacheMaxBytes: gauge("cache_max_bytes", {
    help: "Bound of the memory tier.",
    panel: { title: "Bound of the memory tier", unit: "bytes" },
  }),
  catalogueBytes: gauge("catalogue_bytes", {
    help: "What the instruments cost that the catalogue keeps, about: each process keeps 128 MiB at most.",
    panel: { title: "Bytes of the catalogue", unit: "bytes" },
  }),
  catalogueInstruments: gauge("catalogue_instruments", {
    help: "Instruments of each registry that the catalogue keeps.",
    labels: { upstream: ALIAS },
    aggregation: "max",
    panel: { title: "Instruments in the catalogue", unit: "count", by: ["upstream"] },
  }),
  catalogueCutShort: gauge("catalogue_cut_short", {
    help:
      "1 where the catalogue lacks the end of a registry's listing, by the bound that it met: of one listing, of all that " +
      "are read at a time (bytes_of_all), or of the whole catalogue; else 0. Answers name the registry in X-Registry-Partial.",
    labels: { upstream: ALIAS, reason: CATALOGUE_BOUND },
    aggregation: "max",
    panel: { title: "Registries not wholly in the catalogue", unit: "state", by: ["upstream", "reason"] },
  }),
  leases: gauge("leases", {
    help: "Fetches that one replica makes for all that share a Redis: those this one makes, and those it waits for.",
    labels: { state: LEASE_STATE },
    panel: { title: "Fetches for all replicas", unit: "count", by: ["state"] },
  }),
  chainResets: counter("page_chain_resets", {
    help: "Pages that changed, so that the pages behind them had to be asked for anew.",
    labels: { upstream: ALIAS },
    panel: { title: "Page chains begun anew", unit: "per second", by: ["upstream"] },
  }),
  supplyAsOf: gauge("supply_as_of_timestamp_seconds", {
    help: "The newest totalSupplyAsOf that the registry has sent, as Unix time.",
    labels: { upstream: ALIAS },
    aggregation: "max",
    panel: { title: "Age of supplies (totalSupplyAsOf)", unit: "age", by: ["upstream"] },
  }),
  purges: counter("purges", {
    help: "Purges asked for here, by how far they got.",
    labels: { reach: PURGE_REACHES },
    panel: { title: "Purges by reach", unit: "per second", by: ["reach"] },
  }),
  purgeLag: histogram("purge_lag", {
    help: "From a purge by another replica to its taking effect here.",
    panel: { title: "Lag of purges", unit: "seconds" },
  }),
} as const;
