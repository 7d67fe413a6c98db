import { setImmediate } from "node:timers/promises";
import { formatCacheStatus } from "../cache/cache-status.ts";
import type { Instant } from "../clock.ts";
import type { Fields } from "../fields.ts";
import type { ListedPage } from "../metadata/listed-page.ts";
import type { RegistryWalk } from "../metadata/registry-walk.ts";
import type { Part } from "./freshness.ts";
import { readSupportedApis } from "./merged-info.ts";
import { SearchIndex } from "./search-index.ts";

/** Characters of instruments that are taken in without letting anything else run: a few milliseconds' worth. */
const BATCH = 512 * 1024;

/** What an instrument costs besides its text: places in lists and maps, and in what is searched. */
const OVERHEAD = 200;

/** Bytes of an info that is shown: it names a dozen APIs. */
const MAX_INFO = 64 * 1024;

/** Characters of an id, name or symbol that can be searched for. */
const MAX_SEARCHED = 1_000;

/** The instruments of one registry as they were when its listing was last read from end to end. */
export interface Shelf {
  /** Without what is taken over from it. */
  readonly walk: Omit<RegistryWalk, "pages" | "info">;
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
  const isRead = info?.body !== undefined && info.body.length <= MAX_INFO;
  const supportedApis = isRead ? readSupportedApis(info.body) : undefined;
  if (previous !== undefined && previous.walk.isWhole && previous.walk.digest === walk.digest && walk.isWhole) {
    return { ...previous, walk, supportedApis };
  }
  const texts: string[] = [];
  const places = new Map<string, number>();
  const index = new SearchIndex();
  let size = 0;
  let batch = 0;
  for (const { id, text } of instrumentsOf(pages)) {
    batch += text.length;
    if (batch > BATCH) {
      await setImmediate();
      batch = 0;
    }
    // An overlapping page repeats the end of the one before it.
    if (places.has(id)) continue;
    if (size + text.length + OVERHEAD > maxSize) {
      return { walk: { ...walk, isWhole: false }, texts, places, index, size, supportedApis };
    }
    size += text.length + OVERHEAD;
    places.set(id, texts.length);
    texts.push(text);
    const { name, symbol } = JSON.parse(text) as { name?: unknown; symbol?: unknown };
    index.add({ id: searched(id), name: searched(name), symbol: searched(symbol) });
  }
  return { walk, texts, places, index, size, supportedApis };
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

function instrumentsOf(pages: readonly ListedPage[]): { readonly id: string; readonly text: string }[] {
  return pages.flatMap(({ ids, texts }) => ids.map((id, at) => ({ id, text: texts[at]! })));
}

function searched(value: unknown): string {
  return typeof value === "string" ? value.slice(0, MAX_SEARCHED) : "";
}
