import type { Duration, Instant } from "../clock.ts";
import type { Fields } from "../fields.ts";

/** The border of the folder. The cache knows no Fastify, no undici, no metrics and no upstream. */

/** Names an answer of a registry, in memory and in Redis. */
export interface CacheKey {
  /** The admin's party id: whose registry it is. */
  readonly party: string;
  /** Within the registry, for example `info`; made by `registry/key.ts`. */
  readonly name: string;
  /** Kept in the eighth of memory that 404s have: pages behind a token, and what the catalogue reads. */
  readonly isMinor: boolean;
  /** An entry counts when it is of this generation: pages of a listing that has changed are of an earlier one. */
  readonly generation: number;
}

/** How one endpoint's answers are kept: the configuration of the upstream's cache. */
export interface CachePolicy {
  /** Lifetime where the registry says nothing; 0: not stored then. */
  readonly ttl: Duration;
  /** Bound of lifetimes and windows that the registry names. */
  readonly maxTtl: Duration;
  /** Lifetime of a 404; undefined: a 404 is not stored. */
  readonly notFoundTtl: Duration | undefined;
  readonly honorUpstream: boolean;
  readonly clientTtl: Duration;
  readonly staleWhileRevalidate: Duration;
  readonly staleIfError: Duration;
  readonly forwardResponseHeaders: readonly string[];
  /** cache-only: whatever is stored is served, however stale; `fetch` throws what is answered where nothing is. */
  readonly isCacheOnly: boolean;
}

/** A complete answer as fetched. */
export interface Fetched {
  readonly status: number;
  readonly fields: Fields;
  readonly body: Buffer;
  /** The node that gave it: its validators hold there alone. */
  readonly node: string;
  readonly receivedAt: Instant;
  /** Why it must not be stored though its fields allow it, in one token; undefined: nothing speaks against it. */
  readonly unstorable?: string | undefined;
  /** Generation that this answer began; undefined: it is of the one that was asked for. */
  readonly generation?: number | undefined;
}

/** Request fields of a conditional fetch, for the node that gave the entry that is there. */
export interface Condition {
  readonly node: string;
  readonly fields: Fields;
}

/** A client waits for a `miss`, nobody for a `refresh`. */
export type FetchPurpose = "miss" | "refresh";

/** @throws GatewayError where no answer is to be had */
export type Fetch = (condition: Condition | undefined, purpose: FetchPurpose) => Promise<Fetched>;

/** An answer as the cache keeps it. Immutable. */
export interface Entry {
  readonly status: number;
  /** Fields for clients, without the cache's own (`Age`, `Cache-Status`) and without `ETag`. */
  readonly fields: Fields;
  readonly body: Buffer;
  /** The registry's, or made of the body; empty where an answer has none. */
  readonly etag: string;
  readonly validators: Condition | undefined;
  /** Time that clients may keep it where `fields` have no `Cache-Control`; 0: `no-cache`. */
  readonly clientTtl: Duration;
  /** Receipt, less the age that it came with. */
  readonly bornAt: Instant;
  readonly freshUntil: Instant;
  /** Until then it is served while one refresh runs. */
  readonly refreshUntil: Instant;
  /** Until then it is served while the registry fails. */
  readonly errorUntil: Instant;
  readonly epoch: number;
  readonly generation: number;
}

/** How an answer came about: read by `Cache-Status`, the log line and the metric alike. */
export type CacheOutcome = "hit" | "stale" | "revalidated" | "miss";

/** An entry that the cache gives, and how it came by it. */
export interface Found {
  readonly entry: Entry;
  readonly outcome: CacheOutcome;
  /** For `Cache-Status`: why it was not a hit, whether it was stored, which tier had it. */
  readonly detail: {
    readonly forward?: "uri-miss" | "stale";
    readonly stored: boolean;
    /** It waited for a fetch that another request had begun. */
    readonly collapsed?: boolean;
    readonly tier?: "redis";
    readonly reason?: string;
  };
}

/** An entry that one tier has under a key. Durations in ms from now, negative when over. */
export interface ExplainedEntry {
  readonly tier: "memory" | "redis";
  /** `purged`, `earlier-listing` (of pages that have changed since): never used. */
  readonly use: "fresh" | "stale-while-revalidate" | "stale-if-error" | "expired" | "purged" | "earlier-listing";
  readonly status: number;
  readonly bytes: number;
  readonly etag: string;
  readonly age: Duration;
  readonly freshFor: Duration;
  /** How long it is served while one refresh runs. */
  readonly refreshFor: Duration;
  /** How long it stands in for a failure of the registry. */
  readonly errorFor: Duration;
  /** Whether a refresh can be conditional. */
  readonly hasValidators: boolean;
  readonly cacheControl?: string;
}

/** All that is stored of a key, and what the cache would do with it. */
export interface CacheExplanation {
  readonly party: string;
  readonly name: string;
  readonly epoch: number;
  /** Memory first; it is asked first. */
  readonly entries: readonly ExplainedEntry[];
  readonly isFetching: boolean;
  /** Time until the next fetch, where the last one failed: a stale entry is served at once till then. */
  readonly retryIn?: Duration;
}
