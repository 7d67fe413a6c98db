import { LRUCache } from "lru-cache";
import type { Entry } from "../entry.ts";
import { Held } from "../held.ts";
import type { CacheObserver } from "../observer.ts";
import type { CacheKey, Store } from "./store.ts";

export interface MemoryStoreOptions {
  /** Bound of everything held, in bytes. */
  readonly maxBytes: number;
  /** Bodies larger than this are not held. */
  readonly maxObject: number;
  readonly observer?: Pick<CacheObserver, "evicted">;
}

/** What answers other than 200 may take, so that made-up ids cannot push out what is asked for. */
const SHARE_OF_ERRORS = 1 / 32;

/** Variants of one resource; beyond this the oldest goes. */
export const MAX_VARIANTS = 16;

/** Objects, arrays, a rendered answer and map slots of one entry, as measured. */
const ENTRY_OVERHEAD = 2_200;

/** A header string costs about this besides its characters. */
const STRING_OVERHEAD = 24;

/** What a body may keep in memory besides itself, as a share of it. */
const MAX_SLACK = 0.25;

/** The variants under one key, the most recently received first. */
type Shelf = readonly Held[];

/** The bounds of a {@link MemoryStore}. */
type Bounds = Pick<MemoryStoreOptions, "maxBytes" | "maxObject">;

/** The memory tier: an LRU bounded in bytes, with a small one of its own for everything that is not a 200. */
export class MemoryStore implements Store {
  private readonly observer: MemoryStoreOptions["observer"];
  private bounds: Bounds;
  private successes: LRUCache<string, Shelf>;
  private errors: LRUCache<string, Shelf>;

  constructor({ maxBytes, maxObject, observer }: MemoryStoreOptions) {
    this.observer = observer;
    this.bounds = { maxBytes, maxObject };
    this.successes = this.bounded(maxBytes - errorBytesOf(maxBytes));
    this.errors = this.bounded(errorBytesOf(maxBytes));
  }

  /** Has these bounds from now on; keeps what fits, the most recently used first. */
  resize({ maxBytes, maxObject }: Bounds): void {
    const { bounds, successes, errors } = this;
    if (maxBytes === bounds.maxBytes && maxObject === bounds.maxObject) return;
    this.bounds = { maxBytes, maxObject };
    if (maxBytes === bounds.maxBytes) return;
    this.successes = this.moved(successes, maxBytes - errorBytesOf(maxBytes));
    this.errors = this.moved(errors, errorBytesOf(maxBytes));
  }

  get bytes(): number {
    return this.successes.calculatedSize + this.errors.calculatedSize;
  }

  /** Keys held. */
  get entries(): number {
    return this.successes.size + this.errors.size;
  }

  get(key: CacheKey): readonly Entry[] | undefined {
    return this.held(key)?.map((held) => held.entry);
  }

  set(key: CacheKey, entry: Entry): void {
    this.hold(key, entry);
  }

  delete(key: CacheKey): void {
    const id = key.name;
    this.successes.delete(id);
    this.errors.delete(id);
  }

  /** What is held under the key, of any epoch, the most recently received first. */
  held(key: CacheKey): Shelf | undefined {
    const id = key.name;
    const shelf = this.successes.get(id);
    // Without a single error held, the second look-up is spared.
    const errors = this.errors.size === 0 ? undefined : this.errors.get(id);
    if (shelf === undefined || errors === undefined) return shelf ?? errors;
    return [...shelf, ...errors].sort(byReceipt);
  }

  /**
   * Holds `entry`, with its gzip variant if that is known, instead of the variant it stands for and of everything of
   * another epoch. Undefined when it is too large.
   */
  hold(key: CacheKey, entry: Entry, gzip?: Buffer): Held | undefined {
    const id = key.name;
    const isSuccess = entry.status === 200;
    const remaining = (cache: LRUCache<string, Shelf>): Held[] =>
      (cache.peek(id) ?? []).filter((held) => isOtherVariant(held.entry, entry));
    const other = isSuccess ? this.errors : this.successes;
    const kept = remaining(other);
    put(other, id, kept);
    const own = isSuccess ? this.successes : this.errors;
    if (entry.body.length > this.bounds.maxObject) {
      put(own, id, remaining(own));
      return undefined;
    }
    const held = new Held(ownBytes(entry), gzip);
    put(own, id, [held, ...remaining(own)].sort(byReceipt).slice(0, MAX_VARIANTS - kept.length));
    return own.peek(id)?.includes(held) === true ? held : undefined;
  }

  /** Keeps the gzip variant beside its entry, if that is still held. */
  attach(key: CacheKey, held: Held, gzip: Buffer): void {
    const id = key.name;
    const cache = held.entry.status === 200 ? this.successes : this.errors;
    const shelf = cache.peek(id);
    if (shelf === undefined || !shelf.includes(held)) return;
    held.gzip = ownCopy(gzip);
    // A new array, for the size to be counted anew.
    put(cache, id, [...shelf]);
  }

  private bounded(maxSize: number): LRUCache<string, Shelf> {
    return new LRUCache<string, Shelf>({
      maxSize: Math.max(1, maxSize),
      sizeCalculation: shelfSize,
      dispose: (_shelf, _key, reason) => {
        if (reason === "evict") this.observer?.evicted();
      },
    });
  }

  private moved(from: LRUCache<string, Shelf>, maxSize: number): LRUCache<string, Shelf> {
    const to = this.bounded(maxSize);
    // The least recently used first: they are the ones to go when the room is used up.
    for (const [id, shelf] of [...from.entries()].toReversed()) to.set(id, shelf);
    return to;
  }
}

function errorBytesOf(maxBytes: number): number {
  return Math.max(1, Math.floor(maxBytes * SHARE_OF_ERRORS));
}

function put(cache: LRUCache<string, Shelf>, id: string, shelf: Shelf): void {
  if (shelf.length === 0) cache.delete(id);
  else cache.set(id, shelf);
}

function byReceipt(a: Held, b: Held): number {
  return b.entry.receivedAt - a.entry.receivedAt;
}

/** Of the same epoch, too: what was purged is not kept. */
function isOtherVariant(held: Entry, entry: Entry): boolean {
  return held.epoch === entry.epoch && held.variant !== entry.variant;
}

/**
 * The entry with a body that keeps little else alive: a slice of a page or of a network buffer would hold all of it in
 * memory. Where that is hardly more than the body, as in a reply of Redis that came alone, a copy costs more than it
 * spares: what is held is counted, see {@link shelfSize}.
 */
function ownBytes(entry: Entry): Entry {
  const { buffer, length } = entry.body;
  return buffer.byteLength - length <= length * MAX_SLACK ? entry : { ...entry, body: ownCopy(entry.body) };
}

/** The bytes in memory of their own: what Node makes of less than 32 KiB mostly lies in a pool of 64 KiB. */
function ownCopy(bytes: Buffer): Buffer {
  const copy = Buffer.allocUnsafeSlow(bytes.length);
  bytes.copy(copy);
  return copy;
}

function shelfSize(shelf: Shelf, id: string): number {
  let size = 2 * id.length;
  for (const { entry, gzip } of shelf) {
    size += ENTRY_OVERHEAD + entry.body.buffer.byteLength + (gzip?.length ?? 0) + entry.variant.length;
    // Twice: as stored, and in rendered heads.
    for (const text of entry.fields) size += 2 * text.length + STRING_OVERHEAD;
  }
  return size;
}
