import { LRUCache } from "lru-cache";
import type { Duration, Instant } from "../clock.ts";
import type { SkipReason } from "./observer.ts";
import type { CacheKey } from "./store.ts";

/** How an answer ended. */
interface Ending {
  /** Why it was not stored. */
  readonly skipped: SkipReason | undefined;
  /** Only the client that asked may get it. */
  readonly exclusive: boolean;
}

const MAX_REMEMBERED = 2_000;

/** How long requests for a key go their own ways after an answer that was for one client only. */
const EXCLUSIVE_FOR: Duration = 10_000;

/** Remembers, bounded, why answers were not stored, and which keys it is useless to wait together for. */
export class SkipMemory {
  private readonly endings = new LRUCache<string, Ending & { readonly at: Instant }>({ max: MAX_REMEMBERED });

  /** An answer that was stored for all makes what came before irrelevant. */
  note(key: CacheKey, { skipped, exclusive }: Ending, at: Instant): void {
    if (skipped === undefined && !exclusive) this.endings.delete(key.name);
    else this.endings.set(key.name, { skipped, exclusive, at });
  }

  last(key: CacheKey): (Ending & { readonly at: Instant }) | undefined {
    return this.endings.get(key.name);
  }

  /** Whether the last answer, a moment ago, was for one client only: waiting for the next one would only cost time. */
  isExclusive(key: CacheKey, now: Instant): boolean {
    const last = this.last(key);
    return last !== undefined && last.exclusive && now < last.at + EXCLUSIVE_FOR;
  }
}
