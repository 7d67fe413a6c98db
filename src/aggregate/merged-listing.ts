import { GatewayError } from "../errors.ts";
import { Listing } from "../registry/listing.ts";
import type { RegistryMetadata } from "../registry/registry-metadata.ts";
import type { Part } from "./composed-answer.ts";
import { type Cursor, decodeCursor, encodeCursor, type Position, shortDigest } from "./position.ts";
import { type ClientRequest, identityOf, isRegistryFailure, requestTo } from "./registries.ts";
import { type Collected, isFull, MAX_COST, RegistryPagination } from "./registry-pagination.ts";

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
  private readonly registries: readonly RegistryMetadata[];
  private readonly view: string;

  /** @param view distinguishes listings of some registries from those of others, whose page tokens are no good here */
  constructor(registries: readonly RegistryMetadata[], view: string) {
    this.registries = registries;
    this.view = view;
  }

  /**
   * One page, full unless it is the last or costs too much to fill, across the borders of registries. Of the instruments
   * that stay, a pagination has each exactly once and in order; where that can't be had any more, it is refused.
   *
   * @param pageToken of the page before, undefined for the first
   * @throws GatewayError 400 for a token that is not good or not good any more; what a registry failed with
   */
  async page(pageSize: number, pageToken: string | undefined, request: ClientRequest): Promise<MergedPage> {
    const cursor = pageToken === undefined ? undefined : decodeCursor(pageToken);
    let at = cursor === undefined ? 0 : this.locate(cursor);
    let position = cursor?.within?.position;
    const page: Collected = { instruments: [], parts: [], pageSize, costLeft: MAX_COST };
    const missing: string[] = [];
    this.lookAhead(at, pageSize, request);
    while (at < this.registries.length && !isFull(page)) {
      const registry = this.registries[at]!;
      try {
        const asked = requestTo(registry, request);
        const pagination = new RegistryPagination(new Listing(registry, await registry.admin(asked)), asked);
        position = await pagination.addTo(page, position);
      } catch (error) {
        if (!isRegistryFailure(error)) throw error;
        if (!request.isPartial) throw withHint(error);
        missing.push(registry.upstream.name);
        position = undefined;
      }
      if (position === undefined) at++;
    }
    const isEnd = at === this.registries.length;
    const nextPageToken = isEnd ? undefined : encodeCursor(this.cursor(at, position));
    return { instruments: page.instruments, parts: page.parts, nextPageToken, missing };
  }

  /** Lets registries that a large page will come to work at the same time; their pages wait in the cache. */
  private lookAhead(at: number, pageSize: number, request: ClientRequest): void {
    const ahead = Math.min(Math.floor(pageSize / LOOK_AHEAD_EVERY), MAX_LOOK_AHEAD);
    for (const registry of this.registries.slice(at + 1, at + 1 + ahead)) {
      const asked = requestTo(registry, request);
      void registry
        .admin(asked)
        .then((admin) => new Listing(registry, admin).first(asked))
        // A page that comes to this registry fails with it.
        .catch(() => undefined);
    }
  }

  private cursor(at: number, position: Position | undefined): Cursor {
    return {
      done: at,
      doneDigest: this.doneDigest(at),
      within: position && { registry: shortDigest(identityOf(this.registries[at]!)), position },
    };
  }

  /**
   * The registry to go on with. The configuration may have changed in between: what counts is that it is the same view, that
   * the same registries lie before it, and that a registry which was begun is still there.
   */
  private locate({ done, doneDigest, within }: Cursor): number {
    const isSame = done <= this.registries.length && this.doneDigest(done) === doneDigest;
    const begun = this.registries[done];
    const goesOn = within === undefined || (begun !== undefined && shortDigest(identityOf(begun)) === within.registry);
    if (isSame && goesOn) return done;
    throw new GatewayError(
      "listing_changed",
      "the registries behind this gateway have changed since the listing was begun; list again from the beginning, " +
        "without pageToken",
    );
  }

  /** The same whatever the order. */
  private doneDigest(count: number): string {
    const done = JSON.stringify(this.registries.slice(0, count).map(identityOf).sort());
    return shortDigest(done + this.view);
  }
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
