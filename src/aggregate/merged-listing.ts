import { GatewayError } from "../errors.ts";
import { Listing, type ListingAsk, type ListingKnowledge } from "../registry/listing.ts";
import { type Cursor, decodeCursor, encodeCursor } from "./cursor.ts";
import { setDigest, shortDigest } from "./digest.ts";
import type { Part } from "./freshness.ts";
import { type Collected, isFull, MAX_COST, MemberWalk } from "./member-walk.ts";
import type { Place } from "./place.ts";
import { adminOf, type ClientAsk, identityOf, isRegistryFailure, type Member, partFields } from "./registries.ts";

export const DEFAULT_PAGE_SIZE = 25;
export const MAX_PAGE_SIZE = 1000;

/** A large page begins with the next registries at once: one for so many instruments, and this many at most. */
const LOOK_AHEAD_EVERY = 100;
const MAX_LOOK_AHEAD = 8;

/** A page of the merged listing. */
export interface MergedPage {
  /** The upstream's text of each instrument, with its admin. */
  readonly instruments: readonly string[];
  readonly nextPageToken: string | undefined;
  /** The upstream pages it was made of. */
  readonly parts: readonly Part[];
  /** Names of the registries that failed and are missing. */
  readonly missing: readonly string[];
}

/** The instruments of all registries in the order of the configuration, as one listing in pages. */
export class MergedListing {
  private readonly members: readonly Member[];
  private readonly knowledge: ListingKnowledge;

  constructor(members: readonly Member[], knowledge: ListingKnowledge) {
    this.members = members;
    this.knowledge = knowledge;
  }

  /**
   * One page, full unless it is the last or costs too much to fill, across the borders of registries. Of the instruments that stay, a walk sees
   * each exactly once and in order; where that can't be had any more, it is refused.
   *
   * @param pageToken of the page before, undefined for the first
   * @throws GatewayError 400 for a token that is not good or not good any more; what a registry failed with
   */
  async page(pageSize: number, pageToken: string | undefined, ask: ClientAsk): Promise<MergedPage> {
    const cursor = pageToken === undefined ? undefined : decodeCursor(pageToken);
    let at = cursor === undefined ? 0 : this.locate(cursor);
    let place = cursor?.within?.place;
    const page: Collected = { instruments: [], parts: [], pageSize, costLeft: MAX_COST };
    const missing: string[] = [];
    this.lookAhead(at, pageSize, ask);
    while (at < this.members.length && !isFull(page)) {
      try {
        place = await this.walk(this.members[at]!, page, { place, ask });
      } catch (error) {
        if (!isRegistryFailure(error)) throw error;
        if (!ask.isPartial) throw withHint(error);
        missing.push(this.members[at]!.upstream.name);
        place = undefined;
      }
      if (place === undefined) at++;
    }
    const isEnd = at === this.members.length;
    const nextPageToken = isEnd ? undefined : encodeCursor(this.cursor(at, place));
    return { instruments: page.instruments, parts: page.parts, nextPageToken, missing };
  }

  private async walk(
    member: Member,
    page: Collected,
    { place, ask }: { readonly place: Place | undefined; readonly ask: ClientAsk },
  ): Promise<Place | undefined> {
    const listing = new Listing(member.metadata, await adminOf(member, ask), this.knowledge);
    return new MemberWalk(listing, listingAsk(member, ask)).fill(page, place);
  }

  /** Lets registries that a large page will come to work at the same time; their pages wait in the cache. */
  private lookAhead(at: number, pageSize: number, ask: ClientAsk): void {
    const ahead = Math.min(Math.floor(pageSize / LOOK_AHEAD_EVERY), MAX_LOOK_AHEAD);
    for (const member of this.members.slice(at + 1, at + 1 + ahead)) {
      void adminOf(member, ask)
        .then((admin) => new Listing(member.metadata, admin, this.knowledge).first(listingAsk(member, ask)))
        // Whoever comes to this registry is told.
        .catch(() => undefined);
    }
  }

  private cursor(at: number, place: Place | undefined): Cursor {
    return {
      done: at,
      doneDigest: this.doneDigest(at),
      within: place && { registry: shortDigest(identityOf(this.members[at]!)), place },
    };
  }

  /**
   * The place of the registry to go on with. The configuration may have changed in between: what counts is that the
   * same registries lie before it, and that a registry which was begun is still there.
   */
  private locate({ done, doneDigest, within }: Cursor): number {
    const isSame = done <= this.members.length && this.doneDigest(done) === doneDigest;
    const begun = this.members[done];
    const goesOn = within === undefined || (begun !== undefined && shortDigest(identityOf(begun)) === within.registry);
    if (isSame && goesOn) return done;
    throw new GatewayError(
      "listing_changed",
      "the registries behind this gateway have changed since the listing was begun; list again from the beginning, " +
        "without pageToken",
    );
  }

  private doneDigest(count: number): string {
    return setDigest(this.members.slice(0, count).map(identityOf));
  }
}

function listingAsk({ upstream }: Member, { headers, deadlineOf, signal }: ClientAsk): ListingAsk {
  return { requester: "client", headers: partFields(headers), deadline: deadlineOf(upstream), signal };
}

/** The failure with what the client can do about it. */
function withHint(error: GatewayError): GatewayError {
  const { code, status, retryAfter, proxyError, message, cause } = error;
  return new GatewayError(code, `${message}; the other registries are listed with ?partial=true`, {
    status,
    retryAfter,
    proxyError,
    cause,
  });
}
