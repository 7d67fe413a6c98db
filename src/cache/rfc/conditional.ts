import { createHash } from "node:crypto";
import type { Entry } from "../../sharing/entries.ts";
import type { IncomingHttpHeaders } from "node:http";
import { type Fields, fieldValue, filterFields } from "../../fields.ts";
import { formatHttpDate, parseHttpDate } from "./freshness.ts";

/** What a client's conditions are compared with. */
export interface Validators {
  /** Of the representation in the coding that would be sent. */
  readonly etag: string | undefined;
  readonly lastModified: string | undefined;
  readonly date: string | undefined;
}

/** Fields of a 304 (RFC 9110 §15.4.5); the rest describes a body that is not there. */
const NOT_MODIFIED_FIELDS = new Set([
  "age",
  "cache-control",
  "cache-status",
  "cdn-cache-control",
  "content-location",
  "date",
  "etag",
  "expires",
  "vary",
]);

/** Whether the request has conditions that a cache evaluates (RFC 9111 §4.3.2). */
export function isConditional(headers: IncomingHttpHeaders): boolean {
  return headers["if-none-match"] !== undefined || headers["if-modified-since"] !== undefined;
}

/**
 * Whether a stored 200 may be answered by 304. `If-None-Match` takes precedence (RFC 9110 §13.2.2); tags are compared
 * weakly (§13.1.2); `If-Modified-Since` is compared with `Last-Modified`, else with `Date` (RFC 9111 §4.3.2).
 */
export function isNotModified(headers: IncomingHttpHeaders, validators: Validators, wallNow: number): boolean {
  const tags = headers["if-none-match"];
  if (tags !== undefined) return matchesAny(tags, validators.etag);
  const since = headers["if-modified-since"];
  if (since === undefined) return false;
  const asked = parseHttpDate(since, wallNow);
  const changed = parseHttpDate(validators.lastModified ?? validators.date ?? "", wallNow);
  return asked !== undefined && changed !== undefined && changed <= asked;
}

/** The fields of `fields` that a 304 carries. */
export function notModifiedFields(fields: Fields): string[] {
  return filterFields(fields, (name) => NOT_MODIFIED_FIELDS.has(name));
}

/** Of a list; a backslash is a character like others in them (RFC 9110 §8.8.3). */
const TAGS = /(?:W\/)?"[^"]*"/g;

/** `*` matches anything that is stored (RFC 9110 §13.1.2). */
function matchesAny(tags: string, etag: string | undefined): boolean {
  if (etag !== undefined && tags === etag) return true;
  if (tags.trim() === "*") return true;
  return etag !== undefined && (tags.match(TAGS) ?? []).some((tag) => weakMatch(tag, etag));
}

/** A strong entity-tag from the bytes of a body (RFC 9110 §8.8.3): equal bytes, equal tag, in every replica. */
export function makeEntityTag(body: Buffer): string {
  return `"${createHash("sha256").update(body).digest("base64url").slice(0, 27)}"`;
}

/** Whether two tags match by weak comparison (RFC 9110 §8.8.3.2). */
export function weakMatch(a: string, b: string): boolean {
  return opaque(a) === opaque(b);
}

/** The tag of the same representation in content coding `coding`: `"x"` becomes `"x-gzip"`. */
export function codedEntityTag(tag: string, coding: string): string {
  return tag.endsWith('"') ? `${tag.slice(0, -1)}-${coding}"` : `${tag}-${coding}`;
}

function opaque(tag: string): string {
  return tag.startsWith("W/") ? tag.slice(2) : tag;
}

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
  // A strong tag alone is that of some body, and of this one, which came without, nothing says so.
  if (modified === undefined) return tag === undefined || tag.startsWith("W/");
  return storedModified === undefined || modified === storedModified;
}

/** The stored fields updated by those of a 304 (RFC 9111 §3.2). `receivedWall` dates a 304 that has no `Date`. */
export function freshen(entry: Entry, notModified: Fields, receivedWall: number): string[] {
  // A 304 knows nothing of the body that is stored: where that was decoded, its tag is a weak one.
  const keepsTag = !entry.madeEtag && fieldValue(entry.fields, "etag")?.startsWith("W/") === true;
  const update = filterFields(notModified, (name) => !KEPT_ON_UPDATE.has(name) && !(keepsTag && name === "etag"));
  if (fieldValue(update, "date") === undefined) update.push("date", formatHttpDate(receivedWall));
  const replaced = new Set(update.filter((_, i) => i % 2 === 0));
  const kept = filterFields(entry.fields, (name) => {
    if (name === "etag" && entry.madeEtag) return false;
    return !replaced.has(name) && !OF_ONE_TRANSFER.has(name);
  });
  return kept.concat(update);
}
