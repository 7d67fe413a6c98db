import type { IncomingHttpHeaders } from "node:http";
import { isHeadTooLarge } from "../answer-fields.ts";
import type { Clock, Instant } from "../clock.ts";
import type { Coordinator, FetchOutcome, Lease } from "../coordination/coordinator.ts";
import { GatewayError } from "../errors.ts";
import type { Entry } from "./entry.ts";
import { Held } from "./held.ts";
import type { CacheObserver, SkipReason } from "./observer.ts";
import { receive, type Received } from "./reception.ts";
import type { Fetched, FetchRequest, Resource } from "./resource.ts";
import { conditionalFields, confirms, freshen } from "./rfc/revalidation.ts";
import { isFailure } from "./rfc/reuse.ts";
import type { Tiers } from "./stores/tiers.ts";

/** What was asked of the upstream, or of another process, and came back. */
export interface Landing {
  /** What everybody may see who may see the answer at all. */
  readonly held: Held;
  /** What the client that asked may see: with the fields that are for it alone. */
  readonly own: Held;
  readonly stored: boolean;
  readonly skipped: SkipReason | undefined;
  /** For the client that asked and nobody else. */
  readonly exclusive: boolean;
  /** The status of the upstream's answer: 304 when it confirmed the entry. Undefined: another process fetched it. */
  readonly upstreamStatus: number | undefined;
}

export interface RetrievalRequest {
  readonly resource: Resource;
  readonly headers: IncomingHttpHeaders;
  /** What is stored and may be validated. */
  readonly stale: Held | undefined;
  readonly purpose: "miss" | "refresh";
  readonly deadline: Instant;
  readonly signal: AbortSignal;
}

export interface RetrievalOptions {
  readonly tiers: Tiers;
  readonly coordinator: Coordinator;
  readonly clock: Clock;
  readonly random: () => number;
  readonly observer: CacheObserver;
}

/** How often a process waits for another one's fetch that is then given up before it goes itself, lease or not. */
const LEASE_ROUNDS = 3;

/** Configured lifetimes are shortened by at most this share, so that what was filled together expires apart. */
const MAX_SHORTENING = 0.1;

/** Gets answers from the upstream, or lets another process get them, and stores what may be stored. */
export class Retrieval {
  private readonly tiers: Tiers;
  private readonly coordinator: Coordinator;
  private readonly clock: Clock;
  private readonly random: () => number;
  private readonly observer: CacheObserver;

  constructor({ tiers, coordinator, clock, random, observer }: RetrievalOptions) {
    this.tiers = tiers;
    this.coordinator = coordinator;
    this.clock = clock;
    this.random = random;
    this.observer = observer;
  }

  /** As {@link retrieve}, but of all processes only one goes to the upstream where that can be helped. */
  async retrieveForAll(request: RetrievalRequest, flight: string): Promise<Landing> {
    // Without a place to share answers, or when this one will not be stored, waiting for others would only cost time.
    const isShareable = this.tiers.hasShared && this.coordinator.epochOf(request.resource.key) !== undefined;
    if (!isShareable) return this.retrieve(request);
    // A stale entry is served without a look at the shared tier: it is the refresh that finds out.
    const renewed = request.purpose === "refresh" ? await this.storedElsewhere(request) : undefined;
    if (renewed !== undefined) return renewed;
    let lease: Lease | undefined;
    for (let round = 0; round < LEASE_ROUNDS; round += 1) {
      const acquired = this.coordinator.acquire(flight);
      lease = acquired instanceof Promise ? await acquired : acquired;
      if (lease !== undefined) break;
      const outcome = await this.coordinator.whenReleased(flight, request.deadline);
      const found = outcome === "stored" ? await this.storedElsewhere(request) : undefined;
      if (found !== undefined) {
        this.observer.collapsed(request.resource.key, "fleet");
        return found;
      }
      if (outcome !== "failed") break;
    }
    let outcome: FetchOutcome = "uncacheable";
    try {
      const landing = await this.retrieve(request);
      outcome = this.outcomeOf(landing);
      return landing;
    } catch (error) {
      // Nobody waited here any more, or the time was up: another one goes for those who still wait.
      if (request.signal.aborted) outcome = "failed";
      throw error;
    } finally {
      lease?.release(outcome);
    }
  }

  /** Asks the upstream, validating what is stale. Rejects with the GatewayError of the fetch. */
  async retrieve(request: RetrievalRequest): Promise<Landing> {
    const { resource } = request;
    const epoch = this.coordinator.epochOf(resource.key);
    // Purged while this waited for its turn: a 304 must not bring it back.
    const stale = request.stale?.entry.epoch === epoch ? request.stale : undefined;
    const conditional = stale === undefined ? [] : conditionalFields(stale.entry);
    const fetched = await this.fetch(request, conditional, epoch);
    if (fetched.status !== 304) return this.land(request, fetched, epoch);
    if (stale !== undefined && conditional.length > 0 && confirms(fetched.fields, stale.entry)) {
      const fields = freshen(stale.entry, fetched.fields, this.clock.wallNow());
      // Else a head could grow beyond all bounds, 304 by 304; then the whole answer is asked for.
      if (!isHeadTooLarge(fields)) return this.confirm({ ...request, stale }, { ...fetched, fields }, epoch);
    }
    // RFC 9111 §4.3.4: a 304 for something else than what is stored confirms nothing.
    const full = conditional.length > 0 ? await this.fetch(request, [], epoch) : fetched;
    if (full.status !== 304) return this.land(request, full, epoch);
    throw new GatewayError(
      "upstream_invalid",
      "the registry answered 304 Not Modified to a request without conditions",
      {},
    );
  }

