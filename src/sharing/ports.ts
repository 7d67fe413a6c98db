import type { Duration } from "../clock.ts";
import type { Rate, RedisConfig } from "../config/schema.ts";

/**
 * Five small ports to all that replicas share. Each has a form without Redis (`alone.ts`) and one over it (`redis/`). No method
 * of a port rejects: any trouble with Redis is the answer that a gateway without Redis would get.
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
  /** All of an entry but its body: a short text of one line, which the cache writes and reads. */
  readonly head: string;
  readonly body: Buffer;
  /** Time until the entry may be used for nothing any more; the instants in its head are told by it. */
  readonly remaining: Duration;
}

/** Entries of the cache in Redis. */
export interface SharedEntries {
  get(key: SharedKey): Promise<SharedEntry | undefined>;
  /** Writes behind: nobody waits. A full or slow Redis loses it. */
  set(key: SharedKey, entry: SharedEntry): void;
  delete(key: SharedKey): void;
}

/** Names an entry or a lease: of the registry of a party. */
export interface SharedKey {
  readonly party: string;
  readonly name: string;
}

/** Leases, so that one replica fetches a key. */
export interface Leases {
  /** Takes the lease of a key. `held`: another replica has it. `none`: there is no Redis, or it is away: fetch without one. */
  acquire(key: SharedKey): Promise<Lease | "held" | "none">;
}

/** A lease that is held, and renewed until it is released. */
export interface Lease {
  release(): void;
}

/** Epochs by party: an entry counts when it was asked for in the epoch that is known now. */
export interface Purges {
  epochOf(party: string): number;
  /** Purges one party, or all. Holds here at once; `pending`: Redis is away, other replicas learn of it later. */
  purge(party?: string): Promise<"done" | "pending">;
}

/** Counts of calls in any window, over all replicas. */
export interface Limiter {
  /** Takes one call in all of the windows, or none. */
  take(key: string, windows: readonly Rate[]): Promise<Grant>;
}

/** `retryIn`: time after which a call may be granted. */
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
  /** Why Redis is away, for people, printable. */
  readonly cause?: string;
  /** Since when it is up or away, Unix ms. */
  readonly since?: number;
  readonly replicas: number;
  readonly lost?: LostReplicas;
}

/** Metrics of Redis. */
export interface SharingObserver {
  commandEnded(command: string, outcome: "ok" | "error" | "skipped", seconds: number): void;
}
