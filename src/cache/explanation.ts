import type { Duration, Instant } from "../clock.ts";
import { fieldValue } from "../fields.ts";
import type { EntryOrigins } from "./entry.ts";
import type { Held } from "./held.ts";
import type { SkipReason } from "./observer.ts";
import type { CachePolicy } from "./policy.ts";
import type { CacheTier } from "./resource.ts";
import type { CacheKey } from "./stores/store.ts";

/** Why a resource is answered as it is; for people. Durations in milliseconds, negative when over. */
export interface Explanation {
  readonly key: CacheKey;
  readonly policy: CachePolicy;
  /** Undefined: a page behind a token that no page issued; never stored. */
  readonly epoch: string | undefined;
  /** One for each variant; those of an older epoch were purged and are never used. */
  readonly entries: readonly ExplainedEntry[];
  /** Why the last answer that was not stored was not. */
  readonly lastSkip: { readonly reason: SkipReason; readonly ago: Duration } | undefined;
  /** A fetch is running now. */
  readonly fetching: boolean;
}

export interface ExplainedEntry {
  readonly tier: Exclude<CacheTier, "upstream">;
  readonly purged: boolean;
  readonly status: number;
  readonly variant: string;
  readonly etag: string | undefined;
  readonly bytes: number;
  readonly gzipBytes: number | undefined;
  readonly age: Duration;
  readonly lifetime: Duration;
  readonly freshFor: Duration;
  readonly revalidateFor: Duration;
  readonly usableFor: Duration;
  readonly staleProhibited: boolean;
  /** The header field or configuration key each number is from. */
  readonly origins: EntryOrigins;
}

/** Describes one entry as of `now`. */
export function explainEntry(held: Held, now: Instant, tier: ExplainedEntry["tier"], purged: boolean): ExplainedEntry {
  const { entry, gzip } = held;
  return {
    tier,
    purged,
    status: entry.status,
    variant: entry.variant,
    etag: fieldValue(entry.fields, "etag"),
    bytes: entry.body.length,
    gzipBytes: gzip?.length,
    age: now - entry.bornAt,
    lifetime: entry.lifetime,
    freshFor: entry.freshUntil - now,
    revalidateFor: entry.revalidateUntil - now,
    usableFor: entry.usableUntil - now,
    staleProhibited: entry.staleProhibited,
    origins: entry.origins,
  };
}
