import { LRUCache } from "lru-cache";
import type { Clock, Instant } from "../clock.ts";
import type { ShelvedEntry, ShelvedWrite } from "./worker-topics.ts";

/** Variants of one resource; beyond this the oldest goes. */
const MAX_VARIANTS = 16;

/** Objects and strings of one entry besides its bytes, measured roughly. */
const OVERHEAD = 400;

interface Shelved {
  readonly variant: string;
  readonly epoch: string;
  readonly bytes: Buffer;
  readonly writtenAt: Instant;
}

/**
 * What one worker fetched, for the others: kept by the primary, bounded in bytes. It does not know what it holds; which
 * entries are good is for the workers to say, by their epoch.
 */
export class EntryShelf {
  private readonly clock: Clock;
  private entries: LRUCache<string, readonly Shelved[]>;

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
    for (const [key, shelved] of before) this.entries.set(key, shelved);
  }

  get(key: string): readonly ShelvedEntry[] {
    const now = this.clock.now();
    return (this.entries.get(key) ?? []).map(({ bytes, writtenAt }) => ({ bytes, age: now - writtenAt }));
  }

  /** Keeps an entry instead of the variant it stands for and of everything of another epoch. */
  set({ key, variant, epoch, bytes, sentAt }: ShelvedWrite): void {
    // Its instants count from when it was sent: on its way it grew older.
    const writtenAt = this.clock.now() - Math.max(0, this.clock.wallNow() - sentAt);
    const others = (this.entries.peek(key) ?? []).filter((each) => each.epoch === epoch && each.variant !== variant);
    this.entries.set(key, [{ variant, epoch, bytes, writtenAt }, ...others].slice(0, MAX_VARIANTS));
  }

  delete(key: string): void {
    this.entries.delete(key);
  }
}

function bounded(maxBytes: number): LRUCache<string, readonly Shelved[]> {
  return new LRUCache({
    maxSize: Math.max(1, maxBytes),
    sizeCalculation: (shelved, key) => {
      let size = 2 * key.length;
      for (const { bytes, variant } of shelved) size += bytes.length + 2 * variant.length + OVERHEAD;
      return size;
    },
  });
}
