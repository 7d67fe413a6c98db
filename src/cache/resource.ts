import type { IncomingHttpHeaders } from "node:http";
import type { AbortSignalLike, Duration, Instant } from "../clock.ts";
import type { GatewayError } from "../errors.ts";
import type { Fields, FurtherFields } from "../fields.ts";
import type { CacheKey, Entry } from "../sharing/entries.ts";
import type { CacheStatus } from "./rfc/reuse.ts";

/** How one kind of resource is cached: the configuration's say, the upstream's directives are the other half. */
export interface CachePolicy {
  /**
   * Time to live where the upstream gives no explicit freshness; 0: not stored then. Undefined: only what is explicitly
   * fresh is stored, and what is not stored is for the client that asked.
   */
  readonly ttl: Duration | undefined;
  /** The same for a 404; undefined: a 404 is not stored (unless `errors` is `honor` and it has explicit freshness). */
  readonly notFoundTtl: Duration | undefined;
  /** Bounds what the upstream promises. */
  readonly maxTtl: Duration;
  /** False: no cache directive of the upstream counts, not even `no-store`; only this policy does. */
  readonly honorUpstream: boolean;
  /** `never`: only 200 and, with `notFoundTtl`, 404 are stored. `honor`: any final status with explicit freshness. */
  readonly errors: "never" | "honor";
  /** Whether `Cache-Control` and `Pragma` of requests count. */
  readonly honorClient: boolean;
  /** An entry received less than this ago is not refreshed because a client asks for it. */
  readonly clientFloor: Duration;
  /** What clients may keep where the upstream sent no `Cache-Control`; 0: `no-cache`. */
  readonly clientTtl: Duration;
  /**
   * May be served stale while one refresh runs, from expiry on (RFC 5861 §3), where the upstream says nothing; bounds
   * what it says.
   */
  readonly staleWhileRevalidate: Duration;
  /**
   * May be served stale when the upstream fails, from expiry on (RFC 5861 §4), where the upstream says nothing; bounds
   * what it says.
   */
  readonly staleIfError: Duration;
  /**
   * Request fields sent upstream, and so part of the key; `*`: all end-to-end fields, keyed by `Vary` alone, and what is
   * not stored is for the client that asked.
   */
  readonly forwardRequestHeaders: readonly string[] | "*";
  /** Fields of answers that clients get besides those that always pass. */
  readonly forwardResponseHeaders: FurtherFields;
  /** True when the client's Authorization goes upstream; RFC 9111 §3.5 then decides what is stored. */
  readonly sharedAuthorization: boolean;
}

/** One request that the cache needs sent upstream. It is always a GET. */
export interface FetchRequest {
  /** `if-none-match` and `if-modified-since` to send (RFC 9111 §4.3.1); empty when nothing is validated. */
  readonly conditional: Fields;
  /** The client's, to take forwarded fields from: exactly those of `forwardedFields`. */
  readonly headers: IncomingHttpHeaders;
  readonly purpose: "miss" | "refresh";
  /** How long it may wait for a call of the upstream's `rateLimit`. */
  readonly maxWait: Duration;
  readonly deadline: Instant;
  readonly signal: AbortSignalLike;
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
  /** What a fetch would reject with because an operator lets nothing be asked of the upstream; undefined: nothing. */
  refusal?(): GatewayError | undefined;
  /** Rejects with a GatewayError. */
  fetch(request: FetchRequest): Promise<Fetched>;
  /**
   * Called when an answer was stored or confirmed by a 304, before any client gets it: the moment to fill derived entries
   * ({@link HttpCache.fill}), as no purge came between. `fetched` has the whole body and fields, also after a 304. Must
   * not throw.
   */
  stored?(entry: Entry, fetched: Fetched): void;
  /** Called when an answer that another process stored was taken over, before any client gets it. Must not throw. */
  adopted?(entry: Entry): void;
  /**
   * The moment to fill this out of another answer that is stored and has it ({@link HttpCache.fill}), as nothing newer was
   * found. With a purpose that answer is asked for anew where it, too, is about to expire ({@link HttpCache.renew}). Must not
   * reject.
   */
  derive?(purpose?: FetchRequest["purpose"]): Promise<void>;
}

export interface CacheRequest {
  readonly method: "GET" | "HEAD";
  readonly headers: IncomingHttpHeaders;
  readonly deadline: Instant;
  /** Aborted when the client went away. */
  readonly signal?: AbortSignalLike | undefined;
  /** Called when nothing usable is stored and the request goes to the upstream, or joins one that did. */
  forwarded?(status: CacheStatus): void;
}

/** What became of a request; read by the `Cache-Status` field, the log line and the metric alike. */
export const CACHE_OUTCOMES = ["hit", "stale", "revalidated", "miss", "bypass"] as const;
export type CacheOutcome = (typeof CACHE_OUTCOMES)[number];

export type CacheTier = "memory" | "shared" | "upstream";

/**
 * An answer for a client. Immutable, and the very same object for all hits of an entry within one second.
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
  /** Whole seconds of freshness left, negative when stale; undefined when it was not stored. */
  readonly ttl: number | undefined;
  /** Until when it may stand in for a failure of the upstream; undefined where it may not be kept at all. */
  readonly usableUntil: Instant | undefined;
  /** Of an answer that stands in for a failure: how much of the time for which it may is over, from 0 to 1. */
  readonly windowUsed: number | undefined;
}

/** A derived answer to store, for example one instrument cut out of a page. */
export interface FillSource {
  /** The answer it was cut out of: its fields, its times. */
  readonly entryOf: Fetched;
  readonly body: Buffer;
  /** Bounds the lifetime besides the resource's own policy. */
  readonly maxLifetime?: Duration;
}

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
