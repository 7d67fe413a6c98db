import type { IncomingHttpHeaders } from "node:http";
import type { Entry } from "../../sharing/entries.ts";
import { LRUCache } from "lru-cache";
import { parseList, serializeItem, serializeList, Token, type BareItem } from "structured-headers";
import type { Duration, Instant } from "../../clock.ts";
import { fieldValue, type Fields, OWN_NAME } from "../../fields.ts";
import type { CachePolicy, SkipReason } from "../resource.ts";
import { type DirectiveMap, parseDeltaSeconds, parseDirectives, type ResponseDirectives } from "./cache-control.ts";

/** Statuses whose meaning for a cache is implemented here, for `must-understand` (RFC 9111 §5.2.2.3). */
const UNDERSTOOD = new Set([
  200, 203, 204, 300, 301, 302, 303, 307, 308, 400, 401, 403, 404, 405, 410, 414, 500, 501, 502, 503, 504,
]);

/** What decides whether a response may be stored. */
export interface StorableInput {
  readonly status: number;
  /** Undefined when the policy does not honour the upstream. */
  readonly directives: ResponseDirectives | undefined;
  readonly policy: Pick<CachePolicy, "notFoundTtl" | "errors">;
  /** Whether the upstream stated a freshness lifetime. */
  readonly explicit: boolean;
  readonly varies: readonly string[] | "*";
  /** Whether the request carried the client's Authorization upstream. */
  readonly authorized: boolean;
}

/** Why HTTP or the policy forbids storing the response (RFC 9111 §3), or undefined when it may be stored. */
export function whyNotStorable(input: StorableInput): SkipReason | undefined {
  const { directives } = input;
  // First what makes it one client's: that it is not stored is no reason to give it to nobody else.
  if (directives?.private === true) return "private";
  if (input.varies === "*") return "vary";
  if (input.authorized && !isForAll(directives)) return "authorization";
  if (directives !== undefined && forbidsStoring(directives, input.status)) return "no-store";
  if (directives?.mustUnderstand === true && !UNDERSTOOD.has(input.status)) return "status";
  if (!isStoredStatus(input)) return "status";
  return undefined;
}

/**
 * Whether only the client that asked may get the answer: nobody else may be handed it, not even one that waits for it
 * (RFC 9111 §4: what cannot be reused cannot satisfy collapsed requests). `no-cache` answers one request each. That a
 * failure is not to be stored is no reason for everybody who waits to ask a failing upstream again, nor is it whose it is
 * said to be.
 *
 * @param isPersonal something of the client's went upstream, so that an answer may be about that client
 */
export function isExclusive(
  status: number,
  reason: SkipReason | undefined,
  directives: ResponseDirectives | undefined,
  isPersonal: boolean,
): boolean {
  const isOfOne = reason === "private" || reason === "vary" || reason === "authorization";
  if (isFailure(status)) return isOfOne && isPersonal;
  return isOfOne || reason === "no-store" || directives?.noCache === true;
}

/** §5.2.2.5; where `must-understand` is present and the status understood, `no-store` is ignored (§5.2.2.3). */
function forbidsStoring(directives: ResponseDirectives, status: number): boolean {
  return directives.noStore && !(directives.mustUnderstand && UNDERSTOOD.has(status));
}

/**
 * Whether a response may go to requests with Authorization and to requests without, whichever it was fetched for. RFC
 * 9111 §3.5 asks for one of these directives before the response to a request with Authorization is stored. Here it
 * holds the other way too: a registry that personalises without saying so means different things by its answers.
 */
export function isForAll(directives: ResponseDirectives | undefined): boolean {
  if (directives === undefined) return false;
  return directives.public || directives.mustRevalidate || directives.sMaxage !== undefined;
}

function isStoredStatus({ status, policy, explicit }: StorableInput): boolean {
  if (status === 200) return true;
  if (status === 404 && policy.notFoundTtl !== undefined) return true;
  // 206 and 304 are parts and updates of other responses; ranges are never asked for.
  if (policy.errors === "never" || status < 200 || status === 206 || status === 304) return false;
  return explicit;
}

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

/** Whether a request wants the bytes as they are (RFC 9111 §5.2.1.6). */
export function asksForNoTransform(headers: IncomingHttpHeaders): boolean {
  const value = headers["cache-control"];
  return value !== undefined && parseDirectives([value]).has("no-transform");
}

/** The same without what makes the upstream be asked though something usable is stored. */
export function withoutInsistence(asked: RequestDirectives): RequestDirectives {
  return asked === NOTHING_ASKED ? asked : { ...asked, noCache: false, maxAge: undefined, minFresh: undefined };
}

