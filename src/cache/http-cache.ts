import type { IncomingHttpHeaders } from "node:http";
import type { Clock, Duration, Instant } from "../clock.ts";
import type { Coordinator } from "../coordinator/coordinator.ts";
import { GatewayError } from "../errors.ts";
import { filterFields } from "../fields.ts";
import type { CacheStatus, ForwardReason } from "./cache-status.ts";
import { isConditional, isNotModified } from "./conditional.ts";
import { CodingChoice, type Coding } from "./content-coding.ts";
import { explainEntry, type Explanation } from "./explanation.ts";
import { Flight, waitFor } from "./flight.ts";
import type { Held, Presentation } from "./held.ts";
import type { MemoryStore } from "./memory-store.ts";
import type { CacheObserver, StaleReason } from "./observer.ts";
import { receive } from "./reception.ts";
import type { CacheAnswer, CacheOutcome, CacheRequest, CacheTier, FillSource, Resource } from "./resource.ts";
import { Retrieval, type Landing } from "./retrieval.ts";
import {
  isFailure,
  isUsableOnError,
  judgeReuse,
  NOTHING_ASKED,
  requestDirectives,
  type RequestDirectives,
} from "./reuse.ts";
import { SkipMemory } from "./skip-memory.ts";
import type { CacheKey, Store } from "./store.ts";
import { Tiers } from "./tiers.ts";
import { variantOf, selectingNames } from "./vary.ts";

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

/** A failed attempt that took longer than this is not repeated with a client waiting while something can be served. */
const SLOW_FAILURE: Duration = 1_000;

/** Between failed background attempts: as long as the attempt took, within these bounds. */
const MIN_RETRY_PAUSE: Duration = 250;
const MAX_RETRY_PAUSE: Duration = 5_000;

/** How often one request may find that the answer it waited for is another variant before it goes alone. */
const MAX_JOINS = 3;

/** How long {@link HttpCache.drain} waits. */
const DRAIN_TIMEOUT: Duration = 5_000;

/** What a request has learned so far on its way through the tiers. */
interface Search {
  readonly asked: RequestDirectives;
  sharedAsked: boolean;
  adopted: readonly Held[];
  /** Go upstream for this request alone. */
  alone: boolean;
  joins: number;
}

/** How a request went upstream. */
interface Journey {
  readonly reason: ForwardReason;
  readonly collapsed: boolean;
}

/** A shared HTTP cache (RFC 9111) over a memory tier, an optional shared tier, and fetches that requests share. */
export class HttpCache {
  private readonly tiers: Tiers;
  private readonly coordinator: Coordinator;
  private readonly clock: Clock;
  private readonly observer: CacheObserver;
  private readonly retrieval: Retrieval;
  private readonly flights = new Map<string, Flight<Landing>>();
  private readonly background = new Set<Promise<unknown>>();
  private readonly skips = new SkipMemory();
  private readonly codings = new CodingChoice();

  constructor({ memory, shared, coordinator, clock, random, observer }: HttpCacheOptions) {
    this.tiers = new Tiers(memory, shared, coordinator);
    this.coordinator = coordinator;
    this.clock = clock;
    this.observer = observer;
    this.retrieval = new Retrieval({ tiers: this.tiers, coordinator, clock, random, observer });
  }

  /**
   * The answer when it is fresh in memory, a 304 included; undefined when {@link respond} has to see to it. Synchronous,
   * and within one second the very same object for equal hits.
   */
  hit(resource: Resource, request: Pick<CacheRequest, "method" | "headers">): CacheAnswer | undefined {
    const { headers } = request;
    if (resource.policy.honorClient && (headers["cache-control"] ?? headers.pragma) !== undefined) return undefined;
    const held = this.tiers.select(resource, headers);
    if (held === undefined) return undefined;
    const now = this.clock.now();
    return now < held.entry.freshUntil ? this.serveFresh(resource, held, headers, now) : undefined;
  }

  /** The answer, from wherever it has to come. Rejects with a GatewayError when there is none to give. */
  async respond(resource: Resource, request: CacheRequest): Promise<CacheAnswer> {
    const asked = resource.policy.honorClient ? requestDirectives(request.headers) : NOTHING_ASKED;
    const search: Search = {
      asked,
      sharedAsked: !this.tiers.hasShared,
      adopted: [],
      alone: asked.noStore || this.skips.isExclusive(resource.key, this.clock.now()),
      joins: 0,
    };
    for (;;) {
      const held = this.tiers.select(resource, request.headers);
      const stored = held === undefined ? undefined : this.serveStored(resource, request, held, search);
      if (stored !== undefined) return stored;
      const flight = this.flights.get(this.flightOf(resource, request.headers));
      if (flight === undefined && !search.sharedAsked) {
        search.sharedAsked = true;
        search.adopted = await waitFor(this.tiers.lookUpShared(resource.key), this.clock, request);
        continue;
      }
      if (asked.onlyIfCached) {
        throw new GatewayError(504, "nothing usable is cached and the request says only-if-cached; send it without");
      }
      const answer = await this.goUpstream(resource, request, held, search);
      if (answer !== undefined) return answer;
    }
  }

