import type { IncomingHttpHeaders } from "node:http";
import type { Clock, Duration, Instant } from "../clock.ts";
import type { Coordinator } from "../coordination/coordinator.ts";
import { GatewayError } from "../errors.ts";
import { filterFields } from "../fields.ts";
import { madeAt } from "./rfc/age.ts";
import type { ForwardReason } from "./rfc/cache-status.ts";
import { explainEntry, type Explanation } from "./explanation.ts";
import { waitFor } from "./flight.ts";
import { Flights } from "./flights.ts";
import type { Held } from "./held.ts";
import type { MemoryStore } from "./stores/memory-store.ts";
import type { CacheObserver } from "./observer.ts";
import { Presenter, type Journey } from "./presenter.ts";
import { receive } from "./reception.ts";
import type { CacheAnswer, CacheRequest, FillSource, Resource } from "./resource.ts";
import { Retrieval, type Landing } from "./retrieval.ts";
import {
  isFailure,
  isUsableOnError,
  judgeReuse,
  NOTHING_ASKED,
  requestDirectives,
  type RequestDirectives,
  withoutInsistence,
} from "./rfc/reuse.ts";
import { SkipMemory } from "./hit-for-miss.ts";
import type { Store } from "./stores/store.ts";
import { Tiers } from "./stores/tiers.ts";
import { selectingNames, variantOf } from "./rfc/vary.ts";

export type { CachePolicy } from "./policy.ts";
export type { CacheObserver } from "./observer.ts";
export type { Explanation } from "./explanation.ts";
export type { CacheAnswer, CacheRequest, Fetched, FetchRequest, FillSource, Resource } from "./resource.ts";

export interface HttpCacheOptions {
  readonly memory: MemoryStore;
  /** The tier shared with other processes; its hits are kept in memory too. */
  readonly shared?: Store | undefined;
  readonly coordinator: Coordinator;
  readonly clock: Clock;
  /** In [0, 1): shortens configured TTLs. */
  readonly random: () => number;
  readonly observer: CacheObserver;
}

/** Fresh hits after which an entry is renewed before it expires. */
const HOT_HITS = 3;

/** The last share of its lifetime in which a hot entry is renewed. */
const REFRESH_AHEAD = 0.1;

/** Entries that live shorter than this are not renewed ahead: it would be asking all the time. */
const MIN_AHEAD_LIFETIME: Duration = 5_000;

/** How often one request may find that the answer it waited for is another variant before it goes alone. */
const MAX_JOINS = 3;

/** A look-up in the shared tier takes no longer (see {@link Store.get}). */
const LOOK_UP_TIME: Duration = 500;

/** How long {@link HttpCache.drain} waits. */
const DRAIN_TIMEOUT: Duration = 5_000;

/** Fields of a page that say nothing about what is cut out of it. */
const OF_THE_SOURCE = new Set([
  "cache-status",
  "content-digest",
  "content-length",
  "content-location",
  "content-md5",
  "digest",
  "etag",
  "last-modified",
  "link",
  "repr-digest",
]);

/** One request on its way through the tiers, and what it has learned so far. */
interface Search {
  readonly resource: Resource;
  readonly request: CacheRequest;
  readonly asked: RequestDirectives;
  sharedAsked: boolean;
  /** What the shared tier had for it. */
  adopted: readonly Held[];
  /** Go upstream for this request alone. */
  alone: boolean;
  joins: number;
}

/** A shared HTTP cache (RFC 9111) over a memory tier, an optional shared tier, and fetches that requests share. */
export class HttpCache {
  private readonly tiers: Tiers;
  private readonly coordinator: Coordinator;
  private readonly clock: Clock;
  private readonly observer: CacheObserver;
  private readonly retrieval: Retrieval;
  private readonly flights: Flights;
  private readonly presenter: Presenter;
  private readonly skips = new SkipMemory();

  constructor({ memory, shared, coordinator, clock, random, observer }: HttpCacheOptions) {
    const tiers = new Tiers(memory, shared, coordinator);
    const retrieval = new Retrieval({ tiers, coordinator, clock, random, observer });
    this.tiers = tiers;
    this.coordinator = coordinator;
    this.clock = clock;
    this.observer = observer;
    this.retrieval = retrieval;
    this.flights = new Flights({ tiers, retrieval, skips: this.skips, coordinator, clock, observer });
    this.presenter = new Presenter(clock, observer);
  }

  /**
   * The answer when it is fresh in memory, a 304 included; undefined when {@link respond} has to see to it. Synchronous,
   * and until age or ttl change the very same object for equal hits.
   */
  hit(resource: Resource, request: Pick<CacheRequest, "method" | "headers">): CacheAnswer | undefined {
    const { headers } = request;
    if (resource.policy.honorClient && (headers["cache-control"] ?? headers.pragma) !== undefined) return undefined;
    const held = this.tiers.select(resource, headers);
    if (held === undefined) return undefined;
    const now = this.clock.now();
    const isUsable = now < held.entry.freshUntil && held.derivedAt === undefined;
    return isUsable ? this.serveFresh(resource, headers, held, now) : undefined;
  }

