import type { IncomingHttpHeaders } from "node:http";
import { filterFields, type Fields } from "../../fields.ts";
import { splitList } from "./cache-control.ts";
import { weakMatch } from "./entity-tag.ts";
import { parseHttpDate } from "./http-date.ts";

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

/** `*` matches anything that is stored (RFC 9110 §13.1.2). */
function matchesAny(tags: string, etag: string | undefined): boolean {
  if (etag !== undefined && tags === etag) return true;
  const listed = splitList(tags);
  if (listed.length === 1 && listed[0] === "*") return true;
  return etag !== undefined && listed.some((tag) => weakMatch(tag, etag));
}
