import type { IncomingHttpHeaders } from "node:http";
import type { Duration, Instant } from "../clock.ts";
import { type Fields, fieldValue, filterFields } from "../fields.ts";
import type { Entry } from "../sharing/entries.ts";
import type { CachePolicy, Fetched, SkipReason } from "./resource.ts";
import { governingDirectives, type ResponseDirectives } from "./rfc/cache-control.ts";
import { conditionalFields, makeEntityTag } from "./rfc/conditional.ts";
import { dateValue, formatHttpDate, judgeFreshness, madeAt } from "./rfc/freshness.ts";
import { isAuthorized, selectingNames, variantOf, varyNames } from "./rfc/request-fields.ts";
import { isExclusive, isFailure, whyNotStorable } from "./rfc/reuse.ts";

/** A received answer and what decides whether it is stored. */
export interface ReceivedResponse {
  readonly fetched: Fetched;
  readonly policy: CachePolicy;
  /** Of the request that was forwarded. */
  readonly headers: IncomingHttpHeaders;
  readonly epoch: string;
  readonly softEpoch: string;
  /** The wall clock at receipt. */
  readonly receivedWall: number;
  /** How much of a configured TTL to take off: 0 to 0.1. */
  readonly shortening: number;
  readonly maxLifetime?: Duration | undefined;
}

/** What a received answer is to this cache. */
export interface JudgedResponse {
  /** As it would be stored, whether or not it may be. */
  readonly entry: Entry;
  readonly skipped: SkipReason | undefined;
  /** Only the client that asked may get it. */
  readonly exclusive: boolean;
  /** All fields, where some may go only to the client that asked (`private` and `no-cache` with field names). */
  readonly ownFields: Fields | undefined;
}

/** Makes an entry of a complete response and says whether it may be stored and shared (RFC 9111 §3). */
export function judgeResponse(input: ReceivedResponse): JudgedResponse {
  const { fetched, policy, headers, receivedWall } = input;
  const governing = policy.honorUpstream ? governingDirectives(fetched.fields) : undefined;
  const directives = governing?.directives;
  const varies = varyNames(fetched.fields);
  const selecting = selectingNames(policy, varies === "*" ? [] : varies);
  const { known, explicit, ...freshness } = judgeFreshness({
    ...input,
    ...fetched,
    governing,
    receipt: { ...fetched, receivedWall },
  });
  const fields = completeFields(fetched, receivedWall);
  const madeEtag = fetched.status === 200 && fieldValue(fields, "etag") === undefined;
  if (madeEtag) fields.push("etag", makeEntityTag(fetched.body));
  const withheld = withheldNames(directives);
  const entry: Entry = {
    status: fetched.status,
    fields: withheld.size === 0 ? fields : filterFields(fields, (name) => !withheld.has(name)),
    body: fetched.body,
    madeEtag,
    epoch: input.epoch,
    softEpoch: input.softEpoch,
    vary: selecting,
    variant: variantOf(selecting, headers),
    receivedAt: fetched.receivedAt,
    madeAt: madeAt(fetched.fields, fetched),
    ...freshness,
  };
  const authorized = isAuthorized(policy, headers);
  const forbidden = whyNotStorable({ status: fetched.status, directives, policy, explicit, varies, authorized });
  const skipped = forbidden ?? whyNotWorthwhile(input, entry, known);
  const isOwn = fetched.unstorable !== undefined || !isFailure(fetched.status);
  const isPersonal = authorized || policy.forwardRequestHeaders.length > 0;
  // With all fields forwarded, the answer may be about any of them.
  const isOfWhoAsked = policy.ttl === undefined || policy.forwardRequestHeaders === "*";
  const isPassedOn = isOfWhoAsked && skipped !== undefined && isOwn;
  return {
    entry,
    skipped,
    exclusive: isPassedOn || isExclusive(fetched.status, forbidden, directives, isPersonal),
    ownFields: withheld.size === 0 ? undefined : fields,
  };
}

