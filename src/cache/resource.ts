import type { IncomingHttpHeaders } from "node:http";
import type { Duration, Instant } from "../clock.ts";
import type { Fields } from "../fields.ts";
import type { Entry } from "./entry.ts";
import type { CacheStatus } from "./rfc/cache-status.ts";
import type { CachePolicy } from "./policy.ts";
import type { CacheKey } from "./stores/store.ts";

/** One request that the cache needs sent upstream. It is always a GET. */
export interface FetchRequest {
  /** `if-none-match` and `if-modified-since` to send (RFC 9111 §4.3.1); empty when nothing is validated. */
  readonly conditional: Fields;
  /** The client's, to take forwarded fields from: exactly those of `forwardedFields`. */
  readonly headers: IncomingHttpHeaders;
  readonly purpose: "miss" | "refresh";
  readonly deadline: Instant;
  readonly signal: AbortSignal;
  /** The epoch under which the answer will be stored; undefined: it will not be. */
  readonly epoch: string | undefined;
}

/** A complete answer of the upstream, of any status. */
export interface Fetched {
  readonly status: number;
  /** End-to-end fields only: hop-by-hop and private ones are already removed. */
  readonly fields: Fields;
  /** Decoded from any content coding. */
  readonly body: Buffer;
  readonly requestedAt: Instant;
  readonly receivedAt: Instant;
  /** Why this must never be stored though HTTP would allow it, for example `schema`; it is passed on. */
  readonly unstorable?: string;
}

/** One thing that can be cached, and how to get it. */
export interface Resource {
  readonly key: CacheKey;
  readonly policy: CachePolicy;
  /** How long a fetch may take that no single client's deadline bounds. */
  readonly timeout: Duration;
  /** Rejects with a GatewayError. */
  fetch(request: FetchRequest): Promise<Fetched>;
  /**
   * Called when an answer was stored or confirmed by a 304, before anybody gets it: the moment to fill derived entries
   * ({@link HttpCache.fill}), as no purge came between. `fetched` has the whole body and fields, also after a 304. Must
   * not throw.
   */
  stored?(entry: Entry, fetched: Fetched): void;
}

export interface CacheRequest {
  readonly method: "GET" | "HEAD";
  readonly headers: IncomingHttpHeaders;
  readonly deadline: Instant;
  /** Aborted when the client went away. */
  readonly signal?: AbortSignal;
  /** Called when nothing usable is stored and the request goes to the upstream, or joins one that did. */
  forwarded?(status: CacheStatus): void;
}

/** What became of a request; read by the `Cache-Status` field, the log line and the metric alike. */
export const CACHE_OUTCOMES = ["hit", "stale", "revalidated", "miss", "bypass"] as const;
export type CacheOutcome = (typeof CACHE_OUTCOMES)[number];

export const CACHE_TIERS = ["memory", "shared", "upstream"] as const;
export type CacheTier = (typeof CACHE_TIERS)[number];

/**
 * An answer for a client. Immutable, and the very same object for all hits of an entry within one second: what is
 * derived from it may be kept beside it (WeakMap).
 */
export interface CacheAnswer {
  readonly status: number;
  /** Complete but for content-length, CORS and the request id. */
  readonly fields: Fields;
  /** Undefined with 304. The route leaves it out for HEAD, but not its length. */
  readonly body: Buffer | undefined;
  readonly outcome: CacheOutcome;
  readonly tier: CacheTier;
  /** Whole seconds. */
  readonly age: number;
}

/** A derived answer to store, for example one instrument cut out of a page. */
export interface FillSource {
  /** The answer it was cut out of: its fields, its times. */
  readonly entryOf: Fetched;
  readonly body: Buffer;
  /** Bounds the lifetime besides the resource's own policy. */
  readonly maxLifetime?: Duration;
}