  /** The answer, from wherever it has to come. Rejects with a GatewayError when there is none to give. */
  async respond(resource: Resource, request: CacheRequest): Promise<CacheAnswer> {
    const asked = resource.policy.honorClient ? requestDirectives(request.headers) : NOTHING_ASKED;
    const search: Search = {
      resource,
      request,
      asked,
      sharedAsked: !this.tiers.hasShared,
      adopted: [],
      alone: this.skips.isExclusive(resource, request.headers, this.clock.now()),
      joins: 0,
    };
    for (;;) {
      const held = this.tiers.select(resource, request.headers, search.adopted);
      if (held?.derivedAt !== undefined && !search.sharedAsked) {
        await this.askShared(search);
        continue;
      }
      const stored = held === undefined ? undefined : this.serveStored(search, held);
      if (stored !== undefined) return stored;
      const flight = this.flights.find(resource, request.headers);
      if (flight === undefined && !search.sharedAsked) {
        await this.askShared(search);
        continue;
      }
      if (asked.onlyIfCached) {
        throw new GatewayError(
          "not_cached",
          "nothing usable is cached and the request says only-if-cached; send it without",
        );
      }
      const answer = await this.goUpstream(search, held);
      if (answer !== undefined) return answer;
    }
  }

  /**
   * Stores an answer derived from another one, in memory here only: fresh for the shorter of both lifetimes, and never
   * instead of something received after the other one was asked for. To be called from {@link Resource.stored}, while nothing purged is possible.
   */
  fill(resource: Resource, { entryOf, body, maxLifetime }: FillSource): void {
    const { key, policy } = resource;
    const epoch = this.coordinator.epochOf(key);
    if (epoch === undefined) return;
    const shelf = this.tiers.memory.held(key) ?? [];
    const derivedAt = madeAt(entryOf.fields, entryOf);
    const isNewer = (held: Held) => held.entry.epoch === epoch && held.entry.receivedAt > derivedAt;
    if (shelf.some(isNewer)) return;
    const { entry, skipped } = receive({
      fetched: { ...entryOf, body, fields: filterFields(entryOf.fields, (name) => !OF_THE_SOURCE.has(name)) },
      policy,
      // Whose request it was is unknown here: where that matters, nothing is derived.
      headers: policy.sharedAuthorization ? { authorization: "" } : {},
      epoch,
      receivedWall: this.clock.wallNow() - (this.clock.now() - entryOf.receivedAt),
      shortening: this.retrieval.shortening(),
      maxLifetime,
    });
    if (skipped !== undefined || entry.vary.length > 0) return;
    const held = this.tiers.hold(key, entry);
    if (held !== undefined && this.tiers.hasShared) held.derivedAt = derivedAt;
  }

  /** What is stored for a resource and why, looking in every tier. */
  async explain(resource: Resource): Promise<Explanation> {
    const { key, policy } = resource;
    const now = this.clock.now();
    const before = new Set(this.tiers.memory.held(key));
    await this.tiers.lookUpShared(key);
    const epoch = this.coordinator.epochOf(key);
    const shelf = this.tiers.memory.held(key) ?? [];
    const last = this.skips.last(resource);
    return {
      key,
      policy,
      epoch,
      entries: shelf.map((held) =>
        explainEntry(held, now, before.has(held) ? "memory" : "shared", held.entry.epoch !== epoch),
      ),
      lastSkip: last?.skipped === undefined ? undefined : { reason: last.skipped, ago: now - last.at },
      fetching: this.flights.isRunning(key),
    };
  }

  /** Waits for background work, 5 s at most, and ends what is left. */
  async drain(): Promise<void> {
    const work = Promise.all([this.flights.settled(), this.tiers.settled()]);
    const deadline = this.clock.now() + DRAIN_TIMEOUT;
    await waitFor(work, this.clock, { deadline }).catch(() => undefined);
    this.flights.abandon();
  }

  /** Takes over what the shared tier has. It bounds its look-ups itself: a wait of their own is only for those in a hurry. */
  private async askShared(search: Search): Promise<void> {
    const { resource, request } = search;
    search.sharedAsked = true;
    const lookup = this.tiers.lookUpShared(resource.key);
    const isInHurry = request.deadline - this.clock.now() < LOOK_UP_TIME;
    search.adopted = await (isInHurry ? waitFor(lookup, this.clock, request) : lookup);
  }

