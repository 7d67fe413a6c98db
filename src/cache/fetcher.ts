import { LRUCache } from "lru-cache";
import { type Clock, type Duration, type Instant, sleep } from "../clock.ts";
import { GatewayError } from "../errors.ts";
import type { Lease, Leases } from "../sharing/ports.ts";
import { renewed } from "./conditional.ts";
import { isKeptStatus, judge } from "./entry.ts";
import { idOf } from "./memory.ts";
import type { Tiers } from "./tiers.ts";
import type { CacheKey, CachePolicy, Entry, Fetch, Fetched, FetchPurpose } from "./types.ts";

/** A request to the cache: its key, how its answer is kept, and how it is had from the registry. */
export interface Question {
  readonly key: CacheKey;
  readonly policy: CachePolicy;
  readonly fetch: Fetch;
}

/** Result of a fetcher, from Redis or the registry. `unstored`: why it is not stored, in one token; undefined: it is. */
export type Landed =
  | { readonly kind: "redis"; readonly entry: Entry }
  | { readonly kind: "miss" | "revalidated"; readonly entry: Entry; readonly unstored: string | undefined };

/** How a stored entry may be served without waiting for anything. */
type Use = "fresh" | "stale-while-revalidate" | "stale-if-error" | "cache-only";

interface FetcherOptions {
  readonly tiers: Tiers;
  readonly leases: Leases;
  readonly clock: Clock;
  readonly random: () => number;
}

/** Share of a configured ttl that may be taken off at random: what was fetched together does not expire together. */
const MAX_SHORTENING = 0.1;
/** Pause after a fetch that failed, while there is something stale to serve. */
const RETRY_AFTER: Duration = 1_000;
/** Time for which a failure says that the registry fails: after it somebody waits and asks, since it may be well again. */
const FAILS_FOR: Duration = 15_000;
/** Keys that are remembered as failing. */
const MAX_FAILING = 1_000;
/** Time between two looks of a replica that waits for another one's fetch. */
const LOOK_EVERY: Duration = 50;
/** Longest time that a lease is waited for. */
const LONGEST_LEASE: Duration = 30_000;

/** Gets what is not in memory: from Redis, or by a fetch under the key's lease. Its caller runs one at a time of each key. */
export class Fetcher {
  private readonly options: FetcherOptions;
  /** When fetches failed, by key, until one succeeds. */
  private readonly failing = new LRUCache<string, Instant>({ max: MAX_FAILING });

  constructor(options: FetcherOptions) {
    this.options = options;
  }

  /** The instant from which a key whose last fetch failed may be tried again; undefined: it did not fail. */
  retryAt(key: CacheKey): Instant | undefined {
    const failedAt = this.failing.get(idOf(key));
    return failedAt === undefined ? undefined : failedAt + RETRY_AFTER;
  }

  /** Says how an entry may be served now without waiting; undefined: in no way. */
  useOf({ freshUntil, refreshUntil, errorUntil }: Entry, { key, policy }: Question): Use | undefined {
    const now = this.options.clock.now();
    if (now < freshUntil) return "fresh";
    if (policy.isCacheOnly) return "cache-only";
    if (now < refreshUntil) return "stale-while-revalidate";
    const fails = now - (this.failing.get(idOf(key)) ?? -Infinity) < FAILS_FOR;
    return fails && now < errorUntil ? "stale-if-error" : undefined;
  }

  /** Gets the answer to a question. @throws what its `fetch` throws */
  async get(question: Question, purpose: FetchPurpose): Promise<Landed> {
    const { key, policy } = question;
    const shared = await this.lookUp(question, purpose);
    if (shared !== undefined) return shared;
    const lease = policy.isCacheOnly ? undefined : await this.waitForLease(question, purpose);
    if (lease !== undefined && "kind" in lease) return lease;
    try {
      return await this.fetch(question, purpose);
    } catch (error) {
      this.noteFailure(key);
      throw error;
    } finally {
      lease?.release();
    }
  }

  /** Looks up what Redis has, where that will do: a refresh is content with what is fresh alone. */
  private async lookUp(question: Question, purpose: FetchPurpose): Promise<Landed | undefined> {
    const entry = await this.options.tiers.lookUp(question.key);
    const use = entry && this.useOf(entry, question);
    // Another replica has fetched it.
    if (use === "fresh") this.failing.delete(idOf(question.key));
    return use === "fresh" || (use !== undefined && purpose === "miss") ? { kind: "redis", entry: entry! } : undefined;
  }

  /**
   * Waits for the lease of a key, or for what its holder stores. Undefined: fetch without a lease. Whoever has waited does so,
   * too: else replicas would ask one after the other for what cannot be stored.
   */
  private async waitForLease(question: Question, purpose: FetchPurpose): Promise<Lease | Landed | undefined> {
    const { tiers, leases, clock } = this.options;
    const { party, name } = question.key;
    // With the epoch: what is asked for after a purge waits for no fetch from before it.
    const key = { party, name: `${name} ${tiers.epochOf(question.key)}` };
    const until = clock.now() + LONGEST_LEASE;
    let state = await leases.acquire(key);
    if (state !== "held") return state === "none" ? undefined : state;
    while (state === "held" && clock.now() < until) {
      await sleep(LOOK_EVERY, clock);
      state = await leases.acquire(key);
      if (typeof state === "object") state.release();
      // Only now: whoever gives a lease back has stored before.
      const shared = await this.lookUp(question, purpose);
      if (shared !== undefined) return shared;
    }
    return undefined;
  }

  /** Fetches, with a condition where the registry gave validators. */
  private async fetch({ key, policy, fetch }: Question, purpose: FetchPurpose): Promise<Landed> {
    const { tiers } = this.options;
    // Read before the fetch: an answer from before a purge is never stored as one from after it.
    const epoch = tiers.epochOf(key);
    const stored = tiers.peek(key);
    const fetched = await fetch(stored?.validators, purpose);
    if (fetched.status !== 304) return this.keep(fetched, { key, policy, epoch, kind: "miss" });
    const whole = stored && renewed(stored, fetched);
    if (whole !== undefined) return this.keep(whole, { key, policy, epoch, kind: "revalidated" });
    // RFC 9111 §4.3.4: it speaks of another answer than the one that is stored.
    const anew = await fetch(undefined, purpose);
    if (anew.status !== 304) return this.keep(anew, { key, policy, epoch, kind: "miss" });
    throw new GatewayError("upstream_invalid", "the registry answers 304 to a request without a condition");
  }

  /** Makes an entry of an answer, and stores it where that may be. A status that is not kept displaces nothing. */
  private keep(
    fetched: Fetched,
    at: Omit<Question, "fetch"> & { readonly epoch: number; readonly kind: "miss" | "revalidated" },
  ): Landed {
    const { tiers, clock, random } = this.options;
    const { key, policy, epoch, kind } = at;
    const shortening = random() * MAX_SHORTENING;
    const context = { policy, epoch, generation: key.generation, wallNow: clock.wallNow(), shortening };
    const { entry, unstored } = judge(fetched, context);
    if (!isKeptStatus(entry.status, policy)) {
      this.noteFailure(key);
      return { kind, entry, unstored };
    }
    this.failing.delete(idOf(key));
    if (tiers.epochOf(key) !== epoch) return { kind, entry, unstored: "purged" };
    if (unstored === undefined) tiers.set(key, entry);
    else tiers.delete(key);
    return { kind, entry, unstored };
  }

  private noteFailure(key: CacheKey): void {
    this.failing.set(idOf(key), this.options.clock.now());
  }
}
