import { setImmediate } from "node:timers/promises";
import { Type } from "typebox";
import { Compile } from "typebox/compile";
import type { Clock } from "../clock.ts";
import { clientGone, GatewayError } from "../errors.ts";
import { parseJson } from "../json.ts";
import { Places } from "../limits/concurrency-limit.ts";
import type { WaitTerms } from "../limits/wait-queue.ts";
import type { RegistryMetadata } from "../registry/registry-metadata.ts";
import { type Catalogue, isWhole, type RegistryInstruments } from "./catalogue.ts";
import { shortDigest } from "./position.ts";
import { withMembers } from "./instrument-text.ts";
import { RANKS, type Rank, readQuery, symbolText } from "./search-index.ts";

/** What to look for. */
export interface CatalogueQuery {
  /** Words of id, name or symbol; empty: everything. */
  readonly query: string;
  /** The whole symbol. */
  readonly symbol: string | undefined;
  /** Only those that are paused, or are not; undefined: both. */
  readonly paused: boolean | undefined;
  readonly pageSize: number;
  readonly pageToken: string | undefined;
  /** Distinguishes searches of some registries from those of others, whose page tokens are no good here. */
  readonly view: string;
}

/** A page of what was found. */
export interface CataloguePage {
  /** The upstream's text of each instrument, with its admin and its registry's alias. */
  readonly instruments: readonly string[];
  readonly nextPageToken: string | undefined;
  /** What the page was taken from. */
  readonly searched: readonly RegistryInstruments[];
  /** Names of the registries whose instruments are not known, or not all of them. */
  readonly missing: readonly string[];
}

/** Characters of instruments on one page: beyond, it ends short of its size. */
const MAX_SIZE = 8 * 1024 * 1024;

/** Each may have to be looked for in every instrument. */
const MOST_WORDS = 10;

/** How far a search came: the rank, and the last instrument by its registry, its place there and the digest of its id. */
type Position = readonly [query: string, rank: number, admin: string, at: number, id: string];

const PositionForm = Compile(
  Type.Tuple([
    Type.String(),
    Type.Integer({ minimum: 0, maximum: RANKS.length - 1 }),
    Type.String(),
    Type.Integer({ minimum: 0 }),
    Type.String(),
  ]),
);

/** Instruments that a search looks at in one turn of the event loop: a millisecond's worth, or a few. */
const TURN = 2_000;

/**
 * To look at an instrument takes as long as to go through so many characters, 0.2 µs: for a word whose first letter is
 * everywhere, as it was measured. A rarer letter takes a hundredth.
 */
const SCANNED = 500;

/** To put so many characters of an instrument onto a page takes as long as to look at one. */
const WRITTEN = 400;

/** Searches that take more than one turn run one after the other, and so many wait. */
const LONG = { max: 1, queue: 256 };

/** How long a client waits for its search. */
export type SearchTerms = Pick<WaitTerms, "deadline" | "signal">;

/**
 * Searches the catalogue. One that takes long gives way to everything else, and further ones wait for its end: so
 * under any load some come to theirs.
 */
export class CatalogueSearch {
  private readonly catalogue: Catalogue;
  private readonly clock: Clock;
  private readonly long: Places;

  constructor(catalogue: Catalogue, clock: Clock) {
    this.catalogue = catalogue;
    this.clock = clock;
    this.long = new Places(LONG, { full: tooMany, late: tooLate }, clock);
  }

  /**
   * A page of what is found: better matches first, equal ones in the order of the merged listing. It is of the catalogue as
   * it was at the beginning.
   *
   * @throws GatewayError 400 for a page token of another search, or whose instrument is gone, 503 where too many searches
   * that take long wait just now, 504 when the deadline passes; `clientGone` when the signal aborts
   */
  async page(
    registries: readonly RegistryMetadata[],
    query: CatalogueQuery,
    terms: SearchTerms,
  ): Promise<CataloguePage> {
    let isLong = false;
    const turn = new Turn(async () => {
      if (!isLong && !this.long.tryEnter()) await this.long.enter({ ...terms, priority: "miss" });
      isLong = true;
      await this.giveWay(terms);
    });
    try {
      return await findPage(this.catalogue, registries, { query, turn });
    } finally {
      if (isLong) this.long.leave();
    }
  }

  /** Resolves in the next turn of the event loop. */
  private async giveWay({ deadline, signal }: SearchTerms): Promise<void> {
    await setImmediate();
    if (signal?.aborted === true) throw clientGone();
    if (this.clock.now() >= deadline) throw tooLate();
  }
}

function tooMany(): GatewayError {
  const text =
    "too many clients search for what takes long just now; try again in a second, or search for longer words";
  return new GatewayError("overloaded", text, { retryAfter: 1 });
}

function tooLate(): GatewayError {
  const text = "the search came to no end in time, for others run as well; try again later, or search for longer words";
  return new GatewayError("queue_timeout", text);
}

/** What one search may still look at until it gives way. */
class Turn {
  private readonly giveWay: () => Promise<void>;
  private left = TURN;

  constructor(giveWay: () => Promise<void>) {
    this.giveWay = giveWay;
  }

  get isOver(): boolean {
    return this.left <= 0;
  }

  /** So many instruments were looked at. */
  spend(instruments: number): void {
    this.left -= instruments;
  }

