import type { ListedPage } from "../bodies/page.ts";
import type { FoundPage, Listing } from "../registry/listing.ts";
import type { MetadataRequest } from "../registry/registry-metadata.ts";
import type { Part } from "./composed-answer.ts";
import { withMembers } from "./instrument-text.ts";
import { advance, beginningOf, enter, findPosition, isCertain, type Position } from "./position.ts";

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

/** An upstream page, the position on it, and how many of its instruments lie before that. */
interface PositionedPage {
  readonly found: FoundPage;
  readonly position: Position;
  readonly begin: number;
}

/** Texts with their admin by their index on the page, made when they are first asked for, and gone with the page. */
const merged = new WeakMap<ListedPage, { readonly admin: string; readonly texts: string[] }>();

/** Pages in a row on which there may be nothing new before a listing counts as endless. */
const MAX_IDLE_PAGES = 16;

/** The way through one registry's listing, as far as one merged page goes. */
export class RegistryPagination {
  private readonly listing: Listing;
  private readonly request: MetadataRequest;

  constructor(listing: Listing, request: MetadataRequest) {
    this.listing = listing;
    this.request = request;
  }

  /**
   * Adds instruments until the page is full or the listing ends; one page's worth at least.
   *
   * @param from undefined: the beginning
   * @returns the position to go on from, undefined at the end
   * @throws GatewayError what the registry failed with, or 400 when the position is gone
   */
  async addTo(page: Collected, from: Position | undefined): Promise<Position | undefined> {
    let current = from === undefined ? await this.begin(page) : await this.resume(page, from);
    // However much a page costs, each request gets further.
    let hasMoved = from === undefined;
    for (let idle = 0; ;) {
      const { found, position, begin } = current;
      const { ids } = found.page;
      const end = Math.min(ids.length, begin + page.pageSize - page.instruments.length);
      for (let at = begin; at < end; at++) page.instruments.push(this.mergedText(found.page, at));
      const reached = advance(position, found, [begin, end]);
      hasMoved ||= end > begin;
      if (hasMoved && isFull(page) && (end < ids.length || found.page.nextPageToken !== undefined)) return reached;
      idle = end > begin ? 0 : idle + 1;
      if (idle > MAX_IDLE_PAGES) throw this.listing.endless();
      const next = await this.turn(page, found, reached);
      if (next === undefined) return undefined;
      current = next;
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

  private async begin(page: Collected): Promise<PositionedPage> {
    const found = await this.listing.first(this.request);
    collect(page, found);
    return { found, position: beginningOf(found), begin: 0 };
  }

  /** Where the pagination was left. What was added before it may have pushed it to the next page. */
  private async resume(page: Collected, from: Position): Promise<PositionedPage> {
    const found = await this.listing.at(from.address, this.request);
    collect(page, found);
    const begin = findPosition(found, from);
    if (begin !== undefined && isCertain(found, from)) return { found, position: from, begin };
    const after = await this.listing.after(found, this.request);
    const position = after && enter(from, after.next);
    if (after !== undefined && position !== undefined && (begin === undefined || isCertain(after.found, from))) {
      const behind = findPosition(after.found, { ...position, mayBegin: false });
      if (behind !== undefined) {
        collect(page, after.found);
        return { found: after.found, position, begin: behind };
      }
    }
    if (begin === undefined) throw this.listing.lostPosition();
    return { found, position: from, begin };
  }

  /** The next page, undefined after the last one. */
  private async turn(page: Collected, found: FoundPage, position: Position): Promise<PositionedPage | undefined> {
    const after = await this.listing.after(found, this.request);
    if (after === undefined) return undefined;
    const turned = enter(position, after.next);
    if (turned === undefined) throw this.listing.endless();
    const begin = findPosition(after.found, turned);
    if (begin === undefined) throw this.listing.lostPosition();
    collect(page, after.found);
    return { found: after.found, position: turned, begin };
  }
}

/** Notes an upstream page that was read. */
function collect(page: Collected, { answer: { fields, outcome, age, ttl, windowUsed, body } }: FoundPage): void {
  page.parts.push({ fields, outcome, age, ttl, windowUsed });
  page.costLeft -= Math.max(body?.length ?? 0, LEAST_COST);
}