  /**
   * Stores an answer derived from another one, in memory here only: fresh for the shorter of both lifetimes, and never
   * instead of something received later. To be called from {@link Resource.stored}, while nothing purged is possible.
   */
  fill(resource: Resource, { entryOf, body, maxLifetime }: FillSource): void {
    const { key, policy } = resource;
    const generation = this.coordinator.generation(key);
    if (generation === undefined) return;
    const shelf = this.tiers.memory.held(key) ?? [];
    const isNewer = (held: Held) => held.entry.generation === generation && held.entry.receivedAt >= entryOf.receivedAt;
    if (shelf.some(isNewer)) return;
    const { entry, skipped } = receive({
      fetched: { ...entryOf, body, fields: filterFields(entryOf.fields, (name) => !OF_THE_SOURCE.has(name)) },
      policy,
      // Whose request it was is unknown here: where that matters, nothing is derived.
      headers: policy.sharedAuthorization ? { authorization: "" } : {},
      generation,
      receivedWall: this.clock.wallNow() - (this.clock.now() - entryOf.receivedAt),
      shortening: this.retrieval.shortening(),
      maxLifetime,
    });
    if (skipped === undefined && entry.vary.length === 0) this.tiers.hold(key, entry);
  }

  /** What is stored for a resource and why, looking in every tier. */
  async explain(resource: Resource): Promise<Explanation> {
    const { key, policy } = resource;
    const now = this.clock.now();
    const before = new Set(this.tiers.memory.held(key));
    await this.tiers.lookUpShared(key);
    const generation = this.coordinator.generation(key);
    const shelf = this.tiers.memory.held(key) ?? [];
    const last = this.skips.last(key);
    return {
      key,
      policy,
      generation,
      entries: shelf.map((held) =>
        explainEntry(held, now, before.has(held) ? "memory" : "shared", held.entry.generation !== generation),
      ),
      lastSkip: last?.reason === undefined ? undefined : { reason: last.reason, ago: now - last.at },
      fetching: [...this.flights.keys()].some((flight) => flight.startsWith(flightPrefix(key))),
    };
  }

  /** Waits for background work, 5 s at most, and ends what is left. */
  async drain(): Promise<void> {
    const work = Promise.allSettled([...this.background, this.tiers.settled()]);
    const deadline = this.clock.now() + DRAIN_TIMEOUT;
    await waitFor(work, this.clock, { deadline }).catch(() => undefined);
    for (const flight of this.flights.values()) flight.abandon();
  }

  /** An answer out of the store, where the entry may be used so. */
  private serveStored(resource: Resource, request: CacheRequest, held: Held, search: Search): CacheAnswer | undefined {
    const now = this.clock.now();
    const { headers } = request;
    const tier = search.adopted.includes(held) ? "shared" : "memory";
    switch (judgeReuse(held.entry, now, search.asked, resource.policy)) {
      case "fresh":
        return tier === "memory"
          ? this.serveFresh(resource, held, headers, now)
          : this.present(resource, request, held, {
              outcome: "hit",
              tier,
              status: { ttl: held.ttl(now), detail: tier },
            });
      case "while-revalidate":
        this.refresh(resource, headers, held);
        return this.serveStale(resource, request, held, { reason: "stale-while-revalidate", tier });
      case "max-stale":
        return this.serveStale(resource, request, held, { reason: "max-stale", tier });
      case "forced":
        // The shared tier has nothing newer than what the client finds too old.
        search.sharedAsked = true;
        return undefined;
      case "validate":
        if (!held.failedSlowly || !isUsableOnError(held.entry, now, search.asked)) return undefined;
        this.refresh(resource, headers, held);
        return this.serveStale(resource, request, held, { reason: "stale-if-error", tier });
      default:
        return undefined;
    }
  }

  private serveFresh(resource: Resource, held: Held, headers: IncomingHttpHeaders, now: Instant): CacheAnswer {
    held.hits += 1;
    if (held.hits > HOT_HITS && isExpiringSoon(held, now)) this.refresh(resource, headers, held);
    this.observer.lookup(resource.key, "memory", "hit");
    return held.hit(this.presentation(resource, held, headers, now));
  }

