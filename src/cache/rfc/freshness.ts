import type { Duration, Instant } from "../../clock.ts";
import type { Entry, EntryOrigins } from "../../sharing/entries.ts";
import { type Fields, fieldValue, fieldValues } from "../../fields.ts";
import type { CachePolicy } from "../resource.ts";
import { type Governing, parseDeltaSeconds } from "./cache-control.ts";

/** A promise about time and who made it: a header field with its directive, or a configuration key. */
interface Promised {
  readonly value: Duration;
  readonly origin: string;
}

/** The times of a response, as instants of the gateway's clock. */
export interface Freshness extends Pick<
  Entry,
  "bornAt" | "freshUntil" | "revalidateUntil" | "usableUntil" | "staleProhibited" | "lifetime"
> {
  readonly origins: EntryOrigins;
  /** Whether the upstream itself stated how long this is fresh. */
  readonly explicit: boolean;
  /** False when the upstream says nothing about reuse and the configured TTL is 0. */
  readonly known: boolean;
}

export interface FreshnessInput {
  readonly status: number;
  readonly fields: Fields;
  /** Undefined when the policy does not honour the upstream. */
  readonly governing: Governing | undefined;
  readonly policy: CachePolicy;
  readonly receipt: Receipt;
  /** How much of a configured TTL to take off: 0 to 0.1. */
  readonly shortening: number;
  /** Bounds the lifetime besides the policy. */
  readonly maxLifetime?: Duration | undefined;
}

/** All instants of a response: how long it is fresh, and how long it may be used stale in which case. */
export function judgeFreshness(input: FreshnessInput): Freshness {
  const { governing, policy, receipt, fields } = input;
  const bornAt = receipt.receivedAt - correctedInitialAge(fields, receipt);
  const explicit = governing === undefined ? undefined : explicitLifetime(governing, fields, receipt.receivedWall);
  const lifetime = explicit ?? configuredLifetime(input.status, policy);
  // Explicit freshness counts from birth. A configured TTL is ours and counts from receipt: an upstream whose clock is
  // slow must not make its answers old before they are used.
  const expiry =
    explicit === undefined
      ? receipt.receivedAt + lifetime.value * (1 - input.shortening)
      : Math.min(bornAt + lifetime.value, receipt.receivedAt + policy.maxTtl);
  const bounded = Math.min(expiry, receipt.receivedAt + (input.maxLifetime ?? Infinity));
  const freshUntil = governing?.directives.noCache === true ? Math.min(bounded, bornAt) : bounded;
  const staleProhibited = governing !== undefined && prohibitsStale(governing);
  const swr = revalidateWindow(input, freshUntil);
  const sie = errorWindow(input);
  return {
    bornAt,
    freshUntil,
    revalidateUntil: staleProhibited ? freshUntil : freshUntil + swr.value,
    usableUntil: staleProhibited ? freshUntil : freshUntil + sie.value,
    staleProhibited,
    lifetime: lifetime.value,
    explicit: explicit !== undefined,
    known:
      explicit !== undefined ||
      lifetime.value > 0 ||
      (policy.ttl !== undefined && governing?.directives.noCache === true),
    origins: { lifetime: lifetime.origin, staleWhileRevalidate: swr.origin, staleIfError: sie.origin },
  };
}

/**
 * The freshness lifetime the upstream states (RFC 9111 §4.2.1): `s-maxage`, else `max-age`, else `Expires` minus `Date`;
 * `Expires` counts only where no targeted field governs. Never negative; never guessed.
 */
function explicitLifetime(governing: Governing, fields: Fields, receivedWall: number): Promised | undefined {
  const { field, directives } = governing;
  if (directives.sMaxage !== undefined) return { value: directives.sMaxage, origin: `${field}: s-maxage` };
  if (directives.maxAge !== undefined) return { value: directives.maxAge, origin: `${field}: max-age` };
  if (field !== "cache-control") return undefined;
  const expires = fieldValues(fields, "expires");
  if (expires.length === 0) return undefined;
  const date = dateValue(fields, receivedWall) ?? receivedWall;
  // RFC 9111 §5.3: an invalid Expires is in the past. Of several the earliest is never fresher than the first.
  const instants = expires.map((text) => parseHttpDate(text, receivedWall) ?? -Infinity);
  return { value: Math.max(0, Math.min(...instants) - date), origin: "expires" };
}

