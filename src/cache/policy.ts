import type { Duration } from "../clock.ts";

/** How one kind of resource is cached: the configuration's say, the upstream's directives are the other half. */
export interface CachePolicy {
  /** Time to live where the upstream gives no explicit freshness; 0: not stored then. */
  readonly ttl: Duration;
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
  /** Request fields sent upstream, and so part of the key; `*`: all end-to-end fields, keyed by `Vary` alone. */
  readonly forwardRequestHeaders: readonly string[] | "*";
  /** True when the client's Authorization goes upstream; RFC 9111 §3.5 then decides what is stored. */
  readonly sharedAuthorization: boolean;
}
