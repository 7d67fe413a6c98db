import type { IncomingHttpHeaders } from "node:http";
import type { Clock, Duration, Instant } from "../../clock.ts";
import type { CacheKey, Entry, Store } from "../../sharing/entries.ts";
import type { EpochsPort } from "../../sharing/ports.ts";
import { fieldValue } from "../../fields.ts";
import { CachedEntry } from "../cached-entry.ts";
import { CODED, Compressor } from "../compression.ts";
import { softened } from "../entry.ts";
import type { Resource } from "../resource.ts";
import { isAuthorized, selectingNames, variantOf } from "../rfc/request-fields.ts";
import type { MemoryStore } from "./memory-store.ts";

/** Instants that went through the shared tier come back this inexact at most. */
const JITTER: Duration = 1_000;

/** A look-up in the shared tier; undefined once it is over. */
interface LookUp {
  found: Promise<readonly CachedEntry[]> | undefined;
}

interface Overtaking {
  readonly instead: Entry;
  readonly by: CachedEntry | undefined;
  readonly requestedAt: Instant;
}

interface TiersOptions {
  readonly memory: MemoryStore;
  readonly shared: Store | undefined;
  readonly epochs: EpochsPort;
  readonly clock: Clock;
}

/** Memory, and a shared tier behind it where there is one. What a purge made unusable is never found here. */
export class Tiers {
  readonly memory: MemoryStore;
  readonly hasShared: boolean;
  private readonly shared: Store | undefined;
  private readonly epochs: EpochsPort;
  private readonly clock: Clock;
  private readonly compressor = new Compressor();
  /**
   * One look-up in the shared tier per key at a time, however many ask; each ends within half a second. What was found
   * is let go when it ends: of a map that changes all the time old tables stay, with all that was in them, until the
   * next full garbage collection.
   */
  private readonly lookups = new Map<string, LookUp>();

  constructor({ memory, shared, epochs, clock }: TiersOptions) {
    this.memory = memory;
    this.shared = shared;
    this.hasShared = shared !== undefined;
    this.epochs = epochs;
    this.clock = clock;
  }

  /**
   * The most recent entry in memory that answers such a request, fresh or stale (RFC 9111 §4.1); else of those `adopted`
   * from the shared tier, which a full memory may have given up again before they were used.
   */
  select(
    resource: Resource,
    headers: IncomingHttpHeaders,
    adopted: readonly CachedEntry[] = [],
  ): CachedEntry | undefined {
    const variants = this.memory.variants(resource.key);
    if (variants === undefined && adopted.length === 0) return undefined;
    const epoch = this.epochs.epochOf(resource.key);
    const isUsable = (cached: CachedEntry) => cached.entry.epoch === epoch && matches(cached, resource, headers);
    const found = variants?.find(isUsable) ?? adopted.find(isUsable);
    if (found === undefined || found.softVersion === this.epochs.softVersion) return found;
    return this.soften(resource.key, found);
  }

  /** What is stored in memory under the key, of any epoch, with soft purges seen to. */
  variants(key: CacheKey): readonly CachedEntry[] {
    const epoch = this.epochs.epochOf(key);
    for (const cached of this.memory.variants(key) ?? []) {
      // What was purged must not take the place of what came after it.
      const isCurrent = cached.entry.epoch === epoch;
      if (isCurrent && cached.softVersion !== this.epochs.softVersion) this.soften(key, cached);
    }
    return this.memory.variants(key) ?? [];
  }

  /** Sees to soft purges that the entry does not know of: it takes its own place, stale. */
  private soften(key: CacheKey, cached: CachedEntry): CachedEntry {
    const { epochs, clock } = this;
    const { softVersion } = epochs;
    cached.softVersion = softVersion;
    const at = epochs.softPurgedAt(key, cached.entry.softEpoch);
    if (at === undefined) return cached;
    const instant = clock.now() - Math.max(0, clock.wallNow() - at);
    const entry = softened(cached.entry, instant, epochs.softEpochOf(key));
    const stored = this.memory.put(key, entry, cached) ?? new CachedEntry(entry, cached);
    const { derivedAt, retryAt, triedAt, failedSlowly } = cached;
    return Object.assign(stored, { softVersion, derivedAt, retryAt, triedAt, failedSlowly });
  }

  /** Whether an entry is stored for other requests than this one. */
  hasOtherVariants(key: CacheKey): boolean {
    const epoch = this.epochs.epochOf(key);
    return this.memory.variants(key)?.some((cached) => cached.entry.epoch === epoch) ?? false;
  }

  /** Looks in the shared tier and takes what is there into memory. Never rejects. */
  lookUpShared(resource: Resource): Promise<readonly CachedEntry[]> {
    if (this.shared === undefined) return Promise.resolve([]);
    const { key } = resource;
    const running = this.lookups.get(key.name)?.found;
    if (running !== undefined) return running;
    const lookUp: LookUp = { found: undefined };
    this.lookups.set(key.name, lookUp);
    lookUp.found = this.adopt(resource, this.shared, lookUp);
    return lookUp.found;
  }

