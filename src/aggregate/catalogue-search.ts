import { Type } from "typebox";
import { Compile } from "typebox/compile";
import { GatewayError } from "../errors.ts";
import type { Catalogue } from "./catalogue.ts";
import type { Shelf } from "./catalogue-shelf.ts";
import { shortDigest } from "./digest.ts";
import { withMembers } from "./instrument-text.ts";
import type { Member } from "./registries.ts";
import { RANKS, type Rank, readQuery } from "./search-index.ts";
import { searchText } from "./search-text.ts";

/** What to look for. */
export interface CatalogueQuery {
  /** Words of id, name or symbol; empty: everything. */
  readonly query: string;
  /** The whole symbol. */
  readonly symbol: string | undefined;
  readonly pageSize: number;
  readonly pageToken: string | undefined;
}

/** A page of what was found. */
export interface CataloguePage {
  /** The upstream's text of each instrument, with its admin and its registry's alias. */
  readonly instruments: readonly string[];
  readonly nextPageToken: string | undefined;
  readonly shelves: readonly Shelf[];
  /** Names of the registries whose instruments are not known, or not all of them. */
  readonly missing: readonly string[];
}

/** Characters of instruments on one page: beyond, it ends short of its size. */
const MAX_SIZE = 8 * 1024 * 1024;

/** How far a search came: the rank, and the last instrument by its registry and id. */
type Position = readonly [query: string, rank: number, admin: string, id: string];

const PositionForm = Compile(
  Type.Tuple([Type.String(), Type.Integer({ minimum: 0, maximum: RANKS.length - 1 }), Type.String(), Type.String()]),
);

/**
 * Searches the catalogue: better matches first, equal ones in the order of the merged listing.
 *
 * @throws GatewayError 400 for a page token of another search, or whose instrument is gone
 */
export function searchCatalogue(
  catalogue: Catalogue,
  members: readonly Member[],
  query: CatalogueQuery,
): CataloguePage {
  const shelves: (readonly [Member, Shelf])[] = [];
  const missing: string[] = [];
  for (const member of members) {
    const shelf = catalogue.shelfOf(member);
    if (shelf !== undefined) shelves.push([member, shelf]);
    if (shelf?.walk.isWhole !== true) missing.push(member.upstream.name);
  }
  const instruments: string[] = [];
  let size = 0;
  let last: Position | undefined;
  let nextPageToken: string | undefined;
  for (const [rank, member, shelf, at] of matches(shelves, query)) {
    if (last !== undefined) {
      nextPageToken = Buffer.from(JSON.stringify(last)).toString("base64url");
      break;
    }
    const { admin } = shelf.walk;
    const text = shelf.texts[at]!;
    instruments.push(
      withMembers(text, [
        ["admin", JSON.stringify(admin)],
        ["registry", JSON.stringify(member.upstream.name)],
      ]),
    );
    size += text.length;
    if (instruments.length === query.pageSize || size >= MAX_SIZE)
      last = [digestOf(query), rank, admin, shelf.ids[at]!];
  }
  return { instruments, nextPageToken, shelves: shelves.map(([, shelf]) => shelf), missing };
}

function* matches(
  shelves: readonly (readonly [Member, Shelf])[],
  query: CatalogueQuery,
): Generator<readonly [Rank, Member, Shelf, number]> {
  const words = readQuery(query.query);
  // What holds no letter and no digit was not meant to mean everything.
  if (words.phrase === "" && query.query.trim() !== "") return;
  const symbol = query.symbol === undefined ? undefined : searchText(query.symbol);
  const start = query.pageToken === undefined ? undefined : startAfter(shelves, query, query.pageToken);
  for (const rank of RANKS.slice(start?.rank ?? 0)) {
    const isFirst = rank === start?.rank;
    for (const [member, shelf] of isFirst ? shelves.slice(start.shelf) : shelves) {
      const from = isFirst && shelf === shelves[start.shelf]![1] ? start.from : 0;
      for (const at of shelf.index.find(words, rank, from)) {
        if (symbol === undefined || shelf.index.hasSymbol(at, symbol)) yield [rank, member, shelf, at];
      }
    }
  }
}

/** Where a search goes on: its rank, and the place in the shelves. */
interface Start {
  readonly rank: Rank;
  readonly shelf: number;
  readonly from: number;
}

function startAfter(shelves: readonly (readonly [Member, Shelf])[], query: CatalogueQuery, token: string): Start {
  const [digest, rank, admin, id] = readPosition(token);
  const shelf = shelves.findIndex(([, { walk }]) => walk.admin === admin);
  const place = shelves[shelf]?.[1].places.get(id);
  if (digest !== digestOf(query))
    throw new GatewayError("invalid_page_token", "the pageToken belongs to another search");
  if (place === undefined) {
    throw new GatewayError(
      "listing_changed",
      "the catalogue has changed since the search was begun; search again without pageToken",
    );
  }
  return { rank: RANKS[rank]!, shelf, from: place + 1 };
}

function readPosition(token: string): Position {
  try {
    const position = JSON.parse(Buffer.from(token, "base64url").toString("utf8")) as unknown;
    if (PositionForm.Check(position)) return position;
  } catch {
    // Told below.
  }
  throw new GatewayError(
    "invalid_page_token",
    "the pageToken is not one that this catalogue gave out; search again without it",
  );
}

/** A token goes on with the search that gave it out; only the page size may change on the way. */
function digestOf({ query, symbol }: CatalogueQuery): string {
  return shortDigest(JSON.stringify([query, symbol]));
}
