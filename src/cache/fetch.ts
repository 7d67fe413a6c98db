import type { IncomingHttpHeaders } from "node:http";
import type { Clock, Instant } from "../clock.ts";
import type { Entry } from "../sharing/entries.ts";
import type { EpochsPort, LeasesPort, FetchOutcome, Lease } from "../sharing/ports.ts";
import { GatewayError } from "../errors.ts";
import { isHeadTooLarge } from "../fields.ts";
import { CachedEntry, MAX_SHORTENING } from "./cached-entry.ts";
import { deriveResponse, type JudgedResponse, judgeResponse, overtaken } from "./entry.ts";
import type {
  CacheObserver,
  CachePolicy,
  FetchRequest,
  Fetched,
  FillSource,
  Resource,
  SkipReason,
} from "./resource.ts";
import { conditionalFields, confirms, freshen } from "./rfc/conditional.ts";
import { isAuthorized, selectingNames, variantOf } from "./rfc/request-fields.ts";
import { isFailure } from "./rfc/reuse.ts";
import type { Tiers } from "./stores/tiers.ts";

/** A request that no stored entry satisfies. */
export interface Miss {
  readonly resource: Resource;
  readonly headers: IncomingHttpHeaders;
  /** What is stored and may be validated. */
  readonly stale: CachedEntry | undefined;
}

/** What a fetch is for, and how long it may take. */
export interface FetchLimits extends Pick<FetchRequest, "purpose" | "maxWait" | "deadline" | "signal"> {
  /** No client looked elsewhere before, and none is needed for it to go on. */
  readonly background: boolean;
}

/** What was asked of the upstream, or of another process, and came back. */
export interface FetchResult {
  /** What all clients may see that may see the answer at all. */
  readonly cached: CachedEntry;
  /** What the client that asked may see: with the fields that are for it alone. */
  readonly own: CachedEntry;
  readonly stored: boolean;
  readonly skipped: SkipReason | undefined;
  /** For the client that asked and no other. */
  readonly exclusive: boolean;
  /** The status of the upstream's answer: 304 when it confirmed the entry. Undefined: another process fetched it. */
  readonly upstreamStatus: number | undefined;
}

/** Both as they were before the upstream was asked. */
interface EpochsBefore {
  readonly epoch: string | undefined;
  readonly softEpoch: string;
}

export interface FetcherOptions {
  readonly tiers: Tiers;
  readonly epochs: EpochsPort;
  readonly leases: LeasesPort;
  readonly clock: Clock;
  readonly random: () => number;
  readonly observer: CacheObserver;
}

/** How often a process waits for another one's fetch that is then given up before it goes itself, lease or not. */
const LEASE_ROUNDS = 3;

/** Gets answers from the upstream, or lets another process get them, and stores what may be stored. */
export class Fetcher {
  private readonly tiers: Tiers;
  private readonly epochs: EpochsPort;
  private readonly leases: LeasesPort;
  private readonly clock: Clock;
  private readonly random: () => number;
  private readonly observer: CacheObserver;

  constructor({ tiers, epochs, leases, clock, random, observer }: FetcherOptions) {
    this.tiers = tiers;
    this.epochs = epochs;
    this.leases = leases;
    this.clock = clock;
    this.random = random;
    this.observer = observer;
  }

  /** As {@link fetch}, but of all processes only one goes to the upstream where that can be helped. */
  async fetchForAll(miss: Miss, limits: FetchLimits, id: string): Promise<FetchResult> {
    // Without a tier to share answers in, or when this one will not be stored, waiting for others would only cost time.
    const isShareable = this.tiers.hasShared && this.epochs.epochOf(miss.resource.key) !== undefined;
    if (limits.background && (isShareable || miss.resource.derive !== undefined)) {
      // A stale entry is served without a look elsewhere: it is the refresh that finds out.
      const renewed = await this.renewedElsewhere(miss, limits);
      if (renewed !== undefined) return renewed;
    }
    if (!isShareable) return this.fetch(miss, limits);
    let lease: Lease | undefined;
    for (let round = 0; round < LEASE_ROUNDS; round += 1) {
      lease = await this.leases.acquire(id);
      if (lease !== undefined) break;
      const outcome = await this.leases.whenReleased(id, limits.deadline);
      const found = outcome === "stored" ? await this.storedElsewhere(miss) : undefined;
      if (found !== undefined) {
        this.observer.collapsed(miss.resource.key, "replicas");
        return found;
      }
      if (outcome !== "failed") break;
    }
    let outcome: FetchOutcome = "uncacheable";
    try {
      const result = await this.fetch(miss, limits);
      if (result.stored && this.tiers.isSharedStatus(result.cached.entry.status)) outcome = "stored";
      return result;
    } catch (error) {
      // No request waited here any more, or the time was up: another process goes for those that still wait.
      if (limits.signal.aborted) outcome = "failed";
      throw error;
    } finally {
      lease?.release(outcome);
    }
  }

