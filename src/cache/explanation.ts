import type { Clock, Duration, Instant } from "../clock.ts";
import type { CacheKey, EntryOrigins } from "../sharing/entries.ts";
import type { EpochsPort } from "../sharing/ports.ts";
import { fieldValue } from "../fields.ts";
import type { CachedEntry } from "./cached-entry.ts";
import { CODINGS } from "./compression.ts";
import type { CollapsedForwarding, HitForMiss } from "./collapsed-forwarding.ts";
import type { CachePolicy, CacheTier, Resource, SkipReason } from "./resource.ts";
import type { Tiers } from "./stores/tiers.ts";

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

interface ExplainedEntry {
  readonly tier: Exclude<CacheTier, "upstream">;
  readonly purged: boolean;
  readonly status: number;
  readonly variant: string;
  readonly etag: string | undefined;
  readonly bytes: number;
  /** Of the body in other codings, where they were made. */
  readonly codedBytes: Readonly<Partial<Record<string, number>>>;
  readonly age: Duration;
  readonly lifetime: Duration;
  readonly freshFor: Duration;
  readonly revalidateFor: Duration;
  readonly usableFor: Duration;
  readonly staleProhibited: boolean;
  /** The header field or configuration key each number is from. */
  readonly origins: EntryOrigins;
}

/** The parts of the cache that know. */
export interface ExplainedCache {
  readonly tiers: Tiers;
  readonly epochs: Pick<EpochsPort, "epochOf">;
  readonly clock: Clock;
  readonly fetches: CollapsedForwarding;
  readonly hitForMiss: HitForMiss;
}

/** Looks in every tier. */
export async function explain(resource: Resource, cache: ExplainedCache): Promise<Explanation> {
  const { tiers, epochs, clock, fetches, hitForMiss } = cache;
  const { key, policy } = resource;
  const now = clock.now();
  const before = new Set(tiers.variants(key));
  await tiers.lookUpShared(resource);
  await resource.derive?.();
  const epoch = epochs.epochOf(key);
  const last = hitForMiss.last(resource);
  return {
    key,
    policy,
    epoch,
    entries: tiers
      .variants(key)
      .map((cached) =>
        describe(cached, now, { tier: before.has(cached) ? "memory" : "shared", purged: cached.entry.epoch !== epoch }),
      ),
    lastSkip: last?.skipped === undefined ? undefined : { reason: last.skipped, ago: now - last.at },
    fetching: fetches.isRunning(key),
  };
}

function describe(
  { entry, forms: { coded } }: CachedEntry,
  now: Instant,
  { tier, purged }: Pick<ExplainedEntry, "tier" | "purged">,
): ExplainedEntry {
  return {
    tier,
    purged,
    status: entry.status,
    variant: entry.variant,
    etag: fieldValue(entry.fields, "etag"),
    bytes: entry.body.length,
    codedBytes: Object.fromEntries(coded.flatMap((body, i) => (body === undefined ? [] : [[CODINGS[i], body.length]]))),
    age: now - entry.bornAt,
    lifetime: entry.lifetime,
    freshFor: entry.freshUntil - now,
    revalidateFor: entry.revalidateUntil - now,
    usableFor: entry.usableUntil - now,
    staleProhibited: entry.staleProhibited,
    origins: entry.origins,
  };
}