/**
 * The entry after a soft purge at `at`: stale since then, and usable in its windows from then on. It never becomes any
 * fresher by that.
 */
export function softened(entry: Entry, at: Instant, softEpoch: string): Entry {
  const freshUntil = Math.min(entry.freshUntil, Math.max(at, entry.receivedAt));
  const earlier = entry.freshUntil - freshUntil;
  return {
    ...entry,
    softEpoch,
    freshUntil,
    revalidateUntil: entry.revalidateUntil - earlier,
    usableUntil: entry.usableUntil - earlier,
  };
}

/**
 * The entry since the upstream said something newer at `receivedAt` that is not stored in its place: whatever stale windows
 * it had, they are over (RFC 9111 §4.2.4). What is gone is not even fresh.
 */
export function overtaken(entry: Entry, receivedAt: Instant, isGone: boolean): Entry {
  const freshUntil = isGone ? Math.min(entry.freshUntil, receivedAt) : entry.freshUntil;
  return {
    ...entry,
    receivedAt,
    staleProhibited: true,
    freshUntil,
    revalidateUntil: freshUntil,
    usableUntil: freshUntil,
  };
}

/** Whole seconds, never negative (RFC 9111 §5.1). */
export function ageOf({ bornAt }: Entry, now: Instant): number {
  return Math.max(0, Math.floor((now - bornAt) / 1000));
}

/** Whole seconds of freshness left, negative when stale. */
export function ttlOf({ freshUntil }: Entry, now: Instant): number {
  return Math.floor((freshUntil - now) / 1000);
}

/** How much of the time for which it may stand in for a failure is over, from 0 to 1. */
export function windowUsedOf({ freshUntil, usableUntil }: Entry, now: Instant): number {
  return now >= usableUntil ? 1 : Math.max(0, (now - freshUntil) / (usableUntil - freshUntil));
}

function whyNotWorthwhile({ fetched, policy }: ReceivedResponse, entry: Entry, known: boolean): SkipReason | undefined {
  if (fetched.unstorable !== undefined) return "unstorable";
  if (!known) return "ttl";
  // Clients that are listened to may take it stale (max-stale, stale-if-error).
  const mayBeAskedFor = policy.honorClient && !entry.staleProhibited;
  return isUsefulAfter(entry) || mayBeAskedFor || conditionalFields(entry).length > 0 ? undefined : "useless";
}

/** Whether there will be a moment after receipt at which the entry may be served. */
function isUsefulAfter({ receivedAt, freshUntil, revalidateUntil, usableUntil }: Entry): boolean {
  return Math.max(freshUntil, revalidateUntil, usableUntil) > receivedAt;
}

/** Without `Age`, which the entry has as an instant; with a valid `Date` (RFC 9110 §6.6.1). */
function completeFields(fetched: Fetched, receivedWall: number): string[] {
  const isDated = dateValue(fetched.fields, receivedWall) !== undefined;
  const fields = filterFields(fetched.fields, (name) => name !== "age" && (isDated || name !== "date"));
  if (!isDated) fields.push("date", formatHttpDate(receivedWall));
  return fields;
}

/** RFC 9111 §5.2.2.4 and §5.2.2.7: fields that must not be stored, or not used without validation. */
function withheldNames(directives: ResponseDirectives | undefined): ReadonlySet<string> {
  const names = new Set<string>();
  for (const scope of [directives?.noCache, directives?.private]) {
    if (typeof scope === "object") for (const name of scope) names.add(name);
  }
  return names;
}

/** Fields of a page that say nothing about what is cut out of it. */
const OF_THE_SOURCE = new Set([
  "cache-status",
  "content-digest",
  "content-length",
  "content-location",
  "content-md5",
  "digest",
  "etag",
  "last-modified",
  "link",
  "repr-digest",
]);

/** What a registry would have sent had it been asked for a part of `source` alone, as far as `source` says. */
export function deriveResponse(source: Fetched, body: Buffer): Fetched {
  return { ...source, body, fields: filterFields(source.fields, (name) => !OF_THE_SOURCE.has(name)) };
}
