import type { Duration } from "../clock.ts";
import { type Fields, fieldValue, fieldValues, httpDate } from "../fields.ts";
import type { CachePolicy, Entry, Fetched } from "./types.ts";

/** RFC 9111 §1.2.2: the largest delta-seconds that a cache has to represent; anything above counts as it. */
const MAX_SECONDS = 2 ** 31;

/**
 * Directives of a `Cache-Control` by lower-case name, each with its argument in ms: 0 where it has none or a malformed one, the
 * shortest where it comes twice (RFC 9111 §4.2.1: what is invalid is better taken as stale).
 */
export type Directives = ReadonlyMap<string, Duration>;

/** A name; an argument, quoted or plain; what else there is up to the comma. A quote that never closes hides nothing. */
const DIRECTIVE = /([!#$%&'*+.^_`|~\w-]+)(?:=(?:"((?:[^"\\]|\\.)*)"|([^",]*)))?[^,]*/g;

/** Reads a `Cache-Control` (RFC 9111 §5.2). */
export function directivesOf(value: string): Directives {
  const directives = new Map<string, Duration>();
  for (const [, name, quoted, plain] of value.matchAll(DIRECTIVE)) {
    const key = name!.toLowerCase();
    const argument = secondsOf(quoted ?? plain?.trimEnd()) ?? 0;
    directives.set(key, Math.min(argument, directives.get(key) ?? Infinity));
  }
  return directives;
}

/** Delta-seconds in ms (RFC 9111 §1.2.2); undefined for anything else. */
function secondsOf(text: string | undefined): Duration | undefined {
  return text !== undefined && /^\d+$/.test(text) ? Math.min(Number(text), MAX_SECONDS) * 1_000 : undefined;
}

/** Reads what a registry says about keeping an answer; nothing, where the policy does not honor it. */
export function directivesFor({ fields }: Pick<Fetched, "fields">, policy: CachePolicy): Directives {
  return directivesOf(policy.honorUpstream ? (fieldValue(fields, "cache-control") ?? "") : "");
}

/** Instants of an answer, as an entry has them. */
export interface Freshness extends Pick<Entry, "bornAt" | "freshUntil" | "refreshUntil" | "errorUntil"> {
  /** Whether it has a lifetime at all: false where the registry states none, and the configured one is 0. */
  readonly isKnown: boolean;
}

/** All that freshness depends on besides the answer. */
export interface FreshnessContext {
  readonly policy: CachePolicy;
  readonly directives: Directives;
  /** Unix ms at receipt: for an `Expires` without a `Date`. */
  readonly wallNow: number;
  /** Share of a configured ttl to take off: 0 to 0.1. */
  readonly shortening: number;
}

/**
 * Decides until when an answer is fresh, and until when it may be served stale in which case. What the registry says counts
 * from the answer's birth; a configured ttl is ours, and counts from its receipt.
 */
export function freshnessOf(fetched: Fetched, context: FreshnessContext): Freshness {
  const { policy, directives } = context;
  const { receivedAt, status, fields } = fetched;
  const bornAt = receivedAt - ageOf(fields);
  const stated = policy.honorUpstream ? statedLifetime(fields, context) : undefined;
  const configured = (status === 404 ? policy.notFoundTtl : policy.ttl) ?? 0;
  const expiry =
    stated === undefined
      ? receivedAt + configured * (1 - context.shortening)
      : Math.min(bornAt + stated, receivedAt + policy.maxTtl);
  // RFC 9111 §5.2.2.4: it is not served without asking the registry.
  const freshUntil = directives.has("no-cache") ? Math.min(expiry, bornAt) : expiry;
  const isStaleOnArrival = freshUntil <= receivedAt;
  const { staleWhileRevalidate, staleIfError } = policy;
  const isError = status !== 200;
  // The registry means what is stale on arrival to be asked for each time: the configured window does not apply.
  const refreshWindow = windowOf(
    "stale-while-revalidate",
    isError || isStaleOnArrival ? 0 : staleWhileRevalidate,
    context,
  );
  const errorWindow = windowOf("stale-if-error", isError ? 0 : staleIfError, context);
  return {
    bornAt,
    freshUntil,
    refreshUntil: freshUntil + refreshWindow,
    errorUntil: freshUntil + Math.max(refreshWindow, errorWindow),
    isKnown: stated !== undefined || configured > 0 || directives.has("no-cache"),
  };
}

/** The lifetime that the registry states (RFC 9111 §4.2.1): `s-maxage`, else `max-age`, else `Expires` less `Date`. */
function statedLifetime(fields: Fields, { directives, wallNow }: FreshnessContext): Duration | undefined {
  const seconds = directives.get("s-maxage") ?? directives.get("max-age");
  if (seconds !== undefined) return seconds;
  const expires = fieldValues(fields, "expires");
  if (expires.length === 0) return undefined;
  // RFC 9111 §5.3: an invalid Expires is in the past; of several the earliest counts.
  const at = Math.min(...expires.map((text) => httpDate(text) ?? -Infinity));
  return Math.max(0, at - (httpDate(fieldValue(fields, "date")) ?? wallNow));
}

/**
 * A window of staleness (RFC 5861 §3, §4): the registry's word where there is one, `maxTtl` at most. None under
 * `must-revalidate`, `proxy-revalidate` and `no-cache` (RFC 9111 §4.2.4); `s-maxage` lets only a stated one be (§5.2.2.10).
 */
function windowOf(name: string, configured: Duration, { directives, policy }: FreshnessContext): Duration {
  if (["must-revalidate", "proxy-revalidate", "no-cache"].some((directive) => directives.has(directive))) return 0;
  const stated = directives.get(name);
  if (stated !== undefined) return Math.min(stated, policy.maxTtl);
  return directives.has("s-maxage") ? 0 : configured;
}

/** The `Age` of an answer in ms; 0 where it is absent or no number (RFC 9111 §5.1: of a list the first member counts). */
function ageOf(fields: Fields): Duration {
  return secondsOf(fieldValue(fields, "age")?.split(",", 1)[0]?.trim()) ?? 0;
}
