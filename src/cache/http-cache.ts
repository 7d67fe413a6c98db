import type { IncomingHttpHeaders } from "node:http";
import { LRUCache } from "lru-cache";
import { type Clock, type Duration, type Instant, settledWithin } from "../clock.ts";
import type { Entry, Store } from "../sharing/entries.ts";
import type { Coordinator, EpochsPort } from "../sharing/ports.ts";
import { GatewayError } from "../errors.ts";
import type { CachedEntry } from "./cached-entry.ts";
import { CollapsedForwarding, HitForMiss, WORTH_WAITING } from "./collapsed-forwarding.ts";
import { explain, type Explanation } from "./explanation.ts";
import { Fetcher, type FetchResult, isFor, isGone } from "./fetch.ts";
import type { CacheAnswer, CacheObserver, CacheRequest, FetchRequest, FillSource, Resource } from "./resource.ts";
import {
  type ForwardReason,
  isFailure,
  isUsableOnError,
  judgeReuse,
  NOTHING_ASKED,
  requestDirectives,
  type RequestDirectives,
  withoutInsistence,
} from "./rfc/reuse.ts";
import { waitFor } from "./shared-fetch.ts";
import { type Forwarding, Responder } from "./responder.ts";
import type { MemoryStore } from "./stores/memory-store.ts";
import { Tiers } from "./stores/tiers.ts";

export interface HttpCacheOptions {
  readonly memory: MemoryStore;
  /** The tier shared with other processes; its hits are kept in memory too. */
  readonly shared?: Store | undefined;
  readonly coordinator: Pick<Coordinator, "epochs" | "leases">;
  readonly clock: Clock;
  /** In [0, 1): shortens configured TTLs. */
  readonly random: () => number;
  readonly observer: CacheObserver;
}

/** How often one request may find that the answer it waited for is another variant before it goes alone. */
const MAX_JOINS = 3;

/** A look-up in the shared tier takes no longer (see {@link Store.get}). */
const LOOK_UP_TIME: Duration = 500;

/** What was renewed, or could not be, a moment ago, as it may not be kept any more, is not asked for each time it is needed. */
const RENEW_AGAIN_AFTER: Duration = 5_000;

const MOST_SLOW = 1_000;

/** {@link HttpCache.drain} waits no longer. */
const DRAIN_TIMEOUT: Duration = 5_000;

/** One request on its way through the tiers, and what it has learned so far. */
interface Search {
  readonly resource: Resource;
  readonly request: CacheRequest;
  readonly asked: RequestDirectives;
  sharedAsked: boolean;
  /** What the shared tier had for it. */
  adopted: readonly CachedEntry[];
  /** Nothing is left to derive it from. */
  derived: boolean;
  /** Go upstream for this request alone. */
  alone: boolean;
  joins: number;
}

/** A shared HTTP cache (RFC 9111) over a memory tier, an optional shared tier, and fetches that requests share. */
export class HttpCache {
  private readonly tiers: Tiers;
  private readonly epochs: EpochsPort;
  private readonly clock: Clock;
  private readonly observer: CacheObserver;
  private readonly fetcher: Fetcher;
  private readonly fetches: CollapsedForwarding;
  private readonly responder: Responder;
  private readonly hitForMiss = new HitForMiss();
  /** Names of what took long to renew the last time. */
  private readonly slow = new LRUCache<string, true>({ max: MOST_SLOW });

  constructor({ memory, shared, coordinator, clock, random, observer }: HttpCacheOptions) {
    const { epochs, leases } = coordinator;
    const tiers = new Tiers({ memory, shared, epochs, clock });
    const fetcher = new Fetcher({ tiers, epochs, leases, clock, random, observer });
    const { hitForMiss } = this;
    this.tiers = tiers;
    this.epochs = epochs;
    this.clock = clock;
    this.observer = observer;
    this.fetcher = fetcher;
    this.fetches = new CollapsedForwarding({ tiers, fetcher, hitForMiss, epochs, clock, observer });
    this.responder = new Responder(clock, observer);
  }

