import type { IncomingHttpHeaders } from "node:http";
import type { Clock, Duration, Instant } from "../clock.ts";
import type { Coordinator } from "../coordination/coordinator.ts";
import { isAuthorized } from "./rfc/forwarded.ts";
import { Flight } from "./flight.ts";
import type { Held } from "./held.ts";
import type { CacheObserver } from "./observer.ts";
import type { Resource } from "./resource.ts";
import type { Landing, Retrieval } from "./retrieval.ts";
import { isFailure } from "./rfc/reuse.ts";
import type { SkipMemory } from "./hit-for-miss.ts";
import type { CacheKey } from "./stores/store.ts";
import type { Tiers } from "./stores/tiers.ts";
import { selectingNames, variantOf } from "./rfc/vary.ts";

export interface FlightsOptions {
  readonly tiers: Tiers;
  readonly retrieval: Retrieval;
  readonly skips: SkipMemory;
  readonly coordinator: Coordinator;
  readonly clock: Clock;
  readonly observer: CacheObserver;
}

/** What a flight fetches. */
export interface Departure {
  readonly resource: Resource;
  /** Of the request that caused it. */
  readonly headers: IncomingHttpHeaders;
  /** What is stored and may be validated. */
  readonly stale: Held | undefined;
}

/** A failed attempt that took longer than this is not repeated with a client waiting while something can be served. */
const SLOW_FAILURE: Duration = 1_000;

/** Between failed background attempts: as long as the attempt took, within these bounds. */
const MIN_RETRY_PAUSE: Duration = 250;
const MAX_RETRY_PAUSE: Duration = 5_000;

/** The fetches that run: one at a time for requests that one answer may satisfy. */
export class Flights {
  private readonly tiers: Tiers;
  private readonly retrieval: Retrieval;
  private readonly skips: SkipMemory;
  private readonly coordinator: Coordinator;
  private readonly clock: Clock;
  private readonly observer: CacheObserver;
  private readonly running = new Map<string, Flight<Landing>>();
  private readonly refreshes = new Set<Promise<void>>();

  constructor({ tiers, retrieval, skips, coordinator, clock, observer }: FlightsOptions) {
    this.tiers = tiers;
    this.retrieval = retrieval;
    this.skips = skips;
    this.coordinator = coordinator;
    this.clock = clock;
    this.observer = observer;
  }

  /** Equal for requests that one answer may satisfy, as far as that is known before it comes. */
  idOf({ key, policy }: Resource, headers: IncomingHttpHeaders): string {
    const known = this.tiers.memory.held(key)?.[0]?.entry.vary ?? [];
    const variant = variantOf(selectingNames(policy, known), headers);
    const epoch = this.coordinator.epochOf(key) ?? "";
    return `${prefixOf(key)}${epoch}\n${isAuthorized(policy, headers) ? "authorized" : ""}\n${variant}`;
  }

  get(id: string): Flight<Landing> | undefined {
    return this.running.get(id);
  }

  /** The fetch that such a request may join. */
  find(resource: Resource, headers: IncomingHttpHeaders): Flight<Landing> | undefined {
    // Making an id is not cheap, and mostly nothing runs.
    return this.running.size === 0 ? undefined : this.running.get(this.idOf(resource, headers));
  }

  isRunning(key: CacheKey): boolean {
    return [...this.running.keys()].some((id) => id.startsWith(prefixOf(key)));
  }

  /** A fetch that requests with this id may join; in other processes nobody does the same. */
  depart(id: string, departure: Departure, background = false): Flight<Landing> {
    const flight = this.fly(departure, { background, id, ended: () => this.running.delete(id) });
    this.running.set(id, flight);
    return flight;
  }

  /** A fetch for one request alone. */
  departAlone(departure: Departure): Flight<Landing> {
    return this.fly(departure, {});
  }

  /** Renews an entry while it is served, unless that is being done or has just failed. */
  refresh(resource: Resource, headers: IncomingHttpHeaders, stale: Held): void {
    if (this.clock.now() < stale.retryAt) return;
    const id = this.idOf(resource, headers);
    if (this.running.has(id)) return;
    const flight = this.depart(id, { resource, headers, stale }, true);
    const work = flight.wait({ deadline: Infinity }).then(
      (landing) => this.observer.refreshed(resource.key, refreshOutcome(landing)),
      () => this.observer.refreshed(resource.key, "failed"),
    );
    this.refreshes.add(work);
    void work.finally(() => this.refreshes.delete(work));
  }

  /** Remembers that renewing `stale` failed, and whether whoever waited for it lost time. */
  noteFailure(stale: Held | undefined, since: Instant): void {
    if (stale === undefined) return;
    const now = this.clock.now();
    const took = now - since;
    stale.failedSlowly = took >= SLOW_FAILURE;
    stale.retryAt = now + Math.min(Math.max(took, MIN_RETRY_PAUSE), MAX_RETRY_PAUSE);
  }

  /** Resolves when the refreshes that run now are over. */
  async settled(): Promise<void> {
    await Promise.allSettled(this.refreshes);
  }

  /** Ends everything, whoever waits. */
  abandon(): void {
    for (const flight of this.running.values()) flight.abandon();
  }

  private fly(
    { resource, headers, stale }: Departure,
    { id, background = false, ended }: { id?: string; background?: boolean; ended?: () => unknown },
  ): Flight<Landing> {
    const startedAt = this.clock.now();
    const purpose = background ? "refresh" : "miss";
    const deadline = startedAt + resource.timeout;
    return new Flight<Landing>({
      clock: this.clock,
      timeout: resource.timeout,
      background,
      run: async (signal) => {
        const request = { resource, headers, stale, purpose, deadline, signal } as const;
        const landing = await (id === undefined
          ? this.retrieval.retrieve(request)
          : this.retrieval.retrieveForAll(request, id));
        if (isFailure(landing.held.entry.status)) this.noteFailure(stale, startedAt);
        this.skips.note(resource, headers, { ...landing, at: this.clock.now() });
        return landing;
      },
      ended: (how) => {
        if (stale !== undefined) stale.triedAt = this.clock.now();
        if (how === "failed") this.noteFailure(stale, startedAt);
        ended?.();
      },
    });
  }
}

function refreshOutcome({ held, upstreamStatus, stored }: Landing): Parameters<CacheObserver["refreshed"]>[1] {
  if (isFailure(held.entry.status)) return "failed";
  if (upstreamStatus === 304) return "revalidated";
  return stored ? "stored" : "not-stored";
}

function prefixOf({ name }: CacheKey): string {
  return `${name}\n`;
}