function configuredLifetime(status: number, policy: CachePolicy): Promised {
  if (status !== 404) return { value: policy.ttl ?? 0, origin: "cache.ttl" };
  return { value: policy.notFoundTtl ?? 0, origin: "cache.ttl.notFound" };
}

/**
 * Whether staleness is forbidden altogether (RFC 9111 §4.2.4): must-revalidate (§5.2.2.2), proxy-revalidate (§5.2.2.8),
 * s-maxage, which implies it (§5.2.2.10), and no-cache (§5.2.2.4).
 */
function prohibitsStale({ directives }: Governing): boolean {
  return (
    directives.mustRevalidate ||
    directives.proxyRevalidate ||
    directives.sMaxage !== undefined ||
    directives.noCache === true
  );
}

/**
 * RFC 5861 §3. What is stale on arrival was meant to be asked for every time, so configuration alone does not let it be
 * served unasked; nor an error, which should not outlive its few seconds.
 */
function revalidateWindow(input: FreshnessInput, freshUntil: Instant): Promised {
  const { policy, governing, status, receipt } = input;
  const configured = { value: policy.staleWhileRevalidate, origin: "cache.staleWhileRevalidate" };
  const stated = governing?.directives.staleWhileRevalidate;
  if (stated !== undefined) {
    return boundedWindow({ value: stated, origin: `${governing!.field}: stale-while-revalidate` }, configured, policy);
  }
  return status === 200 && freshUntil > receipt.receivedAt ? configured : { ...configured, value: 0 };
}

/** RFC 5861 §4. */
function errorWindow({ policy, governing, status }: FreshnessInput): Promised {
  const configured = { value: policy.staleIfError, origin: "cache.staleIfError" };
  const stated = governing?.directives.staleIfError;
  if (stated !== undefined) {
    return boundedWindow({ value: stated, origin: `${governing!.field}: stale-if-error` }, configured, policy);
  }
  return status === 200 ? configured : { ...configured, value: 0 };
}

/**
 * The window that an upstream states, no longer than the configured one and `maxTtl`: it may ask for less staleness than
 * the operator allows, never for more.
 */
function boundedWindow(stated: Promised, configured: Promised, { maxTtl }: CachePolicy): Promised {
  const bounds = [configured, { value: maxTtl, origin: "cache.maxTtl" }];
  return bounds.reduce((least, bound) => (bound.value < least.value ? bound : least), stated);
}

/** When a response was asked for and received on the gateway's clock, and what the wall clock said at receipt. */
export interface Receipt {
  readonly requestedAt: Instant;
  readonly receivedAt: Instant;
  readonly receivedWall: number;
}

/** Seconds in `Date` are whole: below this, a difference is rounding and transit and says nothing about age. */
const DATE_ROUNDING = 999;

/**
 * The `Age` of a response in milliseconds; 0 when absent or not a number (RFC 9111 §5.1: of a list the first member
 * counts, what is invalid is ignored).
 */
export function ageValue(fields: Fields): Duration {
  const first = fieldValue(fields, "age")?.split(",")[0]?.trim() ?? "";
  return parseDeltaSeconds(first) ?? 0;
}

/** The response's `Date` in milliseconds since the Unix epoch; undefined when absent, repeated or malformed. */
export function dateValue(fields: Fields, wallNow: number): number | undefined {
  const values = fieldValues(fields, "date");
  return values.length === 1 ? parseHttpDate(values[0]!, wallNow) : undefined;
}

/**
 * How old a response was when it was received (RFC 9111 §4.2.3, corrected_initial_age): the larger of what the clocks
 * show and what `Age` says plus the time the answer took.
 */
export function correctedInitialAge(fields: Fields, receipt: Receipt): Duration {
  const responseDelay = Math.max(0, receipt.receivedAt - receipt.requestedAt);
  return Math.max(apparentAge(fields, receipt.receivedWall), ageValue(fields) + responseDelay);
}

