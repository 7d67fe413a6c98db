import { instrumentBytes, type ListedPage } from "../bodies/page.ts";
import { makeEntityTag } from "../cache/conditional.ts";
import type { Entry } from "../cache/types.ts";
import type { Duration } from "../clock.ts";
import { fieldsOfReplacedBody } from "../fields.ts";
import { isObject } from "../json.ts";

/**
 * Why a page goes to the client that asked and to nobody else, in one token: what is no page, or would have a client ask for
 * the same page again and again.
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

/** The token that a query means; as it is where it is not well encoded. */
function decoded(token: string): string {
  try {
    return decodeURIComponent(token);
  } catch {
    return token;
  }
}

/**
 * The instrument `id` as an answer of its own, with the age of the page that it stands on; undefined where it does not stand
 * there.
 *
 * @param ttl how old it may be
 */
export function cutInstrument(page: Entry, listed: ListedPage, id: string, ttl: Duration): Entry | undefined {
  const instrument = listed.instruments.find((each) => each.id === id);
  if (instrument === undefined) return undefined;
  const body = instrumentBytes(listed, instrument);
  const freshUntil = Math.min(page.freshUntil, page.bornAt + ttl);
  return {
    ...page,
    fields: [...fieldsOfReplacedBody(page.fields), "content-type", "application/json"],
    body,
    etag: makeEntityTag(body),
    validators: undefined,
    freshUntil,
    refreshUntil: freshUntil,
    errorUntil: freshUntil,
  };
}
