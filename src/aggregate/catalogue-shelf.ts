import { setImmediate } from "node:timers/promises";
import { formatCacheStatus } from "../cache/rfc/cache-status.ts";
import type { Instant } from "../clock.ts";
import type { Fields } from "../fields.ts";
import type { RegistryWalk } from "../registry/registry-walk.ts";
import type { Part } from "./freshness.ts";
import { readSupportedApis } from "./merged-info.ts";
import { SearchIndex } from "./search-index.ts";

/** Characters of instruments that are taken in without letting anything else run: a few milliseconds' worth. */
const BATCH = 512 * 1024;

/** What an instrument costs besides its text: places in lists and maps, and in what is searched. */
const OVERHEAD = 200;

/** The instruments of one registry as they were when its listing was last read from end to end. */
export interface Shelf {
  /** Without what is taken over from it. */
  readonly walk: Omit<RegistryWalk, "pages" | "info">;
  readonly ids: readonly string[];
  readonly texts: readonly string[];
  readonly places: ReadonlyMap<string, number>;
  readonly index: SearchIndex;
  /** Characters of all texts, and what each costs besides. */
  readonly size: number;
  readonly supportedApis: object | undefined;
}

/**
 * Makes a shelf of a walk.
 *
 * @param maxSize characters beyond which instruments are left out; the walk then does not count as whole
 * @param previous what was made of the same registry before: where no page has changed, its index is used again
 */
export async function fillShelf(
  { pages, info, ...walk }: RegistryWalk,
  maxSize: number,
  previous: Shelf | undefined,
): Promise<Shelf> {
  const supportedApis = info?.body === undefined ? undefined : readSupportedApis(info.body);
  if (previous !== undefined && previous.walk.isWhole && previous.walk.digest === walk.digest && walk.isWhole) {
    return { ...previous, walk, supportedApis };
  }
  const texts: string[] = [];
  const places = new Map<string, number>();
  const index = new SearchIndex();
  let size = 0;
  const shelf = (isWhole: boolean): Shelf => {
    return { walk: { ...walk, isWhole }, ids: [...places.keys()], texts, places, index, size, supportedApis };
  };
  let batch = 0;
  for (const page of pages) {
    for (const [at, id] of page.ids.entries()) {
      const text = page.text(at);
      const cost = text.length + OVERHEAD;
      batch += cost;
      if (batch > BATCH) {
        await setImmediate();
        batch = 0;
      }
      // An overlapping page repeats the end of the one before it.
      if (places.has(id)) continue;
      if (size + cost > maxSize) return shelf(false);
      size += cost;
      places.set(id, texts.length);
      texts.push(text);
      index.add({ id, name: page.names[at]!, symbol: page.symbols[at]! });
    }
  }
  return shelf(walk.isWhole);
}

/** What a shelf says about an answer made of it: as old as the oldest of its pages. */
export function shelfPart({ walk }: Shelf, now: Instant): Part {
  const age = Math.max(0, Math.floor((now - walk.asOf) / 1000));
  const ttl = Math.floor((walk.freshUntil - now) / 1000);
  const cacheControl: Fields = walk.cacheControl.flatMap((value) => ["cache-control", value]);
  return {
    age,
    outcome: ttl < 0 ? "stale" : "hit",
    fields: [...cacheControl, "cache-status", formatCacheStatus({ ttl })],
  };
}
