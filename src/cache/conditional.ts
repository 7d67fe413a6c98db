import { createHash } from "node:crypto";
import type { IncomingHttpHeaders } from "node:http";
import { type Fields, fieldValue, filterFields, httpDate } from "../fields.ts";
import type { Condition, Entry, Fetched } from "./types.ts";

const TAG = /^(?:W\/)?"[^"]*"$/;
/** Tags of a list; a backslash is a character like others in them (RFC 9110 §8.8.3). */
const TAGS = /(?:W\/)?"[^"]*"/g;

/** Makes a strong entity tag of the bytes of a body (RFC 9110 §8.8.3): equal bytes, equal tag, at every replica. */
export function makeEntityTag(body: Buffer): string {
  return `"${createHash("sha256").update(body).digest("base64url").slice(0, 27)}"`;
}

/** The registry's entity tag; undefined where it gave none, or a malformed one. */
export function entityTagOf(fields: Fields): string | undefined {
  const tag = fieldValue(fields, "etag");
  return tag !== undefined && TAG.test(tag) ? tag : undefined;
}

/** Makes the condition by which an answer is asked for anew (RFC 9111 §4.3.1); undefined where it came without validators. */
export function conditionOf({ fields, node }: Pick<Fetched, "fields" | "node">): Condition | undefined {
  const tag = entityTagOf(fields);
  const modified = fieldValue(fields, "last-modified");
  const condition = [
    ...(tag === undefined ? [] : ["if-none-match", tag]),
    ...(httpDate(modified) === undefined ? [] : ["if-modified-since", modified!]),
  ];
  return condition.length === 0 ? undefined : { node, fields: condition };
}

/** Fields that a 304 does not change (RFC 9111 §3.2): they describe the stored bytes. */
const OF_THE_BODY: ReadonlySet<string> = new Set([
  "content-digest",
  "content-disposition",
  "content-language",
  "content-length",
  "content-type",
  "digest",
]);

/** Stored fields that a 304 ends, with or without new ones: they speak of one transfer. */
const OF_ONE_TRANSFER: ReadonlySet<string> = new Set(["age", "date"]);

/**
 * Renews the stored answer by a 304 (RFC 9111 §4.3.4); undefined where the 304 speaks of another answer.
 *
 * @param stored the entry that the condition was made of
 */
export function renewed({ body, status, fields, validators }: Entry, notModified: Fetched): Fetched | undefined {
  const tag = fieldValue(validators?.fields ?? [], "if-none-match");
  const newTag = entityTagOf(notModified.fields);
  if (tag !== undefined && newTag !== undefined && opaque(tag) !== opaque(newTag)) return undefined;
  // The tag of what is stored stays: a weak one may stand for bytes that were decoded on their way.
  const isKeptOut = (name: string): boolean => OF_THE_BODY.has(name) || (name === "etag" && tag !== undefined);
  const update = filterFields(notModified.fields, (name) => !isKeptOut(name));
  const replaced = new Set(update.filter((_text, i) => i % 2 === 0));
  const kept = filterFields(fields, (name) => !replaced.has(name) && !OF_ONE_TRANSFER.has(name));
  const tagged = tag === undefined ? [] : ["etag", tag];
  return { ...notModified, status, body, fields: [...kept, ...update, ...tagged] };
}

/**
 * Finds the tag of the form of an answer that a client has already, as its conditions say; undefined: it has none.
 * `If-None-Match` comes before `If-Modified-Since` (RFC 9110 §13.2.2), tags are compared weakly (§13.1.2), and a date with
 * `Last-Modified`, else with `Date` (RFC 9111 §4.3.2).
 *
 * @param tags of the forms that the answer has, the one that would be sent first
 */
export function matchedTag(headers: IncomingHttpHeaders, tags: readonly string[], fields: Fields): string | undefined {
  const asked = headers["if-none-match"];
  if (asked !== undefined) {
    if (asked.trim() === "*") return tags[0];
    const named = new Set((asked.match(TAGS) ?? []).map(opaque));
    return tags.find((tag) => tag !== "" && named.has(opaque(tag)));
  }
  const since = httpDate(headers["if-modified-since"]);
  if (since === undefined) return undefined;
  const changed = httpDate(fieldValue(fields, "last-modified") ?? fieldValue(fields, "date"));
  return changed !== undefined && changed <= since ? tags[0] : undefined;
}

function opaque(tag: string): string {
  return tag.startsWith("W/") ? tag.slice(2) : tag;
}
