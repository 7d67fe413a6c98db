import { type Clock, type Wait, withDeadline } from "../clock.ts";
import { GatewayError, isClientGone } from "../errors.ts";
import type { Purges, Sharing } from "../sharing/ports.ts";
import type { Size } from "../units.ts";
import { isKeptStatus } from "./entry.ts";
import { explainEntry } from "./explain.ts";
import { Fetcher, type Landed, type Question } from "./fetcher.ts";
import { idOf, Memory } from "./memory.ts";
import { SingleFlight } from "./single-flight.ts";
import { Tiers } from "./tiers.ts";
import type { CacheExplanation, CacheKey, CachePolicy, Entry, Fetch, Found } from "./types.ts";

/** Metrics of the cache. */
export interface CacheObserver {
  /** Memory gave up so many entries for space. */
  evicted(count: number): void;
}

interface CacheOptions {
  readonly memory: Size;
  readonly clock: Clock;
  readonly sharing: Pick<Sharing, "entries" | "leases" | "purges">;
  /** In [0, 1): shortens configured ttls. */
  readonly random?: () => number;
  readonly observer: CacheObserver;
}

const HIT = { stored: true } as const;
const REDIS_HIT = { stored: true, tier: "redis" } as const;

/** A shared cache (RFC 9111) of answers that are right for everybody: memory, Redis beside it, and one fetch per key. */
export class Cache {
  private readonly clock: Clock;
  private readonly purges: Purges;
  private readonly tiers: Tiers;
  private readonly fetcher: Fetcher;
  private readonly flights = new SingleFlight<Landed>();

  constructor({ memory, clock, sharing, random = Math.random, observer }: CacheOptions) {
    const tiers = new Tiers(new Memory(memory, (count) => observer.evicted(count)), sharing, clock);
    this.clock = clock;
    this.purges = sharing.purges;
    this.tiers = tiers;
    this.fetcher = new Fetcher({ tiers, leases: sharing.leases, clock, random });
  }

  /** Changes how much memory it has. */
  resize(memory: Size): void {
    this.tiers.memory.resize(memory);
  }

  stats(): { readonly bytes: Size; readonly entries: number } {
    const { bytes, entries } = this.tiers.memory;
    return { bytes, entries };
  }

  /** The generation of a group of answers that lose their worth together: the pages of one listing. */
  generationOf(group: string): number {
    return this.purges.epochOf(group);
  }

  /** Begins the next generation of a group, at all replicas: a purge under a name that is no party's. */
  beginGeneration(group: string): number {
    void this.purges.purge(group);
    return this.purges.epochOf(group);
  }

  /** Finds what is in memory and fresh. Synchronous. */
  hit(key: CacheKey): Found | undefined {
    const entry = this.tiers.peek(key);
    if (entry === undefined || this.clock.now() >= entry.freshUntil) return undefined;
    return { entry, outcome: "hit", detail: HIT };
  }

  /** Finds what is in memory, fresh or not, unless it was purged or its listing has changed. */
  peek(key: CacheKey): Entry | undefined {
    return this.tiers.peek(key);
  }

  /**
   * Gets the answer from memory, Redis or the one fetch. The fetch belongs to no waiter: when `wait` is over it goes on, and is
   * stored.
   *
   * @throws GatewayError what `fetch` throws where nothing stale stands in; 504 when the deadline passes; when the client goes
   */
  async get(key: CacheKey, policy: CachePolicy, fetch: Fetch, wait: Wait): Promise<Found> {
    const question: Question = { key, policy, fetch };
    const stored = this.tiers.peek(key);
    const served = stored && this.serve(stored, question);
    if (served !== undefined) return served;
    try {
      const { work, isJoined } = this.flights.join(this.flightOf(key), () => this.fetcher.get(question, "miss"));
      const landed = await withDeadline(work, wait, tooLate, this.clock);
      return this.foundBy(landed, question, { isJoined, wasStored: stored !== undefined });
    } catch (error) {
      if (!(error instanceof GatewayError) || isClientGone(error)) throw error;
      // It is gone, says a registry in a form that is not stored.
      if (isKeptStatus(error.status, policy)) throw error;
      return this.inPlaceOfFailure(key) ?? Promise.reject(error);
    }
  }

