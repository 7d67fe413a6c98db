import { instrumentBytes, type ListedPage } from "../bodies/page.ts";
import { makeEntityTag } from "../cache/conditional.ts";
import type { Entry } from "../cache/types.ts";
import type { Duration } from "../clock.ts";
import { fieldsOfReplacedBody, filterFields } from "../fields.ts";
import { isObject } from "../json.ts";

/**
 * Says in one token why a page goes to the client that asked and is not stored: it is none, or would have clients ask for the
 * same page again and again.
 *
 * @param pageToken the page's own, percent-encoded
 */
export function whyNoPage(json: unknown, pageToken: string | undefined): string | undefined {
  if (!isObject(json) || !Array.isArray(json.instruments)) return "no-instruments";
  // Registries read a `+` as itself or as a space.
  const own = [pageToken, pageToken?.replaceAll("+", " ")].map((token) => token && decoded(token));
  return own.some((token) => token && token === json.nextPageToken) ? "repeated-token" : undefined;
}

/** Whether a page lists other instruments than before, or goes on elsewhere. Supplies that move are no change. */
export function hasChanged(before: unknown, now: unknown): boolean {
  return contentsOf(before) !== contentsOf(now);
}

function contentsOf(page: unknown): string {
  if (!isObject(page) || !Array.isArray(page.instruments)) return "";
  const ids = (page.instruments as readonly unknown[]).map((each) => (isObject(each) ? each.id : undefined));
  return JSON.stringify([page.nextPageToken, ids]);
}

/** Decodes a token of a query; one that is not well encoded stays as it is. */
function decoded(token: string): string {
  try {
    return decodeURIComponent(token);
  } catch {
    return token;
  }
}

/** Whether a field of a page holds of its instruments, too: its lifetime does not. */
function isOfInstruments(name: string): boolean {
  return name !== "cache-control" && name !== "expires";
}

/**
 * Cuts the instrument `id` out of a page, as an answer of its own with the age of the page; undefined: it does not stand there.
 *
 * @param ttl age up to which it is fresh
 */
export function cutInstrument(page: Entry, listed: ListedPage, id: string, ttl: Duration): Entry | undefined {
  const instrument = listed.instruments.find((each) => each.id === id);
  if (instrument === undefined) return undefined;
  const body = instrumentBytes(listed, instrument);
  const freshUntil = Math.min(page.freshUntil, page.bornAt + ttl);
  return {
    ...page,
    fields: [...filterFields(fieldsOfReplacedBody(page.fields), isOfInstruments), "content-type", "application/json"],
    body,
    etag: makeEntityTag(body),
    validators: undefined,
    freshUntil,
    refreshUntil: freshUntil,
    errorUntil: freshUntil,
  };
}