  /** An answer out of the store, where the entry may be used so. */
  private serveStored(search: Search, held: Held): CacheAnswer | undefined {
    const { resource, request } = search;
    const { headers } = request;
    const now = this.clock.now();
    const tier = search.adopted.includes(held) ? "shared" : "memory";
    // However much clients insist, the upstream is not asked for what it was asked for a moment ago.
    const lastAsked = Math.max(held.entry.receivedAt, held.triedAt);
    const asked = now - lastAsked < resource.policy.clientFloor ? withoutInsistence(search.asked) : search.asked;
    switch (judgeReuse(held.entry, now, asked)) {
      case "fresh":
        if (tier === "shared") return this.presenter.sharedHit(resource, headers, held);
        return this.serveFresh(resource, headers, held, now);
      case "while-revalidate":
        this.flights.refresh(resource, headers, held);
        return this.presenter.stale(resource, headers, held, { reason: "stale-while-revalidate", tier });
      case "max-stale":
        return this.presenter.stale(resource, headers, held, { reason: "max-stale", tier });
      case "validate":
        if (!held.failedSlowly || !isUsableOnError(held.entry, now, asked)) return undefined;
        this.flights.refresh(resource, headers, held);
        return this.presenter.stale(resource, headers, held, { reason: "stale-if-error", tier });
      default:
        return undefined;
    }
  }

  private serveFresh(resource: Resource, headers: IncomingHttpHeaders, held: Held, now: Instant): CacheAnswer {
    held.hits += 1;
    if (held.hits === 1) this.tiers.compress(resource.key, held);
    if (held.hits > HOT_HITS && isExpiringSoon(held, now)) this.flights.refresh(resource, headers, held);
    return this.presenter.hit(resource, headers, held, now);
  }

  /** Joins or starts a fetch. Undefined: what came is not for this request; look again. */
  private async goUpstream(search: Search, stale: Held | undefined): Promise<CacheAnswer | undefined> {
    const { resource, request } = search;
    const { headers } = request;
    const id = this.flights.idOf(resource, headers);
    const joined = search.alone ? undefined : this.flights.get(id);
    if (joined !== undefined) this.observer.collapsed(resource.key, "process");
    const journey: Journey = { reason: this.forwardReason(resource, stale), collapsed: joined !== undefined };
    request.forwarded?.({ forward: journey.reason, collapsed: journey.collapsed });
    const departure = { resource, headers, stale };
    const since = this.clock.now();
    const flight = joined ?? (search.alone ? this.flights.departAlone(departure) : this.flights.depart(id, departure));
    let landing: Landing;
    try {
      landing = await flight.wait(request);
    } catch (error) {
      if (request.signal?.aborted === true) throw error;
      // Also when only this client's patience ended: the next one should not have to wait as long.
      this.flights.noteFailure(stale, since);
      const saved = this.rescue(search, stale, journey);
      if (saved === undefined) throw error;
      return saved;
    }
    const { status } = landing.held.entry;
    const saved = isFailure(status) ? this.rescue(search, stale, journey, status) : undefined;
    if (saved !== undefined) return saved;
    if (journey.collapsed && !isFor(resource, headers, landing)) {
      search.joins += 1;
      search.alone = landing.exclusive || !landing.stored || search.joins >= MAX_JOINS;
      return undefined;
    }
    return this.presenter.landed(resource, headers, landing, journey);
  }

  /** The stale answer that stands in for a failure, where one may (RFC 5861 §4). */
  private rescue(
    { resource, request, asked, adopted }: Search,
    stale: Held | undefined,
    { reason, collapsed }: Journey,
    forwardStatus?: number,
  ): CacheAnswer | undefined {
    // Looked up anew: it may have been renewed since; or purged.
    const held = this.tiers.select(resource, request.headers) ?? stale;
    if (held === undefined || held.entry.epoch !== this.coordinator.epochOf(resource.key)) return undefined;
    if (isFailure(held.entry.status) || !isUsableOnError(held.entry, this.clock.now(), asked)) return undefined;
    return this.presenter.stale(resource, request.headers, held, {
      reason: "stale-if-error",
      tier: adopted.includes(held) ? "shared" : "memory",
      status: { forward: reason, collapsed, forwardStatus },
    });
  }

  private forwardReason(resource: Resource, held: Held | undefined): ForwardReason {
    if (this.coordinator.epochOf(resource.key) === undefined) return "bypass";
    if (held !== undefined) return this.clock.now() < held.entry.freshUntil ? "request" : "stale";
    return this.tiers.hasOtherVariants(resource.key) ? "vary-miss" : "uri-miss";
  }
}

/** In the last tenth of its time here. */
function isExpiringSoon({ entry }: Held, now: Instant): boolean {
  const time = entry.freshUntil - entry.receivedAt;
  return entry.status === 200 && time >= MIN_AHEAD_LIFETIME && now >= entry.freshUntil - time * REFRESH_AHEAD;
}

/** Whether a request that waited may have the answer (RFC 9111 §4): it is for all, and for this variant. */
function isFor({ policy }: Resource, headers: IncomingHttpHeaders, { held, exclusive }: Landing): boolean {
  return !exclusive && held.entry.variant === variantOf(selectingNames(policy, held.entry.vary), headers);
}
