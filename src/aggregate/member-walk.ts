import type { Part } from "./freshness.ts";
import type { ListedPage } from "../bodies/page.ts";
import type { FoundPage, Listing, ListingAsk } from "../registry/listing.ts";
import { withMembers } from "./instrument-text.ts";
import { advance, beginningOf, findPlace, isCertain, pass, type Place } from "./place.ts";

/** A merged page while it is filled. */
export interface Collected {
  readonly instruments: string[];
  /** The upstream pages that were read for it, without their bodies. */
  readonly parts: Part[];
  readonly pageSize: number;
  /** What is left of {@link MAX_COST}. */
  costLeft: number;
}

/** Bytes of upstream pages that are read for one merged page: beyond, it ends short of its size. */
export const MAX_COST = 16 * 1024 * 1024;

/** What an upstream page costs at least, so that many small ones come to an end as well. */
const LEAST_COST = 64 * 1024;

/** Whether nothing more may be read for the page. */
export function isFull({ instruments, pageSize, costLeft }: Collected): boolean {
  return instruments.length >= pageSize || costLeft <= 0;
}

/** An upstream page, the place on it, and how many of its instruments lie before that. */
interface Stand {
  readonly found: FoundPage;
  readonly place: Place;
  readonly begin: number;
}

/** Texts with their admin by their place on the page, made when they are first asked for, and gone with the page. */
const merged = new WeakMap<ListedPage, { readonly admin: string; readonly texts: string[] }>();

/** Pages in a row on which there may be nothing new before a listing counts as endless. */
const MAX_IDLE_PAGES = 16;

/** The way through one registry's listing, as far as one merged page goes. */
export class MemberWalk {
  private readonly listing: Listing;
  private readonly ask: ListingAsk;

  constructor(listing: Listing, ask: ListingAsk) {
    this.listing = listing;
    this.ask = ask;
  }

  /**
   * Adds instruments until the page is full or the listing ends; one page's worth at least.
   *
   * @param from undefined: the beginning
   * @returns the place to go on from, undefined at the end
   * @throws GatewayError what the registry failed with, or 400 when the place is gone
   */
  async fill(page: Collected, from: Place | undefined): Promise<Place | undefined> {
    let stand = from === undefined ? await this.begin(page) : await this.resume(page, from);
    // However much a page costs, each request gets further.
    let hasMoved = from === undefined;
    for (let idle = 0; ;) {
      const { found, place, begin } = stand;
      const { ids } = found.page;
      const end = Math.min(ids.length, begin + page.pageSize - page.instruments.length);
      for (let at = begin; at < end; at++) page.instruments.push(this.mergedText(found.page, at));
      const reached = advance(place, found, [begin, end]);
      hasMoved ||= end > begin;
      if (hasMoved && isFull(page) && (end < ids.length || found.page.nextPageToken !== undefined)) return reached;
      idle = end > begin ? 0 : idle + 1;
      if (idle > MAX_IDLE_PAGES) throw this.listing.endless();
      const next = await this.turn(page, found, reached);
      if (next === undefined) return undefined;
      stand = next;
      hasMoved = true;
    }
  }

  /** The page's instrument `at` with its admin. */
  private mergedText(page: ListedPage, at: number): string {
    const { admin } = this.listing;
    let known = merged.get(page);
    if (known?.admin !== admin) {
      known = { admin, texts: [] };
      merged.set(page, known);
    }
    return (known.texts[at] ??= withMembers(page.text(at), [["admin", JSON.stringify(admin)]]));
  }

  private async begin(page: Collected): Promise<Stand> {
    const found = await this.listing.first(this.ask);
    collect(page, found);
    return { found, place: beginningOf(found), begin: 0 };
  }

  /** Where the walk was left. What was added before it may have pushed it to the next page. */
  private async resume(page: Collected, from: Place): Promise<Stand> {
    const found = await this.listing.at(from.address, this.ask);
    collect(page, found);
    const begin = findPlace(found, from);
    if (begin !== undefined && isCertain(found, from)) return { found, place: from, begin };
    const next = await this.listing.after(found, this.ask);
    const place = next && pass(from, next.following);
    if (next !== undefined && place !== undefined && (begin === undefined || isCertain(next.found, from))) {
      const behind = findPlace(next.found, { ...place, mayBegin: false });
      if (behind !== undefined) {
        collect(page, next.found);
        return { found: next.found, place, begin: behind };
      }
    }
    if (begin === undefined) throw this.listing.lostPlace();
    return { found, place: from, begin };
  }

  /** The next page, undefined after the last one. */
  private async turn(page: Collected, found: FoundPage, place: Place): Promise<Stand | undefined> {
    const next = await this.listing.after(found, this.ask);
    if (next === undefined) return undefined;
    const turned = pass(place, next.following);
    if (turned === undefined) throw this.listing.endless();
    const begin = findPlace(next.found, turned);
    if (begin === undefined) throw this.listing.lostPlace();
    collect(page, next.found);
    return { found: next.found, place: turned, begin };
  }
}

/** Notes an upstream page that was read. */
function collect(page: Collected, { answer: { fields, outcome, age, body } }: FoundPage): void {
  page.parts.push({ fields, outcome, age });
  page.costLeft -= Math.max(body?.length ?? 0, LEAST_COST);
}
