import { fieldValue, filterFields, type Fields } from "../../fields.ts";
import { weakMatch } from "./entity-tag.ts";
import type { Entry } from "../entry.ts";
import { formatHttpDate, parseHttpDate } from "./http-date.ts";

/**
 * Fields of a 304 that leave the stored ones alone (RFC 9111 §3.2): they describe the stored bytes, which were checked
 * and decoded as what they were received as.
 */
const KEPT_ON_UPDATE = new Set([
  "content-digest",
  "content-encoding",
  "content-length",
  "content-md5",
  "content-range",
  "content-type",
  "digest",
  "repr-digest",
  "transfer-encoding",
]);

/** Fields that speak of one transfer only: those of the earlier one end with it. */
const OF_ONE_TRANSFER = new Set(["age", "cache-status"]);

/** The condition to send for an entry (RFC 9111 §4.3.1); empty when the upstream gave no validator. */
export function conditionalFields(entry: Entry): string[] {
  const fields: string[] = [];
  const etag = entry.madeEtag ? undefined : fieldValue(entry.fields, "etag");
  if (etag !== undefined) fields.push("if-none-match", etag);
  const lastModified = fieldValue(entry.fields, "last-modified");
  if (lastModified !== undefined && parseHttpDate(lastModified, 0) !== undefined) {
    fields.push("if-modified-since", lastModified);
  }
  return fields;
}

/**
 * Whether a 304 speaks of `entry` (RFC 9111 §4.3.4): its entity-tag matches, or without one its date does. A 304 with no
 * validator speaks of the one entry the condition named.
 */
export function confirms(notModified: Fields, entry: Entry): boolean {
  const tag = fieldValue(notModified, "etag");
  const storedTag = entry.madeEtag ? undefined : fieldValue(entry.fields, "etag");
  if (tag !== undefined && storedTag !== undefined) return weakMatch(tag, storedTag);
  const modified = fieldValue(notModified, "last-modified");
  const storedModified = fieldValue(entry.fields, "last-modified");
  return modified === undefined || storedModified === undefined || modified === storedModified;
}

/** The stored fields updated by those of a 304 (RFC 9111 §3.2). `receivedWall` dates a 304 that has no `Date`. */
export function freshen(entry: Entry, notModified: Fields, receivedWall: number): string[] {
  const update = filterFields(notModified, (name) => !KEPT_ON_UPDATE.has(name));
  if (fieldValue(update, "date") === undefined) update.push("date", formatHttpDate(receivedWall));
  const replaced = new Set(update.filter((_, i) => i % 2 === 0));
  const kept = filterFields(entry.fields, (name) => {
    if (name === "etag" && entry.madeEtag) return false;
    return !replaced.has(name) && !OF_ONE_TRANSFER.has(name);
  });
  return kept.concat(update);
}