/**
 * The earliest instant at which a response can have been made: it was asked for then, and older by its `Age` if a cache
 * answered. `Date` is left out: the clock of a registry is nothing to compare its own answers by.
 */
export function madeAt(fields: Fields, { requestedAt }: Pick<Receipt, "requestedAt">): Instant {
  return requestedAt - ageValue(fields);
}

/** RFC 9111 §4.2.3, apparent_age. Without the allowance a fresh second-old `Date` would eat half of `max-age=2`. */
function apparentAge(fields: Fields, receivedWall: number): Duration {
  const date = dateValue(fields, receivedWall);
  if (date === undefined) return 0;
  const difference = Math.max(0, receivedWall - date);
  return difference < 2_000 ? Math.max(0, difference - DATE_ROUNDING) : difference;
}

const SHORT_DAYS = "mon|tue|wed|thu|fri|sat|sun";
const LONG_DAYS = "monday|tuesday|wednesday|thursday|friday|saturday|sunday";
const MONTHS = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
const MONTH = MONTHS.join("|");
const TIME = "(\\d{2}):(\\d{2}):(\\d{2})";

// RFC 9111 §4.2 asks caches to match names of days, months and the zone in any case.
const IMF_FIXDATE = new RegExp(`^(?:${SHORT_DAYS}), (\\d{2}) (${MONTH}) (\\d{4}) ${TIME} GMT$`, "i");
const RFC850 = new RegExp(`^(?:${LONG_DAYS}), (\\d{2})-(${MONTH})-(\\d{2}) ${TIME} GMT$`, "i");
const ASCTIME = new RegExp(`^(?:${SHORT_DAYS}) (${MONTH}) ( \\d|\\d{2}) ${TIME} (\\d{4})$`, "i");

/**
 * An HTTP-date as milliseconds since the Unix epoch, or undefined when it is none of the three forms of RFC 9110
 * §5.6.7. Nothing else is guessed: a malformed `Expires` has to count as the past.
 *
 * @param wallNow milliseconds since the Unix epoch; a two-digit year more than 50 years ahead of it is a past one.
 */
export function parseHttpDate(text: string, wallNow: number): number | undefined {
  const imf = IMF_FIXDATE.exec(text);
  if (imf !== null) return instantOf([imf[3]!, imf[2]!, imf[1]!, imf[4]!, imf[5]!, imf[6]!]);
  const asctime = ASCTIME.exec(text);
  if (asctime !== null) {
    return instantOf([asctime[6]!, asctime[1]!, asctime[2]!, asctime[3]!, asctime[4]!, asctime[5]!]);
  }
  const rfc850 = RFC850.exec(text);
  if (rfc850 === null) return undefined;
  const year = fullYear(Number(rfc850[3]), wallNow);
  return instantOf([String(year), rfc850[2]!, rfc850[1]!, rfc850[4]!, rfc850[5]!, rfc850[6]!]);
}

/** The IMF-fixdate form, the one to be sent. */
export function formatHttpDate(wall: number): string {
  return new Date(wall).toUTCString();
}

/** RFC 9110 §5.6.7: a year that appears to be more than 50 years in the future is the most recent past one. */
function fullYear(twoDigits: number, wallNow: number): number {
  const thisYear = new Date(wallNow).getUTCFullYear();
  const year = thisYear - (thisYear % 100) + twoDigits;
  return year > thisYear + 50 ? year - 100 : year;
}

/** Year, month name, day, hour, minute, second; undefined when there is no such moment (31 Feb, 25:00). */
function instantOf(parts: readonly [string, string, string, string, string, string]): number | undefined {
  const [yearText, monthName, dayText, hourText, minuteText, secondText] = parts;
  const month = MONTHS.indexOf(monthName.toLowerCase());
  const [year, day, hour] = [Number(yearText), Number(dayText), Number(hourText)];
  const [minute, second] = [Number(minuteText), Number(secondText)];
  // 60 is a leap second; it counts as the first second of the next minute.
  if (hour > 23 || minute > 59 || second > 60) return undefined;
  const date = new Date(0);
  date.setUTCFullYear(year, month, day);
  if (date.getUTCMonth() !== month || date.getUTCDate() !== day) return undefined;
  date.setUTCHours(hour, minute, second);
  return date.getTime();
}