  /** Asks the upstream, validating what is stale. Rejects with the GatewayError of {@link Resource.fetch}. */
  async fetch(miss: Miss, limits: FetchLimits): Promise<FetchResult> {
    const { resource, headers } = miss;
    const epoch = this.epochs.epochOf(resource.key);
    const softEpoch = this.epochs.softEpochOf(resource.key);
    // Purged while this waited for its turn: a 304 must not bring it back.
    const stale = miss.stale?.entry.epoch === epoch ? miss.stale : undefined;
    const conditional = stale === undefined ? [] : conditionalFields(stale.entry);
    const fetched = await resource.fetch({ ...limits, headers, conditional, epoch });
    if (fetched.status !== 304) return this.store(miss, fetched, { epoch, softEpoch });
    if (stale !== undefined && conditional.length > 0 && confirms(fetched.fields, stale.entry)) {
      const fields = freshen(stale.entry, fetched.fields, this.clock.wallNow());
      // Else a head could grow beyond all bounds, 304 by 304; then the whole answer is asked for.
      if (!isHeadTooLarge(fields)) {
        // The stored entry renewed (RFC 9111 §4.3.4), with the fields of both.
        const { status, body } = stale.entry;
        const renewed = { ...fetched, fields, status, body };
        return { ...this.store({ ...miss, stale }, renewed, { epoch, softEpoch }), upstreamStatus: 304 };
      }
    }
    // RFC 9111 §4.3.4: a 304 for something else than what is stored confirms nothing.
    const full =
      conditional.length > 0 ? await resource.fetch({ ...limits, headers, conditional: [], epoch }) : fetched;
    if (full.status !== 304) return this.store(miss, full, { epoch, softEpoch });
    throw new GatewayError(
      "upstream_invalid",
      "the registry answered 304 Not Modified to a request without conditions",
      {},
    );
  }

  /**
   * Stores an answer derived from another one, in memory here only: fresh for the shorter of both lifetimes, and never
   * instead of something received after the other one was asked for. To be called from {@link Resource.stored} or
   * {@link Resource.derive}, while the other one is not purged.
   *
   * @returns whether it is stored, or something newer is: false when nothing is to be derived from the other answer
   */
  fill(resource: Resource, { entryOf, body, maxLifetime }: FillSource): boolean {
    const { key, policy } = resource;
    const epoch = this.epochs.epochOf(key);
    if (epoch === undefined) return false;
    const { entry, skipped } = judgeResponse({
      fetched: deriveResponse(entryOf, body),
      policy,
      // Whose request it was is unknown here: where that matters, nothing is derived.
      headers: policy.sharedAuthorization ? { authorization: "" } : {},
      epoch,
      softEpoch: this.epochs.softEpochOf(key),
      receivedWall: this.clock.wallNow() - (this.clock.now() - entryOf.receivedAt),
      shortening: this.shortening(),
      maxLifetime,
    });
    if (skipped !== undefined || entry.vary.length > 0) return false;
    const isNewer = (stored: CachedEntry) => stored.entry.epoch === epoch && stored.entry.receivedAt > entry.madeAt;
    if (this.tiers.memory.variants(key)?.some(isNewer) === true) return true;
    const cached = this.tiers.storeHere(key, entry);
    if (cached !== undefined && this.tiers.hasShared) cached.derivedAt = entry.madeAt;
    return cached !== undefined;
  }

  /** How much of a configured TTL to take off. */
  private shortening(): number {
    return this.random() * MAX_SHORTENING;
  }

  private store(miss: Miss, fetched: Fetched, { epoch, softEpoch }: EpochsBefore): FetchResult {
    const { resource, headers, stale } = miss;
    const judged = judgeResponse({
      fetched,
      headers,
      policy: resource.policy,
      epoch: epoch ?? "",
      softEpoch,
      receivedWall: this.clock.wallNow() - (this.clock.now() - fetched.receivedAt),
      shortening: this.shortening(),
    });
    const reason = this.whyNotStored(miss, judged, { epoch, requestedAt: fetched.requestedAt });
    const stored = reason === undefined ? this.tiers.store(resource.key, judged.entry, stale) : undefined;
    const skipped = stored === undefined ? (reason ?? "too-large") : undefined;
    if (stored !== undefined) resource.stored?.(stored.entry, fetched);
    if (skipped !== undefined) this.observer.skipped(resource.key, skipped);
    // What came after a purge is not the worse for what was asked before it.
    const isCurrent = stale !== undefined && stale.entry.epoch === this.epochs.epochOf(resource.key);
    if (isCurrent && overtakes(fetched.status, skipped, { policy: resource.policy, headers })) {
      const { requestedAt, receivedAt, status } = fetched;
      const instead = overtaken(stale.entry, receivedAt, isGone(status));
      this.tiers.overtake(resource.key, stale, { instead, by: stored, requestedAt });
    }
    const cached = stored ?? new CachedEntry(judged.entry);
    return {
      cached,
      own: judged.ownFields === undefined ? cached : new CachedEntry({ ...cached.entry, fields: judged.ownFields }),
      stored: stored !== undefined,
      skipped,
      exclusive: judged.exclusive,
      upstreamStatus: fetched.status,
    };
  }

