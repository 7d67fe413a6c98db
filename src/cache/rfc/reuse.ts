import type { IncomingHttpHeaders } from "node:http";
import type { Duration, Instant } from "../../clock.ts";
import { parseDeltaSeconds, parseDirectives, type DirectiveMap } from "./cache-control.ts";
import type { Entry } from "../entry.ts";

/**
 * What a request asks of a cache (RFC 9111 §5.2.1, RFC 5861 §4). Its `no-store` is left out: an answer holds nothing of
 * the request, and one client's wish to leave no trace would be a way to call the upstream without end.
 */
export interface RequestDirectives {
  readonly noCache: boolean;
  readonly onlyIfCached: boolean;
  readonly maxAge: Duration | undefined;
  readonly minFresh: Duration | undefined;
  /** Infinity for `max-stale` without argument. */
  readonly maxStale: Duration | undefined;
  readonly staleIfError: Duration | undefined;
}

/** What counts where the policy does not honour clients. */
export const NOTHING_ASKED: RequestDirectives = {
  noCache: false,
  onlyIfCached: false,
  maxAge: undefined,
  minFresh: undefined,
  maxStale: undefined,
  staleIfError: undefined,
};

/** How a stored entry may be used for a request. */
export type Reuse =
  | "fresh"
  /** Served stale, refreshed in the background (RFC 5861 §3). */
  | "while-revalidate"
  /** Served stale because the client takes it (RFC 9111 §5.2.1.2). */
  | "max-stale"
  /** Fresh, but the client asks for a newer one. */
  | "forced"
  /** Not without asking the upstream. */
  | "validate";

/** The directives of a request; `Pragma` counts only without `Cache-Control` (RFC 9111 §5.4). */
export function requestDirectives(headers: IncomingHttpHeaders): RequestDirectives {
  const value = headers["cache-control"] ?? (headers.pragma === undefined ? undefined : pragma(headers.pragma));
  if (value === undefined) return NOTHING_ASKED;
  const directives = parseDirectives([value]);
  return {
    noCache: directives.has("no-cache"),
    onlyIfCached: directives.has("only-if-cached"),
    maxAge: shortestAsked(directives, "max-age"),
    // The strictest of several is the longest here.
    minFresh: directives.get("min-fresh")?.reduce((most, text) => Math.max(most, seconds(text) ?? 0), 0),
    maxStale: maxStale(directives),
    staleIfError: shortestAsked(directives, "stale-if-error"),
  };
}

/** The same without what makes the upstream be asked though something usable is stored. */
export function withoutInsistence(asked: RequestDirectives): RequestDirectives {
  return asked === NOTHING_ASKED ? asked : { ...asked, noCache: false, maxAge: undefined, minFresh: undefined };
}

/** How `entry` may be used now (RFC 9111 §4, §4.2.4, §5.2.1). */
export function judgeReuse(entry: Entry, now: Instant, asked: RequestDirectives): Reuse {
  if (now < entry.freshUntil) return satisfies(entry, now, asked) ? "fresh" : "forced";
  if (asked.noCache || entry.staleProhibited) return "validate";
  if (asked.maxStale !== undefined)
    return now < entry.freshUntil + asked.maxStale && isYoungEnough(entry, now, asked) ? "max-stale" : "validate";
  // A client that states an age or a freshness does not want a stale response (§5.2.1.1).
  if (asked.maxAge !== undefined || asked.minFresh !== undefined) return "validate";
  return now < entry.revalidateUntil ? "while-revalidate" : "validate";
}

/** Whether `entry` may be served after the upstream failed (RFC 5861 §4); a client may ask for a longer window. */
export function isUsableOnError(entry: Entry, now: Instant, asked: RequestDirectives): boolean {
  if (now < entry.freshUntil) return true;
  if (entry.staleProhibited) return false;
  const byClient = entry.freshUntil + (asked.staleIfError ?? 0);
  return now < Math.max(entry.usableUntil, entry.revalidateUntil, byClient);
}

/** Answers that count as failures: they never take the place of something usable (RFC 5861 §4, and too many requests). */
export function isFailure(status: number): boolean {
  return status >= 500 || status === 429;
}

function satisfies(entry: Entry, now: Instant, asked: RequestDirectives): boolean {
  if (asked.noCache || !isYoungEnough(entry, now, asked)) return false;
  return asked.minFresh === undefined || entry.freshUntil - now >= asked.minFresh;
}

function isYoungEnough(entry: Entry, now: Instant, { maxAge }: RequestDirectives): boolean {
  return maxAge === undefined || now - entry.bornAt <= maxAge;
}

function pragma(value: string | readonly string[]): string {
  return typeof value === "string" ? value : value.join(",");
}

/** Undefined when absent or malformed: what a client garbled it did not ask for. */
function shortestAsked(directives: DirectiveMap, name: string): Duration | undefined {
  const values =
    directives
      .get(name)
      ?.map(seconds)
      .filter((value) => value !== undefined) ?? [];
  return values.length === 0 ? undefined : Math.min(...values);
}

function maxStale(directives: DirectiveMap): Duration | undefined {
  const values = directives.get("max-stale");
  if (values === undefined) return undefined;
  const allowed = values.map((text) => (text === undefined ? Infinity : (seconds(text) ?? 0)));
  return Math.min(...allowed);
}

function seconds(text: string | undefined): Duration | undefined {
  return text === undefined ? undefined : parseDeltaSeconds(text);
}
