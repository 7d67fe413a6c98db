import type { Instant } from "../clock.ts";
import { fieldValue } from "../fields.ts";
import type { CacheKey, Entry, ExplainedEntry } from "./types.ts";

/** Describes an entry as one tier has it. */
export function explainEntry(
  entry: Entry,
  tier: ExplainedEntry["tier"],
  at: { readonly key: CacheKey; readonly epoch: number; readonly now: Instant },
): ExplainedEntry {
  const { now } = at;
  const cacheControl = fieldValue(entry.fields, "cache-control");
  return {
    tier,
    use: explainUse(entry, at),
    status: entry.status,
    bytes: entry.body.length,
    etag: entry.etag,
    age: now - entry.bornAt,
    freshFor: entry.freshUntil - now,
    refreshFor: entry.refreshUntil - now,
    errorFor: entry.errorUntil - now,
    hasValidators: entry.validators !== undefined,
    ...(cacheControl !== undefined && { cacheControl }),
  };
}

function explainUse(
  entry: Entry,
  { key, epoch, now }: { readonly key: CacheKey; readonly epoch: number; readonly now: Instant },
): ExplainedEntry["use"] {
  if (entry.epoch !== epoch) return "purged";
  if (entry.generation !== key.generation) return "earlier-listing";
  if (now < entry.freshUntil) return "fresh";
  if (now < entry.refreshUntil) return "stale-while-revalidate";
  return now < entry.errorUntil ? "stale-if-error" : "expired";
}
