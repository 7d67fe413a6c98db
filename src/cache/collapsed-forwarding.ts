import type { IncomingHttpHeaders } from "node:http";
import { LRUCache } from "lru-cache";
import type { Clock, Duration, Instant } from "../clock.ts";
import type { CacheKey } from "../sharing/entries.ts";
import type { EpochsPort } from "../sharing/ports.ts";
import type { CachedEntry } from "./cached-entry.ts";
import type { Fetcher, FetchLimits, FetchResult, Miss } from "./fetch.ts";
import type { CacheObserver, Resource, SkipReason } from "./resource.ts";
import { isAuthorized, selectingNames, variantOf } from "./rfc/request-fields.ts";
import { isFailure, isUsableOnError, NOTHING_ASKED } from "./rfc/reuse.ts";
import { SharedFetch } from "./shared-fetch.ts";
import type { Tiers } from "./stores/tiers.ts";

export interface CollapsedForwardingOptions {
  readonly tiers: Tiers;
  readonly fetcher: Fetcher;
  readonly hitForMiss: HitForMiss;
  readonly epochs: EpochsPort;
  readonly clock: Clock;
  readonly observer: CacheObserver;
}

/**
 * How long a client waits for what may fail, or may not help, as something else can be done: a failed attempt that took longer
 * is not repeated with a client waiting while something can be served.
 */
export const WORTH_WAITING: Duration = 1_000;

/** Between failed background attempts: as long as the attempt took, within these bounds. */
const MIN_RETRY_PAUSE: Duration = 250;
const MAX_RETRY_PAUSE: Duration = 5_000;

type FetchTerms = Pick<FetchLimits, "purpose" | "background">;

const FOR_CLIENTS: FetchTerms = { purpose: "miss", background: false };

/** The fetches that run: one at a time for requests that one answer may satisfy (RFC 9111 §4, "collapsed requests"). */
export class CollapsedForwarding {
  private readonly options: CollapsedForwardingOptions;
  private readonly running = new Map<string, SharedFetch<FetchResult>>();
  private readonly refreshes = new Set<Promise<void>>();

  constructor(options: CollapsedForwardingOptions) {
    this.options = options;
  }

  /** Equal for requests that one answer may satisfy, as far as that is known before it comes. */
  idOf({ key, policy }: Resource, headers: IncomingHttpHeaders): string {
    const { tiers, epochs } = this.options;
    const known = tiers.memory.variants(key)?.[0]?.entry.vary ?? [];
    const variant = variantOf(selectingNames(policy, known), headers);
    // Of a page whose token nobody issued here, that of its scopes: it, too, is not shared across a purge.
    const epoch = epochs.epochOf(key) ?? epochs.epochOf({ partition: key.partition, scopes: key.scopes }) ?? "";
    return `${prefixOf(key)}${epoch}\n${isAuthorized(policy, headers) ? "authorized" : ""}\n${variant}`;
  }

  get(id: string): SharedFetch<FetchResult> | undefined {
    return this.running.get(id);
  }

  /** Whether a fetch runs that such a request may join. */
  has(resource: Resource, headers: IncomingHttpHeaders): boolean {
    // Making an id is not cheap, and mostly nothing runs.
    return this.running.size > 0 && this.running.has(this.idOf(resource, headers));
  }

  isRunning(key: CacheKey): boolean {
    return [...this.running.keys()].some((id) => id.startsWith(prefixOf(key)));
  }

  /** A fetch that requests with this id may join; no other process does the same meanwhile. */
  start(id: string, miss: Miss, terms: FetchTerms = FOR_CLIENTS): SharedFetch<FetchResult> {
    const fetch = this.fetch(miss, terms, { id, ended: () => this.running.delete(id) });
    this.running.set(id, fetch);
    return fetch;
  }

  /** A fetch for one request alone. */
  startAlone(miss: Miss): SharedFetch<FetchResult> {
    return this.fetch(miss, FOR_CLIENTS);
  }

  /**
   * Renews an entry while it is served, unless that has just failed. Resolves when that is over, however it ended.
   * @param purpose `miss`: a client waits for it all the same
   */
  async refresh(
    resource: Resource,
    headers: IncomingHttpHeaders,
    stale: CachedEntry,
    purpose: FetchLimits["purpose"] = "refresh",
  ): Promise<void> {
    const { clock, observer } = this.options;
    if (clock.now() < stale.retryAt || resource.refusal?.() !== undefined) return;
    const id = this.idOf(resource, headers);
    const running = this.running.get(id);
    if (running !== undefined) return running.whenOver;
    const fetch = this.start(id, { resource, headers, stale }, { purpose, background: true });
    const work = fetch.wait({ deadline: Infinity }).then(
      (result) => observer.refreshed(resource.key, refreshOutcome(result)),
      () => observer.refreshed(resource.key, "failed"),
    );
    this.refreshes.add(work);
    void work.finally(() => this.refreshes.delete(work));
    return work;
  }

