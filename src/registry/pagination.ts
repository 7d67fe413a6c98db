import type { ListedPage } from "../bodies/page.ts";
import { PAGE_SIZES } from "./page-size-negotiation.ts";

/** Which page of a listing: as it is asked for. */
export interface PageAddress {
  /** Undefined: the registry's own. */
  readonly pageSize: number | undefined;
  /** As issued, not encoded; undefined for the first page. */
  readonly pageToken: string | undefined;
}

/** The page that follows another one. */
export interface NextPage {
  readonly address: PageAddress;
  /**
   * True when the page begins with the last instruments of the one before it. When they are not there, the listing has
   * moved in between, and what comes next cannot be known.
   */
  readonly overlaps: boolean;
}

/** How many instruments of the page before an overlapping page repeats. */
export const OVERLAP = 4;

/**
 * Ways to ask for the page after `page`, best first; none after the last. Tokens that are the last id go on after that
 * id whatever comes and goes; tokens that are an index into the list do not: one instrument less before it, and one is
 * passed over. So pages by index are read with an overlap, and the next page has to begin with what was read last: in a
 * page that is larger by the overlap, or in one of the same size where the registry refuses that, and without where it
 * takes no token but its own.
 */
export function nextPages(
  { ids, nextPageToken: token }: Pick<ListedPage, "ids" | "nextPageToken">,
  address: PageAddress,
): readonly NextPage[] {
  if (token === undefined) return [];
  const index = indexOf(token);
  const start = address.pageToken === undefined ? 0 : indexOf(address.pageToken);
  const isIndex = index !== undefined && start !== undefined && index === start + ids.length;
  if (!isIndex || token === ids.at(-1) || ids.length <= OVERLAP) {
    return [{ address: { pageSize: address.pageSize, pageToken: token }, overlaps: false }];
  }
  const base = baseSize(address);
  const wider = base === undefined ? base : base + OVERLAP;
  const overlapping = String(index - OVERLAP);
  return [
    { address: { pageSize: wider, pageToken: overlapping }, overlaps: true },
    { address: { pageSize: base, pageToken: overlapping }, overlaps: true },
    { address: { pageSize: base, pageToken: token }, overlaps: false },
  ];
}

/** What `token` is as an index; undefined when it is none. */
function indexOf(token: string): number | undefined {
  return /^(?:0|[1-9][0-9]{0,8})$/.test(token) ? Number(token) : undefined;
}

/** The page size without what an overlapping page has on top. */
function baseSize({ pageSize, pageToken }: PageAddress): number | undefined {
  if (pageSize === undefined || pageToken === undefined) return pageSize;
  return PAGE_SIZES.includes(pageSize) ? pageSize : pageSize - OVERLAP;
}