  /**
   * The answer when it is fresh in memory, a 304 included; undefined when {@link respond} has to see to it. Synchronous,
   * and until age or ttl change the very same object for equal hits.
   */
  hit(resource: Resource, { headers }: Pick<CacheRequest, "method" | "headers">): CacheAnswer | undefined {
    if (resource.policy.honorClient && (headers["cache-control"] ?? headers.pragma) !== undefined) return undefined;
    const cached = this.tiers.select(resource, headers);
    if (cached === undefined) return undefined;
    const now = this.clock.now();
    const isUsable = now < cached.entry.freshUntil && cached.derivedAt === undefined;
    return isUsable ? this.serveFresh(resource, headers, cached, now) : undefined;
  }

  /** The answer, from wherever it has to come. Rejects with a GatewayError when there is none to give. */
  async respond(resource: Resource, request: CacheRequest): Promise<CacheAnswer> {
    const { headers } = request;
    const search: Search = {
      resource,
      request,
      asked: resource.policy.honorClient ? requestDirectives(headers) : NOTHING_ASKED,
      sharedAsked: !this.tiers.hasShared,
      adopted: [],
      derived: resource.derive === undefined,
      alone: this.hitForMiss.isExclusive(resource, headers, this.clock.now()),
      joins: 0,
    };
    for (;;) {
      const cached = this.tiers.select(resource, headers, search.adopted);
      if (cached?.derivedAt !== undefined && !search.sharedAsked) {
        await this.askShared(search);
        continue;
      }
      const stored = cached === undefined ? undefined : this.serveStored(search, cached);
      if (stored !== undefined) return stored;
      if (!search.sharedAsked && !this.fetches.has(resource, headers)) {
        await this.askShared(search);
        continue;
      }
      if (!search.derived && !search.alone) {
        await this.derive(search);
        continue;
      }
      const refusal = resource.refusal?.();
      if (refusal !== undefined) return this.serveCacheOnly(search, cached, refusal);
      if (search.asked.onlyIfCached) {
        throw new GatewayError(
          "not_cached",
          "nothing usable is cached and the request says only-if-cached; send it without",
        );
      }
      const answer = await this.goUpstream(search, cached);
      if (answer !== undefined) return answer;
    }
  }

  /**
   * What is stored for requests without fields, fresh, or stale and not forbidden to be served so: in memory, or where that has
   * nothing in the shared tier.
   */
  async stored(resource: Resource): Promise<Entry | undefined> {
    const cached =
      this.tiers.select(resource, {}) ?? this.tiers.select(resource, {}, await this.tiers.lookUpShared(resource));
    if (cached === undefined) return undefined;
    const { entry } = cached;
    return entry.staleProhibited && this.clock.now() >= entry.freshUntil ? undefined : entry;
  }

  /**
   * Asks anew for what is stored for requests without fields and has a fifth of its time left at most, if that was not tried a
   * moment ago. Resolves when that is over, or takes longer than it is worth to wait; no client waits for what took longer the
   * last time. What is out of date as it comes helps nobody, and what cannot be served any more may be long forgotten.
   */
  async renew(resource: Resource, purpose: FetchRequest["purpose"]): Promise<void> {
    const cached = this.tiers.select(resource, {});
    const now = this.clock.now();
    if (cached === undefined || now < cached.ageingAt || now < cached.triedAt + RENEW_AGAIN_AFTER) return;
    const { receivedAt, freshUntil, usableUntil } = cached.entry;
    if (freshUntil <= receivedAt || now >= usableUntil) return;
    const { name } = resource.key;
    const isWaitedFor = purpose === "refresh" || !this.slow.has(name);
    const isJoined = this.fetches.has(resource, {});
    const refresh = this.fetches.refresh(resource, {}, cached, isWaitedFor ? purpose : "refresh");
    const noted = settledWithin(refresh, WORTH_WAITING, this.clock).then((isOver) => {
      if (!isOver) this.slow.set(name, true);
      // How long it took in all is known to the one that began it.
      else if (!isJoined) this.slow.delete(name);
    });
    if (isWaitedFor) await noted;
  }