  private serveStale(
    resource: Resource,
    request: CacheRequest,
    held: Held,
    { reason, tier, status }: { reason: StaleReason; tier: CacheTier; status?: CacheStatus },
  ): CacheAnswer {
    const ttl = held.ttl(this.clock.now());
    if (ttl < 0) this.observer.servedStale(resource.key, reason);
    return this.present(resource, request, held, {
      outcome: ttl < 0 ? "stale" : "hit",
      tier,
      status: { ...status, ttl, detail: reason },
    });
  }

  /** Joins or starts a fetch. Undefined: what came is not for this request; look again. */
  private async goUpstream(
    resource: Resource,
    request: CacheRequest,
    held: Held | undefined,
    search: Search,
  ): Promise<CacheAnswer | undefined> {
    const reason = this.forwardReason(resource, held);
    const id = this.flightOf(resource, request.headers);
    const joined = search.alone ? undefined : this.flights.get(id);
    if (joined !== undefined) this.observer.collapsed(resource.key);
    const flight =
      joined ?? this.launch(resource, request.headers, held, search.alone ? { store: !search.asked.noStore } : { id });
    const journey: Journey = { reason, collapsed: joined !== undefined };
    const since = this.clock.now();
    let landing: Landing;
    try {
      landing = await flight.wait(request);
    } catch (error) {
      // Also when only this client's patience ended: the next one should not have to wait as long.
      if (request.signal?.aborted !== true) this.noteFailure(held, since);
      const saved =
        request.signal?.aborted === true ? undefined : this.rescue(resource, request, held, { search, journey });
      if (saved === undefined) throw error;
      return saved;
    }
    const { status } = landing.held.entry;
    const saved = isFailure(status)
      ? this.rescue(resource, request, held, { search, journey, forwardStatus: status })
      : undefined;
    if (saved !== undefined) return saved;
    if (journey.collapsed && !isFor(resource, request.headers, landing)) {
      search.joins += 1;
      search.alone = landing.exclusive || !landing.stored || search.joins >= MAX_JOINS;
      return undefined;
    }
    return this.presentLanding(resource, request, landing, journey);
  }

  /** The stale answer that stands in for a failure, where one may (RFC 5861 §4). */
  private rescue(
    resource: Resource,
    request: CacheRequest,
    held: Held | undefined,
    { search, journey, forwardStatus }: { search: Search; journey: Journey; forwardStatus?: number },
  ): CacheAnswer | undefined {
    // Looked up anew: it may have been purged since, or renewed.
    const usable = this.tiers.select(resource, request.headers) ?? held;
    if (usable === undefined || usable.entry.generation !== this.coordinator.generation(resource.key)) return undefined;
    if (isFailure(usable.entry.status) || !isUsableOnError(usable.entry, this.clock.now(), search.asked))
      return undefined;
    return this.serveStale(resource, request, usable, {
      reason: "stale-if-error",
      tier: search.adopted.includes(usable) ? "shared" : "memory",
      status: { forward: journey.reason, collapsed: journey.collapsed, forwardStatus },
    });
  }

  /** Renews an entry while it is served, unless that is being done or has just failed. */
  private refresh(resource: Resource, headers: IncomingHttpHeaders, held: Held): void {
    if (this.clock.now() < held.retryAt) return;
    const id = this.flightOf(resource, headers);
    if (this.flights.has(id)) return;
    const { key } = resource;
    const flight = this.launch(resource, headers, held, { id, background: true });
    const work = flight.wait({ deadline: Infinity }).then(
      (landing) => {
        const { status } = landing.held.entry;
        if (isFailure(status)) this.observer.refreshed(key, "failed");
        else if (landing.upstreamStatus === 304) this.observer.refreshed(key, "revalidated");
        else this.observer.refreshed(key, landing.stored ? "stored" : "not-stored");
      },
      () => this.observer.refreshed(key, "failed"),
    );
    this.background.add(work);
    void work.finally(() => this.background.delete(work));
  }