  /** How much of a configured TTL to take off. */
  shortening(): number {
    return this.random() * MAX_SHORTENING;
  }

  private fetch(request: RetrievalRequest, conditional: string[], epoch: string | undefined): Promise<Fetched> {
    const { resource, headers, purpose, deadline, signal } = request;
    const fetchRequest: FetchRequest = { conditional, headers, purpose, deadline, signal, epoch };
    return resource.fetch(fetchRequest);
  }

  /** The stored entry renewed by a 304 (RFC 9111 §4.3.4), which has its fields and those of the entry. */
  private confirm(
    request: RetrievalRequest & { stale: Held },
    notModified: Fetched,
    epoch: string | undefined,
  ): Landing {
    const { stale, resource } = request;
    this.observer.revalidated(resource.key);
    const { status, body } = stale.entry;
    return { ...this.land(request, { ...notModified, status, body }, epoch), upstreamStatus: 304 };
  }

  private land(request: RetrievalRequest, fetched: Fetched, epoch: string | undefined): Landing {
    const { resource, headers, stale } = request;
    const received = receive({
      fetched,
      headers,
      policy: resource.policy,
      epoch: epoch ?? "",
      receivedWall: this.clock.wallNow() - (this.clock.now() - fetched.receivedAt),
      shortening: this.shortening(),
    });
    const reason = this.whyNotStored(request, received, { epoch, requestedAt: fetched.requestedAt });
    // What is gone must not come back from any tier, should the upstream fail later.
    if (isGone(fetched.status) && stale?.entry.status === 200 && reason !== "superseded") {
      this.tiers.forget(resource.key);
    }
    const held = reason === undefined ? this.tiers.keep(resource.key, received.entry, stale) : undefined;
    const skipped = held === undefined ? (reason ?? "too-large") : undefined;
    if (held !== undefined) resource.stored?.(held.entry, fetched);
    if (skipped !== undefined) this.observer.skipped(resource.key, skipped);
    const landed = held ?? new Held(received.entry);
    return {
      held: landed,
      own: received.ownFields === undefined ? landed : new Held({ ...landed.entry, fields: received.ownFields }),
      stored: held !== undefined,
      skipped,
      exclusive: received.exclusive,
      upstreamStatus: fetched.status,
    };
  }

  private whyNotStored(
    { resource, stale }: RetrievalRequest,
    received: Received,
    { epoch, requestedAt }: { readonly epoch: string | undefined; readonly requestedAt: Instant },
  ): SkipReason | undefined {
    const { entry } = received;
    if (epoch === undefined) return received.exclusive ? received.skipped : "unissued-token";
    if (received.skipped !== undefined) return received.skipped;
    if (isFailure(entry.status) && stale !== undefined && this.clock.now() < stale.entry.usableUntil) return "failure";
    if (this.coordinator.epochOf(resource.key) !== epoch) return "purged";
    const isNewer = (held: Held) => held !== stale && mayBeNewer(held.entry, entry, requestedAt);
    return this.tiers.memory.held(resource.key)?.some(isNewer) === true ? "superseded" : undefined;
  }

  private outcomeOf(landing: Landing): FetchOutcome {
    return landing.stored && this.tiers.isSharedStatus(landing.held.entry.status) ? "stored" : "uncacheable";
  }

  /** What another process stored since, if it is fresh. */
  private async storedElsewhere({ resource, headers, stale }: RetrievalRequest): Promise<Landing | undefined> {
    await this.tiers.lookUpShared(resource.key);
    const held = this.tiers.select(resource, headers);
    if (held === undefined || this.clock.now() >= held.entry.freshUntil) return undefined;
    if (stale !== undefined && held.entry.receivedAt <= stale.entry.receivedAt) return undefined;
    return { held, own: held, stored: true, skipped: undefined, exclusive: false, upstreamStatus: undefined };
  }
}

function isGone(status: number): boolean {
  return status === 404 || status === 410;
}

/**
 * Whether what is stored may be newer than an answer: it was received, as part of a page for example, after that one
 * was asked for.
 */
function mayBeNewer(stored: Entry, { epoch, variant }: Entry, requestedAt: Instant): boolean {
  const isSame = stored.epoch === epoch && stored.variant === variant;
  return isSame && stored.receivedAt > requestedAt && !isFailure(stored.status);
}