  /** See {@link Fetcher.fill}. What was found to be gone since the source was asked for does not come back. */
  fill(resource: Resource, source: FillSource): boolean {
    const last = this.hitForMiss.last(resource);
    if (last !== undefined && isGone(last.status) && last.at > source.entryOf.requestedAt) return false;
    return this.fetcher.fill(resource, source);
  }

  /** What is stored for a resource and why, looking in every tier. */
  explain(resource: Resource): Promise<Explanation> {
    const { tiers, epochs, clock, fetches, hitForMiss } = this;
    return explain(resource, { tiers, epochs, clock, fetches, hitForMiss });
  }

  /** Waits for background work, 5 s at most, and ends what is left. */
  async drain(timeout: Duration = DRAIN_TIMEOUT): Promise<void> {
    const work = Promise.all([this.fetches.settled(), this.tiers.settled()]);
    await settledWithin(work, Math.min(timeout, DRAIN_TIMEOUT), this.clock);
    this.fetches.abandon();
  }

  /** Takes over what the shared tier has. It bounds its look-ups itself: only a request in a hurry has its own limit. */
  private async askShared(search: Search): Promise<void> {
    const { resource, request } = search;
    search.sharedAsked = true;
    const lookup = this.tiers.lookUpShared(resource);
    const isInHurry = request.deadline - this.clock.now() < LOOK_UP_TIME;
    search.adopted = await (isInHurry ? waitFor(lookup, this.clock, request) : lookup);
  }

  /** Looks for another answer that has this one, and has it renewed where the client does not insist on this one. */
  private async derive(search: Search): Promise<void> {
    const { resource, request, asked } = search;
    search.derived = true;
    const deadline = this.clock.now() + WORTH_WAITING;
    // Time has to be left to ask for it by itself.
    const mayRenew = asked === NOTHING_ASKED && request.deadline >= deadline + WORTH_WAITING;
    try {
      const derived = resource.derive!(mayRenew ? "miss" : undefined);
      await waitFor(derived, this.clock, { ...request, deadline: Math.min(deadline, request.deadline) });
    } catch (error) {
      if (request.signal?.aborted === true) throw error;
    }
  }

  /** An answer out of the store, where the entry may be used so. */
  private serveStored(search: Search, cached: CachedEntry): CacheAnswer | undefined {
    const { resource, request } = search;
    const { headers } = request;
    const now = this.clock.now();
    const tier = search.adopted.includes(cached) ? "shared" : "memory";
    // However much clients insist, the upstream is not asked for what it was asked for a moment ago.
    const lastAsked = Math.max(cached.entry.receivedAt, cached.triedAt);
    const asked = now - lastAsked < resource.policy.clientFloor ? withoutInsistence(search.asked) : search.asked;
    switch (judgeReuse(cached.entry, now, asked)) {
      case "fresh":
        if (tier === "shared") return this.responder.sharedHit(resource, headers, cached);
        return this.serveFresh(resource, headers, cached, now);
      case "while-revalidate":
        void this.fetches.refresh(resource, headers, cached);
        return this.responder.stale(resource, headers, cached, { reason: "stale-while-revalidate", tier });
      case "max-stale":
        return this.responder.stale(resource, headers, cached, { reason: "max-stale", tier });
      case "validate":
        if (!cached.failedSlowly || !isUsableOnError(cached.entry, now, asked)) return undefined;
        void this.fetches.refresh(resource, headers, cached);
        return this.responder.stale(resource, headers, cached, { reason: "stale-if-error", tier });
      default:
        return undefined;
    }
  }

  /**
   * However stale it is: an operator lets nothing be asked of the upstream.
   * @throws `refusal` where nothing is stored, or an upstream's directive forbids that it is served stale (RFC 9111 §4.2.4)
   */
  private serveCacheOnly(
    { resource, request, adopted }: Search,
    cached: CachedEntry | undefined,
    refusal: GatewayError,
  ): CacheAnswer {
    if (cached === undefined || cached.entry.staleProhibited || isFailure(cached.entry.status)) throw refusal;
    const tier = adopted.includes(cached) ? "shared" : "memory";
    return this.responder.stale(resource, request.headers, cached, { reason: "cache-only", tier });
  }

