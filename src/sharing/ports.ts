import type { Duration } from "../clock.ts";
import type { Rate, RedisConfig } from "../config/schema.ts";

/**
 * What replicas share, as six small ports. Each has a form without Redis (`alone.ts`) and one over it (`redis/`). No method of
 * a port rejects: any trouble with Redis is the answer that a gateway without Redis would get.
 */
export interface Sharing {
  readonly entries: SharedEntries;
  readonly leases: Leases;
  readonly purges: Purges;
  readonly limiter: Limiter;
  readonly replicas: Replicas;
  status(): SharingStatus;
  /** Takes user and password of a configuration that was read again, for the next connect. */
  takeLogin(config: RedisConfig | undefined): void;
  /** Ends within half a second; what is being written is waited for so long. */
  close(): Promise<void>;
}

export interface SharedEntry {
  /** Small, of one line: what the cache wants to know of an entry besides its body. */
  readonly head: string;
  readonly body: Buffer;
  /** Milliseconds until the entry may be used for nothing any more; by this all its other times are told. */
  readonly remaining: Duration;
}

/** Entries of the cache in Redis. The key begins with the party whose registry it is of: `{party}` is a hash tag. */
export interface SharedEntries {
  get(key: SharedKey): Promise<SharedEntry | undefined>;
  /** Written behind: nobody waits. A full or slow Redis loses it. */
  set(key: SharedKey, entry: SharedEntry): void;
  delete(key: SharedKey): void;
}

export interface SharedKey {
  readonly party: string;
  readonly name: string;
}

/** One fetch over all replicas. */
export interface Leases {
  /** `held`: another replica fetches. `none`: there is no lease to be had (no Redis, or it is away), fetch without one. */
  acquire(key: SharedKey): Promise<Lease | "held" | "none">;
}

/** Renewed at a third of its life until it is released. */
export interface Lease {
  release(): void;
}

/** Epochs by party: an entry counts when it was asked for in the epoch that is known now. */
export interface Purges {
  epochOf(party: string): number;
  /** Of one party, or of all. Holds here at once; `pending`: Redis is away, other replicas learn of it later. */
  purge(party?: string): Promise<"done" | "pending">;
}

/** Calls in any window, over all replicas. */
export interface Limiter {
  /** Takes one call in all of the windows, or none. */
  take(key: string, windows: readonly Rate[]): Promise<Grant>;
}

export type Grant = { readonly granted: true } | { readonly granted: false; readonly retryIn: Duration };

export interface Replicas {
  /** Replicas last seen, this one included; 1 without Redis. */
  count(): number;
}

/** Replicas that have fallen silent, did not say that they leave, and had nobody take their place. */
export interface LostReplicas {
  readonly count: number;
  /** When the first of them was heard of last, Unix ms. */
  readonly since: number;
}

export interface SharingStatus {
  readonly redis: "off" | "up" | "away";
  /** Why it is away, for people, printable. */
  readonly cause?: string;
  /** Since when it is so, Unix ms. */
  readonly since?: number;
  readonly replicas: number;
  readonly lost?: LostReplicas;
}

/** Metrics of Redis. */
export interface SharingObserver {
  commandEnded(command: string, outcome: "ok" | "error" | "skipped", seconds: number): void;
}