  next(): Promise<void> {
    this.left = TURN;
    return this.giveWay();
  }
}

interface Search {
  readonly query: CatalogueQuery;
  readonly turn: Turn;
}

async function findPage(
  catalogue: Catalogue,
  registries: readonly RegistryMetadata[],
  search: Search,
): Promise<CataloguePage> {
  const { query } = search;
  const searched: Searched[] = [];
  const missing: string[] = [];
  for (const registry of registries) {
    const { name } = registry.upstream;
    const known = catalogue.instrumentsOf(registry);
    if (known !== undefined) searched.push({ name, known });
    if (known === undefined || !isWhole(known)) missing.push(name);
  }
  const instruments: string[] = [];
  let size = 0;
  let last: Position | undefined;
  let nextPageToken: string | undefined;
  for await (const [rank, { name, known }, at] of matches(searched, search)) {
    if (last !== undefined) {
      nextPageToken = Buffer.from(JSON.stringify(last)).toString("base64url");
      break;
    }
    const { admin } = known.listing;
    const text = known.texts[at]!;
    instruments.push(
      withMembers(text, [
        ["admin", JSON.stringify(admin)],
        ["registry", JSON.stringify(name)],
      ]),
    );
    search.turn.spend(text.length / WRITTEN);
    size += text.length;
    if (instruments.length === query.pageSize || size >= MAX_SIZE) {
      last = [digestOf(query), rank, admin, at, shortDigest(known.ids[at]!)];
    }
  }
  return { instruments, nextPageToken, searched: searched.map(({ known }) => known), missing };
}

/** One registry that is searched. */
interface Searched {
  readonly name: string;
  readonly known: RegistryInstruments;
}

async function* matches(
  searched: readonly Searched[],
  { query, turn }: Search,
): AsyncGenerator<readonly [rank: Rank, registry: Searched, at: number]> {
  const words = readQuery(query.query);
  if (words.words.length > MOST_WORDS) {
    throw new GatewayError("invalid_query", `query has more than ${MOST_WORDS} words; search for the rarest of them`);
  }
  // What holds no letter and no digit was not meant to mean everything.
  if (words.phrase === "" && query.query.trim() !== "") return;
  const symbol = query.symbol === undefined ? undefined : symbolText(query.symbol);
  const start =
    query.pageToken === undefined ? undefined : await startAfter(searched, query.pageToken, { query, turn });
  // An instrument is gone through for each rank, and for the last one for each word.
  const patterns = RANKS.length - 1 + words.words.length;
  const scanned = (characters: number) => turn.spend(characters / SCANNED);
  for (const rank of RANKS.slice(start?.rank ?? 0)) {
    const isFirst = rank === start?.rank;
    for (const registry of isFirst ? searched.slice(start.registry) : searched) {
      const from = isFirst && registry === searched[start.registry] ? start.from : 0;
      const { index } = registry.known;
      for (const at of index.candidates(words, rank, { from, scanned })) {
        if (at !== undefined) turn.spend(Math.max(1, (index.lengthOf(at) * patterns) / SCANNED));
        if (turn.isOver) await turn.next();
        if (at === undefined) continue;
        if (query.paused !== undefined && index.isPaused(at) !== query.paused) continue;
        if (symbol !== undefined && !index.hasSymbol(at, symbol)) continue;
        if (index.rankOf(at, words) === rank) yield [rank, registry, at];
      }
    }
  }
}

/** Where a search goes on: its rank, the registry, and the instrument there. */
interface Start {
  readonly rank: Rank;
  readonly registry: number;
  readonly from: number;
}

async function startAfter(searched: readonly Searched[], token: string, { query, turn }: Search): Promise<Start> {
  const [digest, rank, admin, at, id] = readPosition(token);
  if (digest !== digestOf(query)) {
    throw new GatewayError("invalid_page_token", "the pageToken belongs to another search");
  }
  const registry = searched.findIndex(({ known }) => known.listing.admin === admin);
  const ids = searched[registry]?.known.ids ?? [];
  const last = at < ids.length && shortDigest(ids[at]!) === id ? at : await placeOf(id, ids, turn);
  if (last === undefined) {
    throw new GatewayError(
      "listing_changed",
      "the catalogue has changed since the search was begun; search again without pageToken",
    );
  }
  return { rank: RANKS[rank]!, registry, from: last + 1 };
}

/** Where the id of this digest stands now that instruments came or went. */
async function placeOf(digest: string, ids: readonly string[], turn: Turn): Promise<number | undefined> {
  for (const [at, id] of ids.entries()) {
    turn.spend(1);
    if (turn.isOver) await turn.next();
    if (shortDigest(id) === digest) return at;
  }
  return undefined;
}

function readPosition(token: string): Position {
  const position = parseJson(Buffer.from(token, "base64url").toString("utf8"));
  if (PositionForm.Check(position)) return position;
  throw new GatewayError(
    "invalid_page_token",
    "the pageToken is not one that this catalogue gave out; search again without it",
  );
}

/** A token goes on with the search that gave it out; only the page size may change on the way. */
function digestOf({ query, symbol, paused, view }: CatalogueQuery): string {
  return shortDigest(JSON.stringify(paused === undefined ? [query, symbol] : [query, symbol, paused]) + view);
}
