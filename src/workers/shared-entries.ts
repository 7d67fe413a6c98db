import { LRUCache } from "lru-cache";
import type { Entry } from "../cache/entry.ts";
import { type CacheKey, MAX_VARIANTS, type Store } from "../cache/stores/tiers.ts";
import type { Clock, Duration, Instant } from "../clock.ts";
import { decodeEntry, encodeEntry } from "../coordination/entry-codec.ts";
import type { PrimaryTopics, SharedEntry, SharedWrite, WorkerTopics } from "./protocol.ts";
import type { Peer } from "./rpc.ts";

/** The primary is on this machine; one that takes longer is of no use to a request. */
const REPLY_TIMEOUT: Duration = 250;

/** A write is known to have arrived, or given up. */
const WRITE_TIMEOUT: Duration = 2_000;

/** Bytes on their way to a primary that does not keep up. Beyond it entries stay in this worker. */
const MAX_UNDER_WAY = 16 * 1024 * 1024;

/** Objects and strings of one entry besides its bytes, measured roughly. */
const OVERHEAD = 400;

interface Variant {
  readonly variant: string;
  readonly epoch: string;
  readonly bytes: Buffer;
  readonly writtenAt: Instant;
}

/**
 * What one worker fetched, for the others: kept by the primary, bounded in bytes. The primary does not read it; whether
 * an entry may be used is for the workers to say, by its epoch.
 */
export class SharedEntries {
  private readonly clock: Clock;
  private entries: LRUCache<string, readonly Variant[]>;

  constructor(maxBytes: number, clock: Clock) {
    this.clock = clock;
    this.entries = bounded(maxBytes);
  }

  get bytes(): number {
    return this.entries.calculatedSize;
  }

  /** Has this bound from now on; keeps what fits. */
  resize(maxBytes: number): void {
    if (maxBytes === this.entries.maxSize) return;
    const before = [...this.entries.entries()].toReversed();
    this.entries = bounded(maxBytes);
    for (const [key, variants] of before) this.entries.set(key, variants);
  }

  get(key: string): readonly SharedEntry[] {
    const now = this.clock.now();
    return (this.entries.get(key) ?? []).map(({ bytes, writtenAt }) => ({ bytes, age: now - writtenAt }));
  }

  /** Keeps an entry instead of the variant it stands for and of everything of another epoch. */
  set({ key, variant, epoch, bytes, sentAt }: SharedWrite): void {
    // Its instants count from when it was sent: on its way it grew older.
    const writtenAt = this.clock.now() - Math.max(0, this.clock.wallNow() - sentAt);
    const others = (this.entries.peek(key) ?? []).filter((each) => each.epoch === epoch && each.variant !== variant);
    this.entries.set(key, [{ variant, epoch, bytes, writtenAt }, ...others].slice(0, MAX_VARIANTS));
  }

  delete(key: string): void {
    this.entries.delete(key);
  }
}

/** The tier of the cache that the workers of a machine share: the {@link SharedEntries} of their primary. */
export class SharedEntryStore implements Store {
  private readonly primary: Peer<WorkerTopics, PrimaryTopics>;
  private readonly clock: Clock;
  private underWay = 0;

  constructor(primary: Peer<WorkerTopics, PrimaryTopics>, clock: Clock) {
    this.primary = primary;
    this.clock = clock;
  }

  async get(key: CacheKey): Promise<readonly Entry[] | undefined> {
    const askedAt = this.clock.now();
    try {
      const shared = await this.primary.ask("getEntries", key.name, REPLY_TIMEOUT);
      // Counted from when it was asked: a slow reply makes an entry older, never younger.
      const entries = shared.map(({ bytes, age }) => decodeEntry(bytes, key, askedAt - age));
      return entries.filter((entry) => entry !== undefined);
    } catch {
      return undefined;
    }
  }

  set(key: CacheKey, entry: Entry): void {
    const bytes = encodeEntry(key, entry, this.clock.now());
    if (this.underWay + bytes.length > MAX_UNDER_WAY) return;
    this.underWay += bytes.length;
    const variant = `${entry.vary.join()}\n${entry.variant}`;
    const write = { key: key.name, variant, epoch: entry.epoch, bytes, sentAt: this.clock.wallNow() };
    const arrived = (): void => {
      this.underWay -= bytes.length;
    };
    this.primary.ask("setEntry", write, WRITE_TIMEOUT).then(arrived, arrived);
  }

  delete(key: CacheKey): void {
    this.primary.tell("deleteEntries", key.name);
  }
}

function bounded(maxBytes: number): LRUCache<string, readonly Variant[]> {
  return new LRUCache({
    maxSize: Math.max(1, maxBytes),
    sizeCalculation: (variants, key) => {
      let size = 2 * key.length;
      for (const { bytes, variant } of variants) size += bytes.length + 2 * variant.length + OVERHEAD;
      return size;
    },
  });
}
