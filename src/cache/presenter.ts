import type { IncomingHttpHeaders } from "node:http";
import type { Clock, Instant } from "../clock.ts";
import type { CacheStatus, ForwardReason } from "./rfc/cache-status.ts";
import { isConditional, isNotModified } from "./rfc/conditional.ts";
import { CodingChoice, type Coding } from "./rfc/content-coding.ts";
import type { Handling, Held, Presentation } from "./held.ts";
import type { CacheObserver, StaleReason } from "./observer.ts";
import type { CacheAnswer, CacheOutcome, CacheTier, Resource } from "./resource.ts";
import type { Landing } from "./retrieval.ts";

/** How a request went upstream. */
export interface Journey {
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

/** Makes the answer for a request out of an entry: coding, conditions, Cache-Status; and tells the observer. */
export class Presenter {
  private readonly clock: Clock;
  private readonly observer: CacheObserver;
  private readonly codings = new CodingChoice();

  constructor(clock: Clock, observer: CacheObserver) {
    this.clock = clock;
    this.observer = observer;
  }

  /** A fresh hit in memory. */
  hit(resource: Resource, headers: IncomingHttpHeaders, held: Held, now: Instant): CacheAnswer {
    this.observer.lookup(resource.key, "memory", "hit");
    return held.hit(this.presentation(resource, headers, held, now));
  }

  /** A fresh hit in the shared tier. */
  sharedHit(resource: Resource, headers: IncomingHttpHeaders, held: Held): CacheAnswer {
    const ttl = held.ttl(this.clock.now());
    return this.present(resource, headers, held, { outcome: "hit", tier: "shared", status: { ttl, detail: "shared" } });
  }

  /** An entry that is served though it is, or may be, stale. */
  stale(
    resource: Resource,
    headers: IncomingHttpHeaders,
    held: Held,
    { reason, tier, status }: Staleness,
  ): CacheAnswer {
    const ttl = held.ttl(this.clock.now());
    if (ttl < 0) this.observer.servedStale(resource.key, reason);
    const outcome: CacheOutcome = ttl < 0 ? "stale" : "hit";
    return this.present(resource, headers, held, { outcome, tier, status: { ...status, ttl, detail: reason } });
  }

  /** What came from the upstream, or was fetched by another process meanwhile. */
  landed(resource: Resource, headers: IncomingHttpHeaders, landing: Landing, journey: Journey): CacheAnswer {
    const { held, own, upstreamStatus, stored, skipped } = landing;
    if (upstreamStatus === undefined) return this.sharedHit(resource, headers, held);
    const shown = journey.collapsed ? held : own;
    const now = this.clock.now();
    const { notModified } = this.presentation(resource, headers, shown, now);
    const status = notModified ? 304 : shown.entry.status;
    return this.present(resource, headers, shown, {
      outcome: outcomeOf(upstreamStatus, journey.reason),
      tier: "upstream",
      status: {
        forward: journey.reason,
        forwardStatus: upstreamStatus === status ? undefined : upstreamStatus,
        ttl: stored ? held.ttl(now) : undefined,
        stored: stored && upstreamStatus !== 304,
        collapsed: journey.collapsed,
        detail: skipped,
      },
    });
  }

  private present(resource: Resource, headers: IncomingHttpHeaders, held: Held, handling: Handling): CacheAnswer {
    this.observer.lookup(resource.key, handling.tier, handling.outcome);
    return held.answer(this.presentation(resource, headers, held, this.clock.now()), handling);
  }

  private presentation({ policy }: Resource, headers: IncomingHttpHeaders, held: Held, now: Instant): Presentation {
    const coding = this.codingOf(held, headers["accept-encoding"]);
    const notModified =
      isConditional(headers) &&
      held.entry.status === 200 &&
      isNotModified(headers, held.validators(coding), this.clock.wallNow());
    return { now, policy, coding, notModified };
  }

  private codingOf(held: Held, accepted: string | string[] | undefined): Coding {
    if (held.gzip === undefined || typeof accepted !== "string") return "identity";
    return this.codings.acceptsGzip(accepted) ? "gzip" : "identity";
  }
}

function outcomeOf(upstreamStatus: number, reason: ForwardReason): CacheOutcome {
  if (upstreamStatus === 304) return "revalidated";
  return reason === "bypass" ? "bypass" : "miss";
}
