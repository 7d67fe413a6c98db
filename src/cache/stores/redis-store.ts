import type { Clock, Duration, Instant } from "../../clock.ts";
import type { Coordinator, MaybePromise } from "../../coordination/coordinator.ts";
import { BASE } from "../../coordination/epochs.ts";
import type { PartitionView } from "../../coordination/redis/partition-views.ts";
import type { SharedChains } from "../../coordination/redis/shared-chains.ts";
import type { SharedEpochs } from "../../coordination/redis/shared-epochs.ts";
import { PAUSE } from "../../coordination/redis/circuit-breaker.ts";
import { withReply } from "../../deadline.ts";
import { digest } from "../../coordination/redis/keys.ts";
import type { RedisLink } from "../../coordination/redis/link.ts";
import type { RedisObserver } from "../../coordination/redis/observer.ts";
import type { Entry } from "../entry.ts";
import { decodeEntry, encodeEntry } from "./redis-entry.ts";
import { readEntry, removeEntry, STAMP_LENGTH, VARIANT, writeEntry } from "./redis-scripts.ts";
import type { CacheKey, Store } from "./store.ts";

/** Variants of one resource; beyond this all are dropped and begin anew. */
const MAX_VARIANTS = 16;

/** Nothing is kept longer, whatever its windows say. */
const MAX_KEPT: Duration = 30 * 24 * 60 * 60 * 1_000;

/** Redis's clock was set back when a value seems to come from the future by more than this. */
const CLOCK_TOLERANCE: Duration = 1_000;

export interface RedisStoreOptions {
  link: RedisLink;
  /** The coordinator over the same link: its epochs decide what may be read. */
  coordinator: Pick<Coordinator, "epochOf"> & { readonly epochs: SharedEpochs; readonly chains: SharedChains };
  clock: Clock;
  observer: RedisObserver;
}

/** What {@link readEntry} returns. */
type Reply = readonly [time: number, chain: Buffer | null, epochs: readonly (Buffer | null)[], hash: readonly Buffer[]];

/**
 * The tier of the cache that replicas share. A lookup is one round trip that brings entry and epochs; with Redis away
 * it is a miss without any. Ages need no agreed clocks: Redis tells how long an entry has been there.
 */
export class RedisStore implements Store {
  private readonly link: RedisLink;
  private readonly coordinator: RedisStoreOptions["coordinator"];
  private readonly clock: Clock;
  private readonly observer: RedisObserver;
  /** Of keys that are kept elsewhere, because they are asked for again. */
  private readonly entryKeys = new WeakMap<CacheKey, string>();

  constructor({ link, coordinator, clock, observer }: RedisStoreOptions) {
    this.link = link;
    this.coordinator = coordinator;
    this.clock = clock;
    this.observer = observer;
  }

  get(key: CacheKey): MaybePromise<readonly Entry[] | undefined> {
    const view = this.coordinator.epochs.readable(key.partition);
    return view === undefined ? undefined : this.read(key, view);
  }

  set(key: CacheKey, entry: Entry): void {
    const view = this.coordinator.epochs.readable(key.partition);
    if (view?.isKnown !== true || this.coordinator.epochOf(key) !== entry.epoch) return;
    const { base, scopes } = this.coordinator.epochs.read(view);
    const dependencies = [base, ...key.scopes.flatMap((scope) => [scope, scopes.get(scope) ?? ""])];
    this.link.write(() => {
      const now = this.clock.now();
      const useful = Math.max(entry.freshUntil, entry.revalidateUntil, entry.usableUntil) - now;
      return {
        script: writeEntry,
        keys: [this.entryKey(view, key), this.link.keys.epochs(view.tag)],
        args: [
          fieldOf(entry),
          encodeEntry(key, entry, now),
          Math.min(useful, MAX_KEPT),
          now + view.clockOffset,
          entry.epoch,
          MAX_VARIANTS,
          ...dependencies,
        ],
      };
    }, entry.body.length);
  }

  delete(key: CacheKey): void {
    const view = this.coordinator.epochs.readable(key.partition);
    if (view === undefined) return;
    const keys = [this.entryKey(view, key)];
    this.link.write(() => ({ script: removeEntry, keys, args: [] }), 0);
  }

  private async read(key: CacheKey, view: PartitionView): Promise<readonly Entry[] | undefined> {
    const { epochs, chains } = this.coordinator;
    const session = epochs.sessionOf(view);
    // Sent ahead of the lookup, so that both arrive together.
    const learned = view.isKnown ? undefined : epochs.learn(view);
    const { keys } = this.link;
    const names = [this.entryKey(view, key), keys.epochs(view.tag)];
    if (key.chain !== undefined) names.push(keys.chain(view.tag, key.chain));
    const known = key.chain === undefined ? undefined : chains.digest(key.partition, key.chain);
    const sentAt = this.clock.now();
    try {
      const call = { script: readEntry, keys: names, args: [BASE, ...key.scopes], binary: true };
      const [time, chain, found, hash] = (await this.link.run(call, PAUSE)) as Reply;
      if (learned !== undefined) await withReply(learned, PAUSE, this.clock);
      if (!view.isKnown || !epochs.observe(view, key.scopes, found.map(textOf))) return undefined;
      if (key.chain !== undefined) chains.observe(view, key.chain, { sent: known, found: textOf(chain) });
      // Counted from when it was asked: a slow reply makes an entry older, never younger.
      return this.decode(key, hash, sentAt - time);
    } catch {
      epochs.fail(view, session);
      return undefined;
    }
  }

  private entryKey(view: PartitionView, key: CacheKey): string {
    let name = this.entryKeys.get(key);
    if (name === undefined) {
      name = this.link.keys.entry(view.tag, key.id);
      this.entryKeys.set(key, name);
    }
    return name;
  }

  /** `offset`: what to add to an instant of Redis's clock. */
  private decode(key: CacheKey, hash: readonly Buffer[], offset: number): readonly Entry[] | undefined {
    const entries: Entry[] = [];
    const latest: Instant = this.clock.now() + CLOCK_TOLERANCE;
    for (let i = 0; i + 1 < hash.length; i += 2) {
      if (!hash[i]!.toString("latin1").startsWith(VARIANT)) continue;
      const value = hash[i + 1]!;
      const writtenAt = readStamp(value) + offset;
      const entry = writtenAt <= latest ? decodeEntry(value.subarray(2 * STAMP_LENGTH), key, writtenAt) : undefined;
      if (entry === undefined) this.observer.valueRejected();
      else entries.push(entry);
    }
    return entries.length === 0 ? undefined : entries;
  }
}

/** When a variant was written, by Redis's clock; NaN when it does not say so clearly. */
function readStamp(value: Buffer): Instant {
  const stamps = value.toString("latin1", 0, 2 * STAMP_LENGTH);
  const stamp = stamps.slice(0, STAMP_LENGTH);
  return stamp === stamps.slice(STAMP_LENGTH) ? Number(stamp) : NaN;
}

function fieldOf(entry: Entry): string {
  return entry.vary.length === 0 ? VARIANT : `${VARIANT}:${digest(`${entry.vary.join()}\n${entry.variant}`)}`;
}

function textOf(bytes: Buffer | null): string | undefined {
  return bytes?.toString();
}
