import { LRUCache } from "lru-cache";
import type { Duration, Instant } from "../clock.ts";
import type { SkipReason } from "./observer.ts";
import type { CacheKey } from "./store.ts";

interface Skip {
  readonly reason: SkipReason | undefined;
  readonly exclusive: boolean;
  readonly at: Instant;
}

const MAX_REMEMBERED = 2_000;

/** How long requests for a key go their own ways after an answer that was for one client only. */
const EXCLUSIVE_FOR: Duration = 10_000;

/** Remembers, bounded, why answers were not stored, and which keys it is useless to wait together for. */
export class SkipMemory {
  private readonly skips = new LRUCache<string, Skip>({ max: MAX_REMEMBERED });

  note(key: CacheKey, skip: Skip): void {
    this.skips.set(idOf(key), skip);
  }

  /** The answer was stored for all: what came before no longer matters. */
  clear(key: CacheKey): void {
    this.skips.delete(idOf(key));
  }

  last(key: CacheKey): Skip | undefined {
    return this.skips.get(idOf(key));
  }

  /** Whether the last answer, a moment ago, was for one client only: waiting for the next one would only cost time. */
  isExclusive(key: CacheKey, now: Instant): boolean {
    const skip = this.skips.get(idOf(key));
    return skip !== undefined && skip.exclusive && now < skip.at + EXCLUSIVE_FOR;
  }
}

function idOf(key: CacheKey): string {
  return `${key.partition}\n${key.id}`;
}
