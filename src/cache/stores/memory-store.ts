import { LRUCache } from "lru-cache";
import { type CacheKey, type Entry, MAX_VARIANTS, type Store } from "../../sharing/entries.ts";
import { CachedEntry } from "../cached-entry.ts";
import type { Coding } from "../compression.ts";
import type { CacheObserver } from "../resource.ts";

export interface MemoryStoreOptions {
  /** Bound of everything stored, in bytes. */
  readonly maxBytes: number;
  /** Bodies larger than this are not stored. */
  readonly maxObject: number;
  readonly observer?: Pick<CacheObserver, "evicted">;
}

/** What answers other than 200 may take, so that made-up ids cannot push out what is asked for. */
const SHARE_OF_ERRORS = 1 / 32;

/** Objects, arrays, a rendered answer and map slots of one entry, as measured. */
const ENTRY_OVERHEAD = 2_200;

/** What is kept to answer in one more form (coding, or 304) takes about this besides the text of the fields. */
const FORM_OVERHEAD = 2_500;

/** A header string costs about this besides its characters. */
const STRING_OVERHEAD = 24;

/** What a body may keep in memory besides itself, as a share of it. */
const MAX_SLACK = 0.25;

/** The variants under one key, the most recently received first. */
type Variants = readonly CachedEntry[];

/** The bounds of a {@link MemoryStore}. */
type Bounds = Pick<MemoryStoreOptions, "maxBytes" | "maxObject">;

/** The memory tier: an LRU bounded in bytes, with a small one of its own for everything that is not a 200. */
export class MemoryStore implements Store {
  private readonly observer: MemoryStoreOptions["observer"];
  private bounds: Bounds;
  private successes: LRUCache<string, Variants>;
  private errors: LRUCache<string, Variants>;

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

  /** Keys stored. */
  get entries(): number {
    return this.successes.size + this.errors.size;
  }

  get(key: CacheKey): readonly Entry[] | undefined {
    return this.variants(key)?.map(({ entry }) => entry);
  }

  set(key: CacheKey, entry: Entry): void {
    this.put(key, entry);
  }

  delete({ name }: CacheKey, { variant }: Entry): void {
    for (const shelf of [this.successes, this.errors]) {
      const kept = (shelf.peek(name) ?? []).filter(({ entry }) => entry.variant !== variant);
      setOrDelete(shelf, name, kept);
    }
  }

  /** The name of every key, as it is now: what is stored may change while they are looked at. */
  names(): string[] {
    return [...this.successes.keys(), ...this.errors.keys()];
  }

  /** What is stored under the name of a key, of any epoch, and the bytes it takes; looking at it is no use of it. */
  peek(name: string): { readonly cached: CachedEntry; readonly bytes: number }[] {
    const variants = [...(this.successes.peek(name) ?? []), ...(this.errors.peek(name) ?? [])];
    // The name is kept once for all its variants.
    return variants.map((cached, i) => ({ cached, bytes: bytesOf(cached) + (i === 0 ? 2 * name.length : 0) }));
  }

  /** What is stored under the key, of any epoch, the most recently received first. */
  variants(key: CacheKey): Variants | undefined {
    const id = key.name;
    const variants = this.successes.get(id);
    // Without a single error stored, the second look-up is spared.
    const errors = this.errors.size === 0 ? undefined : this.errors.get(id);
    if (variants === undefined || errors === undefined) return variants ?? errors;
    return [...variants, ...errors].sort(byReceipt);
  }

  /**
   * Stores `entry`, with what is kept of `predecessor`, which it renews, instead of the variant it stands for and of everything of
   * another epoch. Undefined when it is too large.
   */
  put(key: CacheKey, entry: Entry, predecessor?: CachedEntry): CachedEntry | undefined {
    const id = key.name;
    const isSuccess = entry.status === 200;
    const remaining = (cache: LRUCache<string, Variants>): CachedEntry[] =>
      (cache.peek(id) ?? []).filter((cached) => isOtherVariant(cached.entry, entry));
    const other = isSuccess ? this.errors : this.successes;
    // This one has a place among the variants, however many the other shelf has.
    const kept = remaining(other).slice(0, MAX_VARIANTS - 1);
    setOrDelete(other, id, kept);
    const own = isSuccess ? this.successes : this.errors;
    if (entry.body.length > this.bounds.maxObject) {
      setOrDelete(own, id, remaining(own));
      return undefined;
    }
    const cached = new CachedEntry(ownBytes(entry), predecessor);
    setOrDelete(own, id, [cached, ...remaining(own)].sort(byReceipt).slice(0, MAX_VARIANTS - kept.length));
    return own.peek(id)?.includes(cached) === true ? cached : undefined;
  }

