import { LRUCache } from "lru-cache";
import type { Size } from "../units.ts";
import { codedBytes } from "./gzip.ts";
import type { CacheKey, Entry } from "./types.ts";

/** Share of memory for pages behind a token and 404s, so that made-up tokens and ids cannot push out what is asked for. */
const MINOR_SHARE = 1 / 8;
/** Objects, arrays and map slots of one entry, as measured. */
const ENTRY_OVERHEAD = 2_000;
/** A string costs about this besides its characters. */
const STRING_OVERHEAD = 24;

type Shelf = LRUCache<string, Entry>;

/** Entries in memory: an LRU bounded in bytes, and beside it one of an eighth for what is minor. Knows nothing of time. */
export class Memory {
  private readonly evicted: (count: number) => void;
  private size: Size;
  private main: Shelf;
  private minor: Shelf;

  constructor(size: Size, evicted: (count: number) => void) {
    this.evicted = evicted;
    this.size = size;
    this.main = this.shelf(size * (1 - MINOR_SHARE));
    this.minor = this.shelf(size * MINOR_SHARE);
  }

  /** Changes the bound, and keeps what fits, the most recently used first. */
  resize(size: Size): void {
    // Moving all entries takes a second for each hundred thousand.
    if (size === this.size) return;
    this.size = size;
    this.main = moved(this.main, this.shelf(size * (1 - MINOR_SHARE)));
    this.minor = moved(this.minor, this.shelf(size * MINOR_SHARE));
  }

  get bytes(): number {
    return this.main.calculatedSize + this.minor.calculatedSize;
  }

  get entries(): number {
    return this.main.size + this.minor.size;
  }

  get(key: CacheKey): Entry | undefined {
    const id = idOf(key);
    return this.main.get(id) ?? this.minor.get(id);
  }

  /** Stores in place of what is there. An entry of the main part stays there, though it is read as a minor one now. */
  set(key: CacheKey, entry: Entry): void {
    const id = idOf(key);
    const isMinor = entry.status !== 200 || (key.isMinor && !this.main.has(id));
    (isMinor ? this.main : this.minor).delete(id);
    (isMinor ? this.minor : this.main).set(id, entry);
  }

  delete(key: CacheKey): void {
    const id = idOf(key);
    this.main.delete(id);
    this.minor.delete(id);
  }

  private shelf(bytes: Size): Shelf {
    return new LRUCache({
      maxSize: Math.max(1, Math.floor(bytes)),
      sizeCalculation: sizeOf,
      dispose: (_entry, _id, reason) => {
        if (reason === "evict") this.evicted(1);
      },
    });
  }
}

/** Names a key in a process. No party id has a space. */
export function idOf({ party, name }: CacheKey): string {
  return `${party} ${name}`;
}

/** Fills a shelf from another one. */
function moved(from: Shelf, to: Shelf): Shelf {
  // The least recently used first: they are the ones to go when the room is used up.
  for (const [id, entry] of [...from.entries()].toReversed()) to.set(id, entry);
  return to;
}

function sizeOf(entry: Entry, id: string): number {
  let size = ENTRY_OVERHEAD + 2 * id.length + entry.body.buffer.byteLength + codedBytes(entry);
  for (const text of entry.fields) size += text.length + STRING_OVERHEAD;
  return Math.ceil(size);
}
