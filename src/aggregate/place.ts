import type { ListedPage } from "../bodies/page.ts";
import { OVERLAP, type FoundPage, type Following, type PageAddress } from "../registry/listing.ts";
import { shortDigest } from "./digest.ts";

/** Instruments by which a place is found again, should some of them be gone. */
const MAX_ANCHORS = OVERLAP;

/** A place between two instruments of a registry's listing, to go on from later. */
export interface Place {
  readonly address: PageAddress;
  /** Digests of the ids of the last instruments before the place, the nearest first. */
  readonly anchors: readonly string[];
  /** Without any anchor on the page, the place is at its beginning: nothing else of it was read. */
  readonly mayBegin: boolean;
  /** How many pages of the registry the walk has seen, and the digest of the token of one of them (see {@link pass}). */
  readonly pages: number;
  readonly mark: string;
}

/** The place before everything on a first page. */
export function beginningOf({ address }: FoundPage): Place {
  return { address, anchors: [], mayBegin: true, pages: 1, mark: "" };
}

/**
 * How many instruments at the beginning of a page lie before `place`, or undefined when the page does not tell: the
 * nearest anchor that is still there says it, as what comes and goes leaves the order of the others alone.
 */
export function findPlace({ page }: FoundPage, { anchors, mayBegin }: Place): number | undefined {
  for (const anchor of anchors) {
    const at = digestsOf(page).indexOf(anchor);
    if (at !== -1) return at + 1;
  }
  return mayBegin ? 0 : undefined;
}

/** Worked out once for each page: many places are found on it. */
const digests = new WeakMap<ListedPage, readonly string[]>();

function digestsOf(page: ListedPage): readonly string[] {
  const known = digests.get(page) ?? page.ids.map(shortDigest);
  digests.set(page, known);
  return known;
}

/** Whether the instrument right before `place` is on the page, so that {@link findPlace} is beyond doubt. */
export function isCertain({ page }: FoundPage, { anchors }: Place): boolean {
  const [nearest] = anchors;
  return nearest === undefined || digestsOf(page).includes(nearest);
}

/** The place after the instruments `begin` to `end` (exclusive) of its page were read. */
export function advance(place: Place, { page }: FoundPage, [begin, end]: readonly [number, number]): Place {
  const read = digestsOf(page).slice(Math.max(begin, end - MAX_ANCHORS), end);
  return {
    ...place,
    anchors: [...read.toReversed(), ...place.anchors].slice(0, MAX_ANCHORS),
    mayBegin: place.mayBegin && end <= MAX_ANCHORS,
  };
}

/**
 * The place at the beginning of the next page, or undefined when the registry goes round in circles.
 *
 * Brent's algorithm: the digest of every 2^n-th token is kept until the next such, so that a circle of any length is
 * found within three rounds, and a cursor stays short.
 */
export function pass(place: Place, { address, overlaps }: Following): Place | undefined {
  const token = shortDigest(address.pageToken!);
  if (token === place.mark) return undefined;
  const pages = place.pages + 1;
  const isPowerOfTwo = (pages & (pages - 1)) === 0;
  return { address, anchors: place.anchors, mayBegin: !overlaps, pages, mark: isPowerOfTwo ? token : place.mark };
}
