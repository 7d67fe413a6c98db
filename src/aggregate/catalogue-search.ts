import { Type } from "typebox";
import { Compile } from "typebox/compile";
import { GatewayError } from "../errors.ts";
import type { RegistryMetadata } from "../registry/registry-metadata.ts";
import { parseJson } from "../json.ts";
import { type Catalogue, isWhole, type RegistryInstruments } from "./catalogue.ts";
import { shortDigest } from "./cursor.ts";
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

/** Each may have to be looked for in every instrument, in one go. */
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

/**
 * Searches the catalogue: better matches first, equal ones in the order of the merged listing.
 *
 * @throws GatewayError 400 for a page token of another search, or whose instrument is gone
 */
export function searchCatalogue(
  catalogue: Catalogue,
  registries: readonly RegistryMetadata[],
  query: CatalogueQuery,
): CataloguePage {
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
  for (const [rank, { name, known }, at] of matches(searched, query)) {
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

function* matches(
  searched: readonly Searched[],
  query: CatalogueQuery,
): Generator<readonly [rank: Rank, registry: Searched, at: number]> {
  const words = readQuery(query.query);
  if (words.words.length > MOST_WORDS) {
    throw new GatewayError("invalid_query", `query has more than ${MOST_WORDS} words; search for the rarest of them`);
  }
  // What holds no letter and no digit was not meant to mean everything.
  if (words.phrase === "" && query.query.trim() !== "") return;
  const symbol = query.symbol === undefined ? undefined : symbolText(query.symbol);
  const start = query.pageToken === undefined ? undefined : startAfter(searched, query, query.pageToken);
  for (const rank of RANKS.slice(start?.rank ?? 0)) {
    const isFirst = rank === start?.rank;
    for (const registry of isFirst ? searched.slice(start.registry) : searched) {
      const from = isFirst && registry === searched[start.registry] ? start.from : 0;
      const { index } = registry.known;
      for (const at of index.find(words, rank, from)) {
        const isMeant = query.paused === undefined || index.isPaused(at) === query.paused;
        if (isMeant && (symbol === undefined || index.hasSymbol(at, symbol))) yield [rank, registry, at];
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

function startAfter(searched: readonly Searched[], query: CatalogueQuery, token: string): Start {
  const [digest, rank, admin, at, id] = readPosition(token);
  if (digest !== digestOf(query)) {
    throw new GatewayError("invalid_page_token", "the pageToken belongs to another search");
  }
  const registry = searched.findIndex(({ known }) => known.listing.admin === admin);
  const last = placeOf(id, at, searched[registry]?.known.ids ?? []);
  if (last === undefined) {
    throw new GatewayError(
      "listing_changed",
      "the catalogue has changed since the search was begun; search again without pageToken",
    );
  }
  return { rank: RANKS[rank]!, registry, from: last + 1 };
}

/** Where the id of this digest stands: in its place, unless instruments came or went. */
function placeOf(digest: string, at: number, ids: readonly string[]): number | undefined {
  if (at < ids.length && shortDigest(ids[at]!) === digest) return at;
  const found = ids.findIndex((id) => shortDigest(id) === digest);
  return found === -1 ? undefined : found;
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
