import { type Static, Type } from "typebox";
import { Compile } from "typebox/compile";
import type { ListedPage } from "../bodies/page.ts";
import { digestOf } from "../digest.ts";
import { GatewayError } from "../errors.ts";
import { parseJson } from "../json.ts";
import type { FoundPage } from "../registry/listing.ts";
import { type NextPage, OVERLAP, type PageAddress } from "../registry/pagination.ts";

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

/** Characters of a {@link shortDigest}. */
const DIGEST_LENGTH = 8;

/** A short digest that stands for `text` in page tokens: 48 bits. */
export function shortDigest(text: string): string {
  return digestOf(text, DIGEST_LENGTH);
}

/**
 * Where a pagination of the merged listing stands. It holds all there is to know, so that any replica goes on with it, after a restart and
 * after a reload too.
 */
export interface Cursor {
  /** How many registries, in the order of the configuration, are behind it. */
  readonly done: number;
  /** Which ones: the {@link shortDigest} of their names, whatever their order. */
  readonly doneDigest: string;
  /** The registry it stands in; undefined between two. */
  readonly within: { readonly registry: string; readonly position: Position } | undefined;
}

const counted = Type.Integer({ minimum: 0, maximum: 0x7fff_ffff });

/** A cursor's fields, in order: what is behind it, then the registry it stands in and the position there. */
const Behind = Type.Tuple([counted, Type.String()]);
const Within = Type.Tuple([
  Type.String({ description: "registry" }),
  counted,
  Type.Union([Type.String(), Type.Null()]),
  Type.String({ pattern: `^(?:.{${DIGEST_LENGTH}})*$`, maxLength: 32 * DIGEST_LENGTH, description: "anchors" }),
  Type.Boolean({ description: "mayBegin" }),
  counted,
  Type.String({ description: "checkpoint" }),
]);
const Form = Compile(Type.Tuple([Behind, Type.Union([Within, Type.Null()])]));

/** The first byte of a cursor: another form of it takes another one. */
const VERSION = 1;

/** The cursor as an opaque page token that needs no encoding in a URL. */
export function encodeCursor({ done, doneDigest, within }: Cursor): string {
  const text = JSON.stringify([[done, doneDigest], within === undefined ? null : positionFields(within)]);
  return Buffer.concat([Buffer.from([VERSION]), Buffer.from(checksum(text), "base64url"), Buffer.from(text)]).toString(
    "base64url",
  );
}

/** @throws GatewayError 400 for a token that this gateway, or another one like it, did not make */
export function decodeCursor(token: string): Cursor {
  const bytes = Buffer.from(token, "base64url");
  const text = bytes.toString("utf8", 1 + CHECKSUM_BYTES);
  const sum = bytes.toString("base64url", 1, 1 + CHECKSUM_BYTES);
  // One cursor has one spelling, so that nothing is kept under two.
  const isWhole = bytes[0] === VERSION && sum === checksum(text) && bytes.toString("base64url") === token;
  if (!isWhole) throw notACursor();
  const fields = parseJson(text);
  if (!Form.Check(fields)) throw notACursor();
  const [[done, doneDigest], within] = fields;
  // Half a character cannot be asked for.
  if (within?.some((field) => typeof field === "string" && !field.isWellFormed()) === true) throw notACursor();
  return { done, doneDigest, within: within === null ? undefined : positionOf(within) };
}

/** The 400 for a page token that was not made here. */
function notACursor(): GatewayError {
  return new GatewayError(
    "invalid_page_token",
    "the pageToken is not one that the merged listing of this gateway gave out, or it was altered; " +
      "take nextPageToken as it is, or list again without pageToken",
  );
}

/** Against damage, not against forgery: a forged cursor can ask for nothing that a plain request can't. */
function checksum(text: string): string {
  return shortDigest(`registry-gateway cursor ${VERSION} ${text}`);
}

const CHECKSUM_BYTES = (DIGEST_LENGTH * 3) / 4;

function positionFields({ registry, position }: NonNullable<Cursor["within"]>): Static<typeof Within> {
  const { address, anchors, mayBegin, pages, checkpoint } = position;
  return [registry, address.pageSize ?? 0, address.pageToken ?? null, anchors.join(""), mayBegin, pages, checkpoint];
}

function positionOf(fields: Static<typeof Within>): NonNullable<Cursor["within"]> {
  const [registry, pageSize, pageToken, anchors, mayBegin, pages, checkpoint] = fields;
  return {
    registry,
    position: {
      address: { pageSize: pageSize === 0 ? undefined : pageSize, pageToken: pageToken ?? undefined },
      anchors: anchors.match(ANCHORS) ?? [],
      mayBegin,
      pages,
      checkpoint,
    },
  };
}

const ANCHORS = new RegExp(`.{${DIGEST_LENGTH}}`, "g");