  /** Stores an entry. Undefined when it is too large. `predecessor`: what it renews; its coded variants may still fit. */
  store(key: CacheKey, entry: Entry, predecessor?: CachedEntry): CachedEntry | undefined {
    const cached = this.storeHere(key, entry, predecessor);
    // Errors live for seconds: they are not worth a round trip.
    if (cached !== undefined && this.isSharedStatus(entry.status)) this.shared?.set(key, cached.entry);
    return cached;
  }

  /** Whether answers of this status reach the other processes. */
  isSharedStatus(status: number): boolean {
    return this.shared !== undefined && status === 200;
  }

  /** Stores an entry here only. */
  storeHere(key: CacheKey, entry: Entry, predecessor?: CachedEntry): CachedEntry | undefined {
    const cached = this.memory.put(key, entry, predecessor);
    if (cached !== undefined) this.compress(key, cached);
    return cached;
  }

  /** Has the codings made in the background that clients would rather have, once each. */
  compress(key: CacheKey, cached: CachedEntry): void {
    const { forms } = cached;
    if (!forms.compressible || forms.wanted === forms.asked) return;
    for (const coding of CODED) {
      if ((forms.wanted & ~forms.asked & (1 << coding)) === 0) continue;
      this.compressor.compress(cached.entry.body, coding, (body) => this.memory.attach(key, cached, coding, body));
    }
    forms.asked = forms.wanted;
  }

  /**
   * The upstream has said something newer, asked for at `requestedAt`, that is not stored, or only here (`by`): the entry is
   * replaced by one that says so, lest anything older comes back from another tier or answer. Not where something else came since.
   */
  overtake(key: CacheKey, { entry }: CachedEntry, { instead, by, requestedAt }: Overtaking): void {
    const isLater = (cached: CachedEntry) =>
      cached !== by &&
      cached.entry !== entry &&
      cached.entry.variant === entry.variant &&
      cached.entry.receivedAt > requestedAt;
    if (this.memory.variants(key)?.some(isLater) === true) return;
    if (by === undefined) this.memory.put(key, instead);
    // One of another variant is not in its place. That one is found first.
    else if (by.entry.variant !== entry.variant) this.memory.put(key, { ...instead, receivedAt: requestedAt });
    this.shared?.delete(key, entry);
  }

  /** Resolves when nothing runs in the background. */
  async settled(): Promise<void> {
    const lookUps = [...this.lookups.values()].map(({ found }) => found);
    await Promise.all([...lookUps, this.compressor.settled()]);
  }

  private async adopt(resource: Resource, shared: Store, lookUp: LookUp): Promise<readonly CachedEntry[]> {
    const { key } = resource;
    const derived = this.memory.variants(key)?.filter(({ derivedAt }) => derivedAt !== undefined) ?? [];
    let entries: readonly Entry[] | undefined;
    try {
      entries = await shared.get(key);
    } finally {
      this.lookups.delete(key.name);
      lookUp.found = undefined;
    }
    // Asked only now: reading the shared tier may have taught the epochs of a purge elsewhere.
    const epoch = this.epochs.epochOf(key);
    const adopted: CachedEntry[] = [];
    for (const entry of entries ?? []) {
      if (entry.epoch !== epoch || this.isKnown(key, entry)) continue;
      // Compressed when it is hit here: what is read from the shared tier but once is not worth it.
      const cached = this.memory.put(key, entry);
      if (cached === undefined) continue;
      adopted.push(cached);
      resource.adopted?.(cached.entry);
    }
    for (const cached of derived) cached.derivedAt = undefined;
    return adopted;
  }

  /** Whether memory has this entry, with all that was learned of it here, or a newer one. */
  private isKnown(key: CacheKey, entry: Entry): boolean {
    const variants = this.memory.variants(key) ?? [];
    return variants.some(
      (cached) =>
        cached.entry.epoch === entry.epoch && cached.entry.variant === entry.variant && isAsNew(cached, entry),
    );
  }
}

function isAsNew({ entry: stored, derivedAt }: CachedEntry, entry: Entry): boolean {
  // What was cut out of a page gives way to what was received after the page was asked for, and was there first.
  if (stored.receivedAt >= entry.receivedAt) return derivedAt === undefined || derivedAt >= entry.receivedAt;
  // What came later may have been asked for sooner.
  if (derivedAt !== undefined && entry.madeAt < stored.receivedAt) return true;
  const isSame = fieldValue(stored.fields, "etag") === fieldValue(entry.fields, "etag");
  return isSame && entry.receivedAt - stored.receivedAt < JITTER;
}

/** Whether the entry answers such a request: it is of its variant (RFC 9111 §4.1), and not of others' credentials. */
function matches(cached: CachedEntry, { policy }: Resource, headers: IncomingHttpHeaders): boolean {
  const { entry } = cached;
  // Only what is for all is stored of answers to credentials: so what is not for all was fetched without.
  if (isAuthorized(policy, headers) && !(policy.honorUpstream && cached.isForAll)) return false;
  // Not by the names that it was stored by: another configuration may have stored it.
  const names = selectingNames(policy, cached.varies);
  return names.length === 0 ? entry.variant === "" : entry.variant === variantOf(names, headers);
}
