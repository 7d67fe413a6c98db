import { Type, type Static } from "typebox";
import { Compile } from "typebox/compile";
import { GatewayError } from "../errors.ts";
import { digestOf } from "../digest.ts";
import { parseJson } from "../json.ts";
import type { Position } from "./position.ts";

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
