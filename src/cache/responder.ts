import type { IncomingHttpHeaders } from "node:http";
import type { Clock, Instant } from "../clock.ts";
import { type Handling, NOT_MODIFIED } from "./answer-forms.ts";
import type { CachedEntry } from "./cached-entry.ts";
import { ttlOf } from "./entry.ts";
import type { FetchResult } from "./fetch.ts";
import type { CacheAnswer, CacheObserver, CacheOutcome, CacheTier, Resource, StaleReason } from "./resource.ts";
import type { CacheStatus, ForwardReason } from "./rfc/reuse.ts";

/** How a request went upstream. */
export interface Forwarding {
  readonly reason: ForwardReason;
  /** It joined a fetch that was running. */
  readonly collapsed: boolean;
}

/** Why a stale answer is given, and what was tried before. */
export interface Staleness {
  readonly reason: StaleReason;
  readonly tier: CacheTier;
  readonly status?: CacheStatus;
}

/** Makes the answer for a request out of an entry, and notifies the observer. */
export class Responder {
  private readonly clock: Clock;
  private readonly observer: CacheObserver;

  constructor(clock: Clock, observer: CacheObserver) {
    this.clock = clock;
    this.observer = observer;
  }

  /** A fresh hit in memory. */
  hit({ key, policy }: Resource, headers: IncomingHttpHeaders, cached: CachedEntry, now: Instant): CacheAnswer {
    this.observer.lookup(key, "memory", "hit");
    return cached.forms.hit(cached.forms.formFor(headers, this.clock, policy), now, policy);
  }

  /** A fresh hit in the shared tier. */
  sharedHit(resource: Resource, headers: IncomingHttpHeaders, cached: CachedEntry): CacheAnswer {
    const status = { ttl: ttlOf(cached.entry, this.clock.now()), detail: "shared" };
    return this.respond(resource, headers, cached, { outcome: "hit", tier: "shared", status });
  }

  /** An entry that is served though it is, or may be, stale. */
  stale(
    resource: Resource,
    headers: IncomingHttpHeaders,
    cached: CachedEntry,
    { reason, tier, status }: Staleness,
  ): CacheAnswer {
    const ttl = ttlOf(cached.entry, this.clock.now());
    if (ttl < 0) this.observer.servedStale(resource.key, reason);
    const outcome: CacheOutcome = ttl < 0 ? "stale" : "hit";
    return this.respond(resource, headers, cached, { outcome, tier, status: { ...status, ttl, detail: reason } });
  }

  /** What came from the upstream, or was fetched by another process meanwhile. */
  fetched(
    resource: Resource,
    headers: IncomingHttpHeaders,
    { cached, own, upstreamStatus, stored, skipped }: FetchResult,
    { reason, collapsed }: Forwarding,
  ): CacheAnswer {
    if (upstreamStatus === undefined) return this.sharedHit(resource, headers, cached);
    const shown = collapsed ? cached : own;
    const isNotModified = (shown.forms.formFor(headers, this.clock, resource.policy) & NOT_MODIFIED) !== 0;
    const status = isNotModified ? 304 : shown.entry.status;
    return this.respond(resource, headers, shown, {
      outcome: outcomeOf(upstreamStatus, reason),
      tier: "upstream",
      status: {
        forward: reason,
        forwardStatus: upstreamStatus === status ? undefined : upstreamStatus,
        ttl: stored ? ttlOf(cached.entry, this.clock.now()) : undefined,
        stored: stored && upstreamStatus !== 304,
        collapsed,
        detail: skipped,
      },
    });
  }

  private respond(
    { key, policy }: Resource,
    headers: IncomingHttpHeaders,
    cached: CachedEntry,
    handling: Handling,
  ): CacheAnswer {
    this.observer.lookup(key, handling.tier, handling.outcome);
    return cached.forms.answer(cached.forms.formFor(headers, this.clock, policy), this.clock.now(), policy, handling);
  }
}

function outcomeOf(upstreamStatus: number, reason: ForwardReason): CacheOutcome {
  if (upstreamStatus === 304) return "revalidated";
  return reason === "bypass" ? "bypass" : "miss";
}
