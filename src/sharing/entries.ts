import type { Duration, Instant, MaybePromise } from "../clock.ts";
import type { Fields } from "../fields.ts";
import type { Dependencies } from "./ports.ts";

/** Where the numbers of an entry came from: a header field with its directive, or a configuration key. For people. */
export interface EntryOrigins {
  readonly lifetime: string;
  readonly staleWhileRevalidate: string;
  readonly staleIfError: string;
}

/** One stored response. Immutable: a revalidation makes a new one. */
export interface Entry {
  readonly status: number;
  /**
   * End-to-end fields as they are stored: always with `Date`, a 200 always with `ETag`; without `Age`. Fields meant for
   * the gateway alone (`Registry-Gateway-Cache-Control`) are kept, a 304 may leave them out; they are dropped on sending.
   */
  readonly fields: Fields;
  /** The upstream's bytes, decoded from any content coding. */
  readonly body: Buffer;
  /** True when the `ETag` among `fields` was made here: the upstream does not know it, so it is never sent there. */
  readonly madeEtag: boolean;
  /** The epoch (see EpochsPort.epochOf) read before the fetch began. */
  readonly epoch: string;
  /** The soft purges before it (see EpochsPort.softEpochOf), read with the epoch. */
  readonly softEpoch: string;
  /** The request fields this response was selected by (lower case, sorted); none for most. */
  readonly vary: readonly string[];
  /** Those fields' normalised values; equal strings mean the same variant. Empty when `vary` is. */
  readonly variant: string;
  /** When the response was received, or last validated. */
  readonly receivedAt: Instant;
  /** The instant at which the response was new at its origin: receipt minus corrected initial age (RFC 9111 §4.2.3). */
  readonly bornAt: Instant;
  /** The earliest instant at which it can have been made, whatever its `Date` says: when it was asked for minus its `Age`. */
  readonly madeAt: Instant;
  /** Fresh before this instant. */
  readonly freshUntil: Instant;
  /** May be served while one refresh runs (RFC 5861 §3) before this instant; equal to freshUntil where not allowed. */
  readonly revalidateUntil: Instant;
  /** May be served when the upstream fails (RFC 5861 §4) before this instant; equal to freshUntil where not allowed. */
  readonly usableUntil: Instant;
  /** No window, a client's `max-stale` included, lets this be served stale (RFC 9111 §4.2.4). */
  readonly staleProhibited: boolean;
  /** What the upstream or the configuration promised as time to live, before bounding and shortening. */
  readonly lifetime: Duration;
  readonly origins: EntryOrigins;
}

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
  /** Deletes the variant that an entry stands for. */
  delete(key: CacheKey, entry: Entry): void;
}