  private whyNotStored(
    { resource, stale }: Miss,
    { entry, skipped, exclusive }: JudgedResponse,
    { epoch, requestedAt }: { readonly epoch: string | undefined; readonly requestedAt: Instant },
  ): SkipReason | undefined {
    if (epoch === undefined) return exclusive ? skipped : "unissued-token";
    if (skipped !== undefined) return skipped;
    if (isFailure(entry.status) && stale !== undefined && this.standsIn(stale.entry)) return "failure";
    if (this.epochs.epochOf(resource.key) !== epoch) return "purged";
    const isNewer = (cached: CachedEntry) => cached !== stale && mayBeNewer(cached.entry, entry, requestedAt);
    return this.tiers.memory.variants(resource.key)?.some(isNewer) === true ? "superseded" : undefined;
  }

  /** Whether an entry may be served in the place of a failure: one error never stands in for another. */
  private standsIn({ status, usableUntil }: Entry): boolean {
    return !isFailure(status) && this.clock.now() < usableUntil;
  }

  /** What another process stored since, or what comes along with another answer, if it is fresh. */
  private async renewedElsewhere(miss: Miss, { purpose }: FetchLimits): Promise<FetchResult | undefined> {
    const found = await this.storedElsewhere(miss);
    if (found !== undefined) return found;
    await miss.resource.derive?.(purpose);
    return this.renewed(miss);
  }

  /** What another process stored since, if it is fresh. */
  private async storedElsewhere(miss: Miss): Promise<FetchResult | undefined> {
    await this.tiers.lookUpShared(miss.resource);
    return this.renewed(miss);
  }

  /** What is stored now, if it is fresh and newer than before. */
  private renewed({ resource, headers, stale }: Miss): FetchResult | undefined {
    const cached = this.tiers.select(resource, headers);
    if (cached === undefined || this.clock.now() >= cached.entry.freshUntil) return undefined;
    if (stale !== undefined && cached.entry.receivedAt <= stale.entry.receivedAt) return undefined;
    return { cached, own: cached, stored: true, skipped: undefined, exclusive: false, upstreamStatus: undefined };
  }
}

/** Whether a request that waited may have the answer (RFC 9111 §4): it is for all, and for this variant. */
export function isFor({ policy }: Resource, headers: IncomingHttpHeaders, { cached, exclusive }: FetchResult): boolean {
  return !exclusive && cached.entry.variant === variantOf(selectingNames(policy, cached.entry.vary), headers);
}

/** Whether there is no such thing any more. */
export function isGone(status: number): boolean {
  return status === 404 || status === 410;
}

/** Reasons that do not make an answer the upstream's latest word about what is stored. */
const NO_LATER_WORD: ReadonlySet<SkipReason> = new Set([
  "unissued-token",
  "purged",
  "superseded",
  "failure",
  "authorization",
]);

/** Those that may be about the client whose credentials went upstream. */
const OF_WHO_ASKED: ReadonlySet<SkipReason> = new Set(["private", "vary", "no-store"]);

/**
 * Whether what is stored must not be served any more after such an answer, should the upstream fail later. What may be about who
 * asked says nothing of what others get.
 */
function overtakes(
  status: number,
  skipped: SkipReason | undefined,
  { policy, headers }: { readonly policy: CachePolicy; readonly headers: IncomingHttpHeaders },
): boolean {
  // A stored one takes the place of what was stored; errors only here.
  if (skipped === undefined) return isGone(status);
  if (isFailure(status) || NO_LATER_WORD.has(skipped) || policy.forwardRequestHeaders === "*") return false;
  if (!policy.sharedAuthorization) return true;
  return skipped !== "status" && !(OF_WHO_ASKED.has(skipped) && isAuthorized(policy, headers));
}

/**
 * Whether what is stored may be newer than an answer: it was received, as part of a page for example, after that one
 * was asked for.
 */
function mayBeNewer(stored: Entry, { epoch, variant }: Entry, requestedAt: Instant): boolean {
  const isSame = stored.epoch === epoch && stored.variant === variant;
  return isSame && stored.receivedAt > requestedAt && !isFailure(stored.status);
}
