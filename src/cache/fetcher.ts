import { LRUCache } from "lru-cache";
import { type Clock, type Duration, type Instant, sleep } from "../clock.ts";
import { GatewayError } from "../errors.ts";
import type { Lease, Leases } from "../sharing/ports.ts";
import { renewed } from "./conditional.ts";
import { isKeptStatus, judge } from "./entry.ts";
import { idOf } from "./memory.ts";
import type { Tiers } from "./tiers.ts";
import type { CacheKey, CachePolicy, Entry, Fetch, Fetched, FetchPurpose } from "./types.ts";

/** One request on its way through the tiers. */
export interface Question {
  readonly key: CacheKey;
  readonly policy: CachePolicy;
  readonly fetch: Fetch;
}

/** An answer that a fetch brought. `unstored`: why it is not stored, in one token; undefined: it is. */
export type Landed =
  | { readonly kind: "redis"; readonly entry: Entry }
  | { readonly kind: "miss" | "revalidated"; readonly entry: Entry; readonly unstored: string | undefined };

/** How a stored entry may be served without waiting for anything. */
type Use = "fresh" | "stale-while-revalidate" | "stale-if-error" | "cache-only";

export interface FetcherOptions {
  readonly tiers: Tiers;
  readonly leases: Leases;
  readonly clock: Clock;
  readonly random: () => number;
}

/** Most that is taken off a configured ttl at random, so that what was fetched together does not expire together. */
const MOST_SHORTENING = 0.1;
/** After a fetch that failed, while there is something stale to serve. */
const RETRY_AFTER: Duration = 1_000;
/** Keys whose last fetch failed. */
const MAX_FAILING = 1_000;
/** How often a replica that waits for another one's fetch looks. */
const LOOK_EVERY: Duration = 50;
/** A lease that is held for longer is waited for by nobody. */
const LONGEST_LEASE: Duration = 30_000;

/** Gets what is not in memory: Redis, the lease of the key over all replicas, the fetch. Whether two may run is decided above. */
export class Fetcher {
  private readonly options: FetcherOptions;
  /** When keys whose last fetch failed may be tried again. */
  private readonly failing = new LRUCache<string, Instant>({ max: MAX_FAILING });

  constructor(options: FetcherOptions) {
    this.options = options;
  }

  /** When a key whose last fetch failed may be tried again; undefined: it did not fail. */
  retryAt(key: CacheKey): Instant | undefined {
    return this.failing.get(idOf(key));
  }

  /** How an entry may be served now without waiting; undefined: in no way. */
  useOf({ freshUntil, refreshUntil, errorUntil }: Entry, { key, policy }: Question): Use | undefined {
    const now = this.options.clock.now();
    if (now < freshUntil) return "fresh";
    if (policy.isCacheOnly) return "cache-only";
    if (now < refreshUntil) return "stale-while-revalidate";
    return now < errorUntil && this.failing.has(idOf(key)) ? "stale-if-error" : undefined;
  }

  /** @throws what the question's `fetch` throws */
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
    // Another replica has got it.
    if (use === "fresh") this.failing.delete(idOf(question.key));
    return use === "fresh" || (use !== undefined && purpose === "miss") ? { kind: "redis", entry: entry! } : undefined;
  }

  /**
   * The lease of a key, or what another replica stored while it had it. Undefined: fetch without one. Whoever has waited goes
   * without: else replicas would ask one after the other for what cannot be stored.
   */
  private async waitForLease(question: Question, purpose: FetchPurpose): Promise<Lease | Landed | undefined> {
    const { tiers, leases, clock } = this.options;
    const { party, name } = question.key;
    // What is asked for after a purge waits for no fetch from before it.
    const key = { party, name: `${name} ${tiers.epochOf(question.key)}` };
    const until = clock.now() + LONGEST_LEASE;
    let state = await leases.acquire(key);
    if (state !== "held") return state === "none" ? undefined : state;
    while (state === "held" && clock.now() < until) {
      await sleep(LOOK_EVERY, clock);
      state = await leases.acquire(key);
      if (typeof state === "object") state.release();
      // After the lease: who gives it back has stored before.
      const shared = await this.lookUp(question, purpose);
      if (shared !== undefined) return shared;
    }
    return undefined;
  }

  /** Fetches, with a condition where the registry gave validators. */
  private async fetch({ key, policy, fetch }: Question, purpose: FetchPurpose): Promise<Landed> {
    const { tiers } = this.options;
    // Taken before: what is asked for before a purge is never stored as after it.
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

  /** Stores an answer where that may be. What is no answer to keep leaves alone what is stored. */
  private keep(
    fetched: Fetched,
    at: Omit<Question, "fetch"> & { readonly epoch: number; readonly kind: "miss" | "revalidated" },
  ): Landed {
    const { tiers, clock, random } = this.options;
    const { key, policy, epoch, kind } = at;
    const shortening = random() * MOST_SHORTENING;
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
    this.failing.set(idOf(key), this.options.clock.now() + RETRY_AFTER);
  }
}
