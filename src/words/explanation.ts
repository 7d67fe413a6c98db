import { sayDuration, saySize } from "./quantity.ts";

/** What is said of an entry; durations in milliseconds, negative when over. */
export interface ShownEntry {
  readonly tier: string;
  readonly purged: boolean;
  readonly status: number;
  readonly variant: string;
  readonly etag?: string | undefined;
  readonly bytes: number;
  readonly age: number;
  readonly lifetime: number;
  readonly freshFor: number;
  readonly revalidateFor: number;
  readonly usableFor: number;
  /** The header field or configuration key each number is from. */
  readonly origins: {
    readonly lifetime: string;
    readonly staleWhileRevalidate: string;
    readonly staleIfError: string;
  };
}

/** What is said of a resource that may be cached: what `/explain` answers, of this or another version. */
export interface ShownExplanation {
  readonly policy: {
    /** Undefined: what has no explicit freshness is not stored. */
    readonly ttl?: number | undefined;
    readonly notFoundTtl?: number | undefined;
    readonly maxTtl: number;
  };
  readonly epoch?: string | undefined;
  readonly entries: readonly ShownEntry[];
  readonly lastSkip?: { readonly reason: string; readonly ago: number } | undefined;
  readonly fetching: boolean;
}

/** What becomes of the next request for a resource, and why, line by line; its entries apart. */
export function describeOutlook(explanation: ShownExplanation): string[] {
  const { policy, lastSkip, fetching } = explanation;
  const notFound = policy.notFoundTtl === undefined ? "" : `, a 404 for ${sayTtl(policy.notFoundTtl)}`;
  return [
    verdict(explanation),
    ...(fetching ? ["A fetch from the registry is running now."] : []),
    ...(lastSkip === undefined
      ? []
      : [`An answer was not stored ${sayDuration(lastSkip.ago)} ago: ${sayReason(lastSkip.reason)}.`]),
    `Where the registry does not say how long, an answer is fresh for ${sayTtl(policy.ttl)}${notFound}; never for more than ${sayDuration(policy.maxTtl)}.`,
  ];
}

function sayTtl(ttl: number | undefined): string {
  return ttl === undefined || ttl === 0 ? "0 s (not stored)" : sayDuration(ttl);
}

/** What becomes of the next request. */
function verdict({ epoch, entries }: ShownExplanation): string {
  if (epoch === undefined) return "Never stored: no page that the gateway has issued this page token.";
  const usable = entries.filter(({ purged }) => !purged);
  if (usable.length === 0) {
    return `The next request asks the registry: ${entries.length === 0 ? "nothing is stored" : "the stored answer is purged"}.`;
  }
  const best = usable.reduce((one, other) => (other.freshFor > one.freshFor ? other : one));
  const which =
    usable.length > 1 ? " The longest of them is meant; a request of another variant may do otherwise." : "";
  return `${outlook(best)}${which}`;
}

function outlook({ freshFor, revalidateFor, usableFor, tier }: ShownEntry): string {
  const from = tier === "memory" ? "memory" : "Redis";
  if (freshFor > 0) return `The next request is answered from ${from}: fresh for another ${sayDuration(freshFor)}.`;
  if (revalidateFor > 0) {
    return `The next request is answered from ${from}, stale for ${sayDuration(freshFor)}, while the registry is asked in the background; so for another ${sayDuration(revalidateFor)}.`;
  }
  if (usableFor > 0) {
    return `The next request asks the registry. If that fails, it is answered from ${from}, stale for ${sayDuration(freshFor)}; so for another ${sayDuration(usableFor)}.`;
  }
  return "The next request asks the registry: what is stored is too old to be used, and only spares the transfer of a body that did not change.";
}

/** What is stored, line by line. Text that is from a registry stays as it is. */
export function describeEntry(entry: ShownEntry, number: number): string[] {
  const { tier, purged, status, variant, etag, bytes, age, lifetime, freshFor, origins } = entry;
  const place = tier === "memory" ? "memory" : "Redis";
  const lasts = freshFor > 0 ? `fresh for another ${sayDuration(freshFor)}` : `stale for ${sayDuration(freshFor)}`;
  return [
    `Entry ${number}, in ${place}${purged ? ", purged and never used again" : ""}: status ${status}, ${saySize(bytes)}${etag === undefined ? "" : `, ETag ${etag}`}`,
    ...(variant === "" ? [] : [`  variant: ${variant}`]),
    `  ${sayDuration(age)} old, ${lasts}; its time to live is ${sayDuration(lifetime)} by ${origins.lifetime}`,
    `  when stale: ${window(entry.revalidateFor - freshFor, "used while it is refreshed", origins.staleWhileRevalidate)}`,
    `  when the registry fails: ${window(entry.usableFor - freshFor, "used", origins.staleIfError)}`,
  ];
}

/** How long after expiry something is allowed, and who says so. */
function window(length: number, what: string, origin: string): string {
  return length > 0 ? `${what} for ${sayDuration(length)}, by ${origin}` : `not used, by ${origin}`;
}

/** In words; the rest says it by itself. */
const REASONS: Readonly<Record<string, string>> = {
  "no-store": "the registry says no-store",
  private: "the registry says private",
  vary: "it varies by everything (Vary: *)",
  authorization: "the request had credentials, and the registry does not allow to store its answer",
  status: "answers of its status are not stored",
  ttl: "neither the registry nor the configuration gives it a time to live",
  useless: "it was stale on arrival and could not be renewed",
  "unissued-token": "no page that the gateway has issued this page token",
  purged: "it was purged while it was fetched",
  superseded: "a newer one was stored meanwhile",
  failure: "it was a failure, and what is stored may still be used",
  "too-large": "it is larger than cache.memory.maxObject",
  unstorable: "its body is not what the standard says, may not be all of it, or came with a cookie",
};

function sayReason(reason: string): string {
  return REASONS[reason] ?? reason;
}