/** How `entry` may be used now (RFC 9111 §4, §4.2.4, §5.2.1). */
export function judgeReuse(entry: Entry, now: Instant, asked: RequestDirectives): Reuse {
  if (now < entry.freshUntil) return isFreshFor(entry, now, asked) ? "fresh" : "forced";
  if (asked.noCache || entry.staleProhibited) return "validate";
  if (asked.maxStale !== undefined)
    return now < entry.freshUntil + asked.maxStale && isYoungEnough(entry, now, asked) ? "max-stale" : "validate";
  // A client that states an age or a freshness does not want a stale response (§5.2.1.1).
  if (asked.maxAge !== undefined || asked.minFresh !== undefined) return "validate";
  return now < entry.revalidateUntil ? "while-revalidate" : "validate";
}

/**
 * Whether `entry` may be served after the upstream failed (RFC 5861 §4); a client may ask for a longer window. An old failure
 * stands in for no new one.
 */
export function isUsableOnError(entry: Entry, now: Instant, asked: RequestDirectives): boolean {
  if (isFailure(entry.status)) return false;
  if (now < entry.freshUntil) return true;
  if (entry.staleProhibited) return false;
  const byClient = entry.freshUntil + (asked.staleIfError ?? 0);
  return now < Math.max(entry.usableUntil, entry.revalidateUntil, byClient);
}

/** Answers that count as failures: they never take the place of something usable (RFC 5861 §4, and too many requests). */
export function isFailure(status: number): boolean {
  return status >= 500 || status === 429;
}

/** Whether an answer is fresh, and fresh enough for a request. */
export function isFreshFor(
  entry: Pick<Entry, "freshUntil" | "bornAt">,
  now: Instant,
  asked: RequestDirectives,
): boolean {
  if (now >= entry.freshUntil || asked.noCache || !isYoungEnough(entry, now, asked)) return false;
  return asked.minFresh === undefined || entry.freshUntil - now >= asked.minFresh;
}

function isYoungEnough(entry: Pick<Entry, "bornAt">, now: Instant, { maxAge }: RequestDirectives): boolean {
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

/** This cache's name in `Cache-Status`. */
const CACHE_NAME = new Token(OWN_NAME);

/** Why a request went forward (RFC 9211 §2.2). */
export type ForwardReason = "bypass" | "request" | "uri-miss" | "vary-miss" | "stale";

/** How this cache handled one request (RFC 9211 §2). */
export interface CacheStatus {
  /** Undefined: answered without going forward, a `hit` (§2.1). */
  readonly forward?: ForwardReason | undefined;
  /** What the upstream answered, where that is not the status of the answer (§2.3). */
  readonly forwardStatus?: number | undefined;
  /** Remaining freshness in whole seconds; negative when stale (§2.4). */
  readonly ttl?: number | undefined;
  readonly stored?: boolean | undefined;
  readonly collapsed?: boolean | undefined;
  /** Why, in one token (§2.8). */
  readonly detail?: string | undefined;
}

/** Formatted hits, by ttl and detail: every hit in the shared tier needs one, and there are few. */
const hits = new LRUCache<string, string>({ max: 1_000 });

/** The list member of this cache. */
export function formatCacheStatus(status: CacheStatus): string {
  const { forward, forwardStatus, collapsed, ttl, detail } = status;
  if (forward !== undefined || forwardStatus !== undefined || collapsed === true) return serializeStatus(status);
  const name = `${ttl ?? ""} ${detail ?? ""}`;
  let text = hits.get(name);
  if (text === undefined) {
    text = serializeStatus({ ttl, detail });
    hits.set(name, text);
  }
  return text;
}

function serializeStatus(status: CacheStatus): string {
  const parameters = new Map<string, BareItem>();
  if (status.forward === undefined) parameters.set("hit", true);
  else parameters.set("fwd", new Token(status.forward));
  if (status.forwardStatus !== undefined) parameters.set("fwd-status", status.forwardStatus);
  if (status.ttl !== undefined) parameters.set("ttl", status.ttl);
  if (status.stored === true) parameters.set("stored", true);
  if (status.collapsed === true) parameters.set("collapsed", true);
  if (status.detail !== undefined) parameters.set("detail", new Token(status.detail));
  return serializeItem([CACHE_NAME, parameters]);
}

/**
 * What other caches between here and the origin wrote, in canonical form, for ours to be appended to (RFC 9211 §2);
 * undefined when there is nothing, or nothing that could be parsed together with ours.
 */
export function upstreamCacheStatus(fields: Fields): string | undefined {
  const value = fieldValue(fields, "cache-status");
  if (value === undefined) return undefined;
  try {
    return serializeList(parseList(value)) || undefined;
  } catch {
    return undefined;
  }
}
