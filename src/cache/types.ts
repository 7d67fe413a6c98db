import type { Duration, Instant } from "../clock.ts";
import type { Fields } from "../fields.ts";

/** The border of the folder. The cache knows no Fastify, no undici, no metrics and no upstream. */

export interface CacheKey {
  /** The admin's party id: whose registry it is. */
  readonly party: string;
  /** Within the registry, for example `info`; made by `registry/key.ts`. */
  readonly name: string;
  /** Pages behind a token share an eighth of the memory with 404s. */
  readonly isMinor: boolean;
  /** An entry counts when it is of this generation: pages of a listing that has changed are of an earlier one. */
  readonly generation: number;
}

export interface CachePolicy {
  /** Where the registry says nothing; 0: not stored then. */
  readonly ttl: Duration;
  readonly maxTtl: Duration;
  /** Of a 404; undefined: a 404 is not stored. */
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
  /** Of what this answer itself begins; undefined: of the generation that was asked for. */
  readonly generation?: number | undefined;
}

/** Validators of the entry that is there, for the node that gave them. */
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
  /** What clients may keep where `fields` have no `Cache-Control`; 0: `no-cache`. */
  readonly clientTtl: Duration;
  /** The age began here: received, less the age that it came with. */
  readonly bornAt: Instant;
  readonly freshUntil: Instant;
  /** Served while one refresh runs. */
  readonly refreshUntil: Instant;
  /** Served while the registry fails. */
  readonly errorUntil: Instant;
  readonly epoch: number;
  readonly generation: number;
}

/** How an answer came about: read by `Cache-Status`, the log line and the metric alike. */
export type CacheOutcome = "hit" | "stale" | "revalidated" | "miss" | "bypass";

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
  /** The last fetch failed: a stale entry is served at once, and the next try is in so many ms; undefined: it did not. */
  readonly retryIn?: Duration;
}
