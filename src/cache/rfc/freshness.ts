import type { Duration, Instant } from "../../clock.ts";
import { fieldValues, type Fields } from "../../fields.ts";
import { correctedInitialAge, dateValue, type Receipt } from "./age.ts";
import type { Entry, EntryOrigins } from "../entry.ts";
import { parseHttpDate } from "./http-date.ts";
import type { CachePolicy } from "../resource.ts";
import type { Governing } from "./targeted.ts";

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
    known: explicit !== undefined || lifetime.value > 0 || governing?.directives.noCache === true,
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
  if (status !== 404) return { value: policy.ttl, origin: "cache.ttl" };
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