  private serveFresh(resource: Resource, headers: IncomingHttpHeaders, cached: CachedEntry, now: Instant): CacheAnswer {
    cached.hits += 1;
    if (cached.isDueAhead(now)) void this.fetches.refresh(resource, headers, cached);
    const answer = this.responder.hit(resource, headers, cached, now);
    const { forms } = cached;
    if (forms.wanted !== forms.asked) this.tiers.compress(resource.key, cached);
    if (forms.count !== forms.counted) this.tiers.memory.recount(resource.key, cached);
    return answer;
  }

  /** Joins or starts a fetch. Undefined: what came is not for this request; look again. */
  private async goUpstream(search: Search, stale: CachedEntry | undefined): Promise<CacheAnswer | undefined> {
    const { resource, request } = search;
    const { headers } = request;
    const id = this.fetches.idOf(resource, headers);
    const joined = search.alone ? undefined : this.fetches.get(id);
    if (joined !== undefined) this.observer.collapsed(resource.key, "process");
    const forwarding: Forwarding = { reason: this.forwardReason(resource, stale), collapsed: joined !== undefined };
    request.forwarded?.({ forward: forwarding.reason, collapsed: forwarding.collapsed });
    const miss = { resource, headers, stale };
    const since = this.clock.now();
    const fetch = joined ?? (search.alone ? this.fetches.startAlone(miss) : this.fetches.start(id, miss));
    let result: FetchResult;
    try {
      result = await fetch.wait(request);
    } catch (error) {
      if (request.signal?.aborted === true) throw error;
      // Also when only this client's deadline passed: the next one should not have to wait as long.
      this.fetches.noteFailure(stale, since);
      const answer = this.serveOnError(search, stale, forwarding);
      if (answer === undefined) throw error;
      return answer;
    }
    const { status } = result.cached.entry;
    const instead = isFailure(status) ? this.serveOnError(search, stale, forwarding, status) : undefined;
    if (instead !== undefined) return instead;
    // What came along with another answer, or another process stored, is held against what this client asks for.
    const isFound = result.upstreamStatus === undefined && (!this.tiers.hasShared || search.asked !== NOTHING_ASKED);
    if (forwarding.collapsed && (isFound || !isFor(resource, headers, result))) {
      search.joins += 1;
      search.alone = result.exclusive || !result.stored || search.joins >= MAX_JOINS;
      return undefined;
    }
    const answer = this.responder.fetched(resource, headers, result, forwarding);
    if (result.stored) this.tiers.compress(resource.key, result.cached);
    return answer;
  }

  /** The stale answer that stands in for a failure, where one may (RFC 5861 §4). */
  private serveOnError(
    { resource, request, asked, adopted }: Search,
    stale: CachedEntry | undefined,
    { reason, collapsed }: Forwarding,
    forwardStatus?: number,
  ): CacheAnswer | undefined {
    // Looked up anew: it may have been renewed since; or purged.
    const cached = this.tiers.select(resource, request.headers) ?? stale;
    if (cached === undefined || cached.entry.epoch !== this.epochs.epochOf(resource.key)) return undefined;
    if (!isUsableOnError(cached.entry, this.clock.now(), asked)) return undefined;
    return this.responder.stale(resource, request.headers, cached, {
      reason: "stale-if-error",
      tier: adopted.includes(cached) ? "shared" : "memory",
      status: { forward: reason, collapsed, forwardStatus },
    });
  }

  private forwardReason(resource: Resource, cached: CachedEntry | undefined): ForwardReason {
    if (this.epochs.epochOf(resource.key) === undefined) return "bypass";
    if (cached !== undefined) return this.clock.now() < cached.entry.freshUntil ? "request" : "stale";
    return this.tiers.hasOtherVariants(resource.key) ? "vary-miss" : "uri-miss";
  }
}
