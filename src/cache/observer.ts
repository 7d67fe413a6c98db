import type { CacheOutcome, CacheTier } from "./resource.ts";
import type { CacheKey } from "../sharing/entries.ts";

/** Why an answer was not stored. */
export const SKIP_REASONS = [
  /** The upstream: `no-store`, `private`, `Vary: *`, or the response to a request with Authorization (RFC 9111 §3). */
  "no-store",
  "private",
  "vary",
  "authorization",
  /** A status this policy or `must-understand` does not let be stored. */
  "status",
  /** The upstream gives no freshness and the configured TTL is 0. */
  "ttl",
  /** Stale on arrival, no window to serve it in, and no validator to renew it by. */
  "useless",
  /** A page behind a token that no page issued. */
  "unissued-token",
  /** Purged, or its page chain changed, while it was fetched. */
  "purged",
  /** What is stored was received after this was asked for, so it may be newer. */
  "superseded",
  /** A failure while an entry that may still be used is stored. */
  "failure",
  /** Larger than the largest object. */
  "too-large",
  /** The caller's reason, for example a body that breaks the schema. */
  "unstorable",
] as const;
export type SkipReason = (typeof SKIP_REASONS)[number];

/** Where the fetch runs that a request joined. */
type CollapseScope = "process" | "replicas";

/** What allowed a stale answer. */
export const STALE_REASONS = ["stale-while-revalidate", "stale-if-error", "max-stale", "cache-only"] as const;
export type StaleReason = (typeof STALE_REASONS)[number];

/** What became of a background refresh. */
export const REFRESH_OUTCOMES = ["stored", "revalidated", "not-stored", "failed"] as const;
type RefreshOutcome = (typeof REFRESH_OUTCOMES)[number];

/** Is notified of what the cache does; for metrics and logs. Must not throw, and is called on every hit: keep it cheap. */
export interface CacheObserver {
  /** One answer was given. */
  lookup(key: CacheKey, tier: CacheTier, outcome: CacheOutcome): void;
  skipped(key: CacheKey, reason: SkipReason): void;
  /** A request joined a fetch that was already running: in this process, or in another one at the same shared tier. */
  collapsed(key: CacheKey, scope: CollapseScope): void;
  servedStale(key: CacheKey, reason: StaleReason): void;
  refreshed(key: CacheKey, outcome: RefreshOutcome): void;
  /** The memory tier gave up an entry for space. */
  evicted(): void;
}