  /** Remembers that renewing `stale` failed, and whether clients that waited for it lost time. */
  noteFailure(stale: CachedEntry | undefined, since: Instant): void {
    if (stale === undefined) return;
    const now = this.options.clock.now();
    const took = now - since;
    stale.failedSlowly = took >= WORTH_WAITING;
    stale.retryAt = now + Math.min(Math.max(took, MIN_RETRY_PAUSE), MAX_RETRY_PAUSE);
  }

  /** Remembers that an answer could not be kept: what stands in its place is not renewed again at once. */
  private noteNotStored({ resource, headers, stale }: Miss): void {
    const { tiers, clock } = this.options;
    const present = tiers.select(resource, headers) ?? stale;
    if (present === undefined) return;
    present.triedAt = clock.now();
    present.retryAt = clock.now() + MAX_RETRY_PAUSE;
  }

  /** Resolves when the refreshes that run now are over. */
  async settled(): Promise<void> {
    await Promise.allSettled(this.refreshes);
  }

  /** Ends everything, even if requests wait. */
  abandon(): void {
    for (const fetch of this.running.values()) fetch.abandon();
  }

  private fetch(
    miss: Miss,
    { purpose, background }: FetchTerms,
    { id, ended }: { id?: string; ended?: () => unknown } = {},
  ): SharedFetch<FetchResult> {
    const { clock, fetcher, hitForMiss } = this.options;
    const { resource, headers, stale } = miss;
    const startedAt = clock.now();
    // Where something can be served, nobody waits long for a limit: that it is used up counts as a failure. A client may yet
    // join what runs in the background.
    const canServe = stale !== undefined && isUsableOnError(stale.entry, startedAt, NOTHING_ASKED);
    const maxWait = canServe ? WORTH_WAITING : Infinity;
    const deadline = startedAt + resource.timeout;
    return new SharedFetch<FetchResult>({
      clock,
      timeout: resource.timeout,
      background,
      run: async (signal) => {
        const limits = { purpose, background, maxWait, deadline, signal };
        const result = await (id === undefined ? fetcher.fetch(miss, limits) : fetcher.fetchForAll(miss, limits, id));
        if (isFailure(result.cached.entry.status)) this.noteFailure(stale, startedAt);
        else if (!result.stored) this.noteNotStored(miss);
        hitForMiss.note(resource, headers, { ...result, status: result.cached.entry.status, at: clock.now() });
        return result;
      },
      ended: (how) => {
        if (stale !== undefined) stale.triedAt = clock.now();
        if (how === "failed") this.noteFailure(stale, startedAt);
        ended?.();
      },
    });
  }
}

function refreshOutcome({ cached, upstreamStatus, stored }: FetchResult): Parameters<CacheObserver["refreshed"]>[1] {
  if (isFailure(cached.entry.status)) return "failed";
  if (upstreamStatus === 304) return "revalidated";
  return stored ? "stored" : "not-stored";
}

function prefixOf({ name }: CacheKey): string {
  return `${name}\n`;
}

/** How an answer ended. */
interface Ending {
  readonly status: number;
  /** Why it was not stored. */
  readonly skipped: SkipReason | undefined;
  /** Only the client that asked may get it. */
  readonly exclusive: boolean;
  readonly at: Instant;
}

const MAX_REMEMBERED = 2_000;

/** How long requests for a key go their own ways after an answer that was for one client only. */
const EXCLUSIVE_FOR: Duration = 10_000;

/**
 * Remembers, bounded, why answers were not stored, and which keys it is useless to wait together for; of requests with
 * credentials apart from those without, as they get different answers.
 */
export class HitForMiss {
  private readonly endings = new LRUCache<string, Ending>({ max: MAX_REMEMBERED });

  /** An answer that was stored for all makes what came before irrelevant. */
  note(resource: Resource, headers: IncomingHttpHeaders, { status, skipped, exclusive, at }: Ending): void {
    const name = nameOf(resource, isAuthorized(resource.policy, headers));
    if (skipped === undefined && !exclusive) this.endings.delete(name);
    else this.endings.set(name, { status, skipped, exclusive, at });
  }

  /** The last one, of either kind of request. */
  last(resource: Resource): Ending | undefined {
    const endings = [false, true].flatMap((authorized) => this.endings.get(nameOf(resource, authorized)) ?? []);
    return endings.sort((a, b) => b.at - a.at)[0];
  }

  /** Whether the last answer, a moment ago, was for one client only: waiting for the next one would only cost time. */
  isExclusive(resource: Resource, headers: IncomingHttpHeaders, now: Instant): boolean {
    const last = this.endings.get(nameOf(resource, isAuthorized(resource.policy, headers)));
    return last !== undefined && last.exclusive && now < last.at + EXCLUSIVE_FOR;
  }
}

function nameOf({ key }: Resource, authorized: boolean): string {
  return authorized ? `${key.name}\nauthorized` : key.name;
}