  /** `id`: others may join under it, and other processes are kept from doing the same. */
  private launch(
    resource: Resource,
    headers: IncomingHttpHeaders,
    stale: Held | undefined,
    { id, background = false, store = true }: { id?: string; background?: boolean; store?: boolean },
  ): Flight<Landing> {
    const startedAt = this.clock.now();
    const flight: Flight<Landing> = new Flight<Landing>({
      clock: this.clock,
      timeout: resource.timeout,
      background,
      run: async (signal) => {
        const deadline = startedAt + resource.timeout;
        const purpose = background ? "refresh" : "miss";
        const request = { resource, headers, stale, purpose, deadline, signal, store } as const;
        const landing = await (id === undefined
          ? this.retrieval.retrieve(request)
          : this.retrieval.retrieveForAll(request, id));
        if (isFailure(landing.held.entry.status)) this.noteFailure(stale, startedAt);
        this.noteLanding(resource.key, landing);
        return landing;
      },
      ended: (how) => {
        if (how === "failed") this.noteFailure(stale, startedAt);
        if (id !== undefined && this.flights.get(id) === flight) this.flights.delete(id);
      },
    });
    if (id !== undefined) this.flights.set(id, flight);
    return flight;
  }

  private noteFailure(stale: Held | undefined, startedAt: Instant): void {
    if (stale === undefined) return;
    const now = this.clock.now();
    const took = now - startedAt;
    stale.failedSlowly = took >= SLOW_FAILURE;
    stale.retryAt = now + Math.min(Math.max(took, MIN_RETRY_PAUSE), MAX_RETRY_PAUSE);
  }

  private noteLanding(key: CacheKey, { skipped, exclusive }: Landing): void {
    if (skipped === undefined && !exclusive) this.skips.clear(key);
    else this.skips.note(key, { reason: skipped, exclusive, at: this.clock.now() });
  }

  private presentLanding(
    resource: Resource,
    request: CacheRequest,
    landing: Landing,
    { reason, collapsed }: Journey,
  ): CacheAnswer {
    const { held, own, upstreamStatus, stored, skipped } = landing;
    const shown = collapsed ? held : own;
    const now = this.clock.now();
    const ttl = stored ? held.ttl(now) : undefined;
    if (upstreamStatus === undefined) {
      return this.present(resource, request, held, {
        outcome: "hit",
        tier: "shared",
        status: { ttl, detail: "shared" },
      });
    }
    const revalidated = upstreamStatus === 304;
    const outcome: CacheOutcome = revalidated ? "revalidated" : reason === "bypass" ? "bypass" : "miss";
    const { notModified } = this.presentation(resource, shown, request.headers, now);
    const status = notModified ? 304 : held.entry.status;
    return this.present(resource, request, shown, {
      outcome,
      tier: "upstream",
      status: {
        forward: reason,
        forwardStatus: upstreamStatus === status ? undefined : upstreamStatus,
        ttl,
        stored: stored && !revalidated,
        collapsed,
        detail: skipped,
      },
    });
  }

  private present(
    resource: Resource,
    request: CacheRequest,
    held: Held,
    handling: { outcome: CacheOutcome; tier: CacheTier; status: CacheStatus },
  ): CacheAnswer {
    this.observer.lookup(resource.key, handling.tier, handling.outcome);
    return held.answer(this.presentation(resource, held, request.headers, this.clock.now()), handling);
  }

  private presentation(resource: Resource, held: Held, headers: IncomingHttpHeaders, now: Instant): Presentation {
    const coding = this.codingOf(held, headers);
    const notModified =
      held.entry.status === 200 &&
      isConditional(headers) &&
      isNotModified(headers, held.validators(coding), this.clock.wallNow());
    return { now, policy: resource.policy, coding, notModified };
  }

  private codingOf(held: Held, headers: IncomingHttpHeaders): Coding {
    const accepted = headers["accept-encoding"];
    if (held.gzip === undefined || typeof accepted !== "string") return "identity";
    return this.codings.acceptsGzip(accepted) ? "gzip" : "identity";
  }

  private forwardReason(resource: Resource, held: Held | undefined): ForwardReason {
    if (this.coordinator.generation(resource.key) === undefined) return "bypass";
    if (held !== undefined) return this.clock.now() < held.entry.freshUntil ? "request" : "stale";
    return this.tiers.hasOtherVariants(resource.key) ? "vary-miss" : "uri-miss";
  }

  /** Equal for requests that one answer may satisfy, as far as that is known before it comes. */
  private flightOf({ key, policy }: Resource, headers: IncomingHttpHeaders): string {
    const known = this.tiers.memory.held(key)?.[0]?.entry.vary ?? [];
    const variant = variantOf(selectingNames(policy, known), headers);
    const authorized = policy.sharedAuthorization && headers.authorization !== undefined;
    const generation = this.coordinator.generation(key) ?? "";
    return `${flightPrefix(key)}${generation}\n${authorized ? "authorized" : ""}\n${variant}`;
  }
}

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

function flightPrefix(key: CacheKey): string {
  return `${key.partition}\n${key.id}\n`;
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