  /** Keeps the body in another coding beside its entry, if that is still stored. */
  attach(key: CacheKey, cached: CachedEntry, coding: Coding, body: Buffer): void {
    if (this.shelfOf(cached).peek(key.name)?.includes(cached) !== true) return;
    cached.forms.coded[coding] = ownCopy(body);
    this.recount(key, cached);
  }

  /** Counts anew what an entry takes, if it is still stored. */
  recount(key: CacheKey, cached: CachedEntry): void {
    cached.forms.counted = cached.forms.count;
    const shelf = this.shelfOf(cached);
    const variants = shelf.peek(key.name);
    // A new array, for the size to be counted anew.
    if (variants?.includes(cached) === true) setOrDelete(shelf, key.name, [...variants]);
  }

  private shelfOf({ entry }: CachedEntry): LRUCache<string, Variants> {
    return entry.status === 200 ? this.successes : this.errors;
  }

  private bounded(maxSize: number): LRUCache<string, Variants> {
    return new LRUCache<string, Variants>({
      maxSize: Math.max(1, maxSize),
      sizeCalculation: sizeOf,
      dispose: (_shelf, _key, reason) => {
        if (reason === "evict") this.observer?.evicted();
      },
    });
  }

  private moved(from: LRUCache<string, Variants>, maxSize: number): LRUCache<string, Variants> {
    const to = this.bounded(maxSize);
    // The least recently used first: they are the ones to go when the room is used up.
    for (const [id, variants] of [...from.entries()].toReversed()) to.set(id, variants);
    return to;
  }
}

function errorBytesOf(maxBytes: number): number {
  return Math.max(1, Math.floor(maxBytes * SHARE_OF_ERRORS));
}

function setOrDelete(cache: LRUCache<string, Variants>, id: string, variants: Variants): void {
  if (variants.length === 0) cache.delete(id);
  else cache.set(id, variants);
}

function byReceipt(a: CachedEntry, b: CachedEntry): number {
  return b.entry.receivedAt - a.entry.receivedAt;
}

/** Of the same epoch, too: what was purged is not kept. */
function isOtherVariant(stored: Entry, entry: Entry): boolean {
  return stored.epoch === entry.epoch && stored.variant !== entry.variant;
}

/**
 * The entry with a body that keeps little else alive: a slice of a page or of a network buffer would hold all of it in
 * memory. Where that is hardly more than the body, as in a reply of Redis that came alone, a copy costs more than it
 * spares: what is kept is counted, see {@link sizeOf}.
 */
function ownBytes(entry: Entry): Entry {
  const { buffer, length } = entry.body;
  return buffer.byteLength - length <= length * MAX_SLACK ? entry : { ...entry, body: ownCopy(entry.body) };
}

/** The bytes in memory of their own: what Node makes of less than 32 KiB mostly lies in a pool of 64 KiB. */
export function ownCopy(bytes: Buffer): Buffer {
  const copy = Buffer.allocUnsafeSlow(bytes.length);
  bytes.copy(copy);
  return copy;
}

function sizeOf(variants: Variants, id: string): number {
  let size = 2 * id.length;
  for (const cached of variants) size += bytesOf(cached);
  return size;
}

/** What an entry takes, without the name of its key. */
function bytesOf({ entry, forms: { coded, count } }: CachedEntry): number {
  let size = ENTRY_OVERHEAD + entry.body.buffer.byteLength + entry.variant.length;
  for (const body of coded) size += body?.length ?? 0;
  let characters = 0;
  for (const text of entry.fields) characters += text.length;
  // Twice: as stored, and in the head of one form.
  size += 2 * characters + STRING_OVERHEAD * entry.fields.length;
  return count > 1 ? size + (count - 1) * (FORM_OVERHEAD + characters) : size;
}