  /** Tells what is stored under a key, in both tiers, and what would become of it. */
  async explain(key: CacheKey): Promise<CacheExplanation> {
    const inRedis = await this.tiers.inRedis(key);
    const inMemory = this.tiers.memory.get(key);
    const now = this.clock.now();
    const at = { key, epoch: this.tiers.epochOf(key), now };
    const retryAt = this.fetcher.retryAt(key);
    return {
      party: key.party,
      name: key.name,
      epoch: at.epoch,
      entries: [
        ...(inMemory === undefined ? [] : [explainEntry(inMemory, "memory", at)]),
        ...(inRedis === undefined ? [] : [explainEntry(inRedis, "redis", at)]),
      ],
      isFetching: this.flights.has(this.flightOf(key)),
      ...(retryAt !== undefined && { retryIn: Math.max(0, retryAt - now) }),
    };
  }

  /** Answers with what is stored, where it may be served unasked, and has what is stale renewed. */
  private serve(entry: Entry, question: Question, tier?: "redis"): Found | undefined {
    const use = this.fetcher.useOf(entry, question);
    if (use === undefined) return undefined;
    if (use === "fresh") return { entry, outcome: "hit", detail: tier === undefined ? HIT : REDIS_HIT };
    if (use !== "cache-only") this.refresh(question);
    return { entry, outcome: "stale", detail: { stored: true, ...(tier && { tier }), reason: use } };
  }

  /** Fetches anew in the background, unless that is done already or has just failed. */
  private refresh(question: Question): void {
    const { key } = question;
    const flight = this.flightOf(key);
    if (this.flights.has(flight) || this.clock.now() < (this.fetcher.retryAt(key) ?? -Infinity)) return;
    try {
      const { work } = this.flights.join(flight, () => this.fetcher.get(question, "refresh"));
      // Nobody waits; that it failed is noted.
      work.catch(() => undefined);
    } catch {
      // Too much runs: another request tries again.
    }
  }

  /** Makes the answer for one of those who waited for a fetch. */
  private foundBy(
    landed: Landed,
    question: Question,
    { isJoined, wasStored }: { readonly isJoined: boolean; readonly wasStored: boolean },
  ): Found {
    const { kind, entry } = landed;
    // It may have become stale within this moment: it was good when it was found.
    if (kind === "redis") return this.serve(entry, question, "redis") ?? { entry, outcome: "hit", detail: REDIS_HIT };
    const { key, policy } = question;
    const instead = isKeptStatus(entry.status, policy) ? undefined : this.inPlaceOfFailure(key);
    if (instead !== undefined) return instead;
    const { unstored } = landed;
    const detail = {
      forward: wasStored || kind === "revalidated" ? "stale" : "uri-miss",
      stored: unstored === undefined,
      ...(isJoined && { collapsed: true }),
      ...(unstored !== undefined && { reason: unstored }),
    } as const;
    return { entry, outcome: kind, detail };
  }

  /** The stale answer that stands in for a failure (RFC 5861 §4). Looked up anew: it may have been purged. */
  private inPlaceOfFailure(key: CacheKey): Found | undefined {
    const entry = this.tiers.peek(key);
    if (entry === undefined || this.clock.now() >= entry.errorUntil) return undefined;
    return { entry, outcome: "stale", detail: { forward: "stale", stored: false, reason: "stale-if-error" } };
  }

  /** Names the fetch of a key: a request that comes after a purge, or a change of the listing, joins none from before it. */
  private flightOf(key: CacheKey): string {
    return `${idOf(key)} ${this.tiers.epochOf(key)} ${key.generation}`;
  }
}

function tooLate(): GatewayError {
  return new GatewayError(
    "upstream_timeout",
    "the registry did not answer within the time that the request has; try again in some seconds",
  );
}
