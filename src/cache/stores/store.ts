import type { Dependencies, MaybePromise } from "../../coordination/coordinator.ts";
import type { Entry } from "../entry.ts";

/** Variants of one resource that a tier keeps; beyond this the oldest goes, or all begin anew. */
export const MAX_VARIANTS = 16;

/** Names one resource in the cache. */
export interface CacheKey extends Dependencies {
  /** Unique within the partition: endpoint and id, or endpoint, page size and token. */
  readonly id: string;
  /** Unique in the whole cache: partition and id. Made once, for all that is kept by it. */
  readonly name: string;
}

/** A key with its name. */
export function cacheKey<Parts extends Omit<CacheKey, "name">>(parts: Parts): Parts & Pick<CacheKey, "name"> {
  return { ...parts, name: `${parts.partition}\n${parts.id}` };
}

/**
 * A tier of the cache. It answers what it holds, fresh or stale; whether that may be used is the caller's decision.
 * No method rejects: a tier that is away answers undefined.
 */
export interface Store {
  /**
   * The variants stored under the key (one unless the upstream's `Vary` made several), within half a second: a tier that
   * is slower than that answers undefined.
   */
  get(key: CacheKey): MaybePromise<readonly Entry[] | undefined>;
  /** Stores `entry`, replacing the variant it stands for. */
  set(key: CacheKey, entry: Entry): void;
  delete(key: CacheKey): void;
}
