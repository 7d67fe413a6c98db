import type { ListedPage } from "../bodies/page.ts";
import type { FoundPage } from "../registry/listing.ts";
import { type NextPage, OVERLAP, type PageAddress } from "../registry/pagination.ts";
import { shortDigest } from "./cursor.ts";

/** Instruments by which a position is found again, should some of them be gone. */
const MAX_ANCHORS = OVERLAP;

/** A position between two instruments of a registry's listing, to go on from later. */
export interface Position {
  readonly address: PageAddress;
  /** Digests of the ids of the last instruments before the position, the nearest first. */
  readonly anchors: readonly string[];
  /** Without any anchor on the page, the position is at its beginning: nothing else of it was read. */
  readonly mayBegin: boolean;
  /** How many pages of the registry were read, and the digest of the token of one of them (see {@link enter}). */
  readonly pages: number;
  readonly checkpoint: string;
}

/** The position before everything on a first page. */
export function beginningOf({ address }: FoundPage): Position {
  return { address, anchors: [], mayBegin: true, pages: 1, checkpoint: "" };
}

/**
 * How many instruments at the beginning of a page lie before `position`, or undefined when the page does not say: the
 * nearest anchor that is still there says it, as what comes and goes leaves the order of the others alone.
 */
export function findPosition({ page }: FoundPage, { anchors, mayBegin }: Position): number | undefined {
  for (const anchor of anchors) {
    const at = digestsOf(page).indexOf(anchor);
    if (at !== -1) return at + 1;
  }
  return mayBegin ? 0 : undefined;
}

/** Worked out once for each page: many positions are found on it. */
const digests = new WeakMap<ListedPage, readonly string[]>();

function digestsOf(page: ListedPage): readonly string[] {
  const known = digests.get(page) ?? page.ids.map(shortDigest);
  digests.set(page, known);
  return known;
}

/** Whether the instrument right before `position` is on the page, so that {@link findPosition} is beyond doubt. */
export function isCertain({ page }: FoundPage, { anchors }: Position): boolean {
  const [nearest] = anchors;
  return nearest === undefined || digestsOf(page).includes(nearest);
}

/** The position after the instruments `begin` to `end` (exclusive) of its page were read. */
export function advance(position: Position, { page }: FoundPage, [begin, end]: readonly [number, number]): Position {
  const read = digestsOf(page).slice(Math.max(begin, end - MAX_ANCHORS), end);
  return {
    ...position,
    anchors: [...read.toReversed(), ...position.anchors].slice(0, MAX_ANCHORS),
    mayBegin: position.mayBegin && end <= MAX_ANCHORS,
  };
}

/**
 * The position at the beginning of the next page, or undefined when the registry goes round in circles.
 *
 * Brent's algorithm: the digest of every 2^n-th token is kept until the next such, so that a circle of any length is
 * found within three rounds, and a cursor stays short.
 */
export function enter({ anchors, pages, checkpoint }: Position, { address, overlaps }: NextPage): Position | undefined {
  const token = shortDigest(address.pageToken!);
  if (token === checkpoint) return undefined;
  const read = pages + 1;
  const isPowerOfTwo = (read & (read - 1)) === 0;
  return { address, anchors, mayBegin: !overlaps, pages: read, checkpoint: isPowerOfTwo ? token : checkpoint };
}
