import type { TokenBucket } from "./gcra.ts";

/** One of a client's buckets, as the process that asks knows it. */
export interface BucketClaim extends TokenBucket {
  /** Tokens that this process granted and has not told of. They are taken in any case. */
  readonly spent: number;
  /** At least so many are missing: where what is shared forgot, it is told anew. */
  readonly missing: number;
}

/** A claim of one name has the same buckets each time. */
export interface TokenClaim {
  readonly buckets: readonly BucketClaim[];
  /** `wanted[i]` requests want a token out of each of the buckets 0…i. */
  readonly wanted: readonly number[];
}

export interface TokenGrant {
  /** Of `wanted`, so many have their tokens. */
  readonly granted: readonly number[];
  /** Missing in each bucket from then on. */
  readonly missing: readonly number[];
}

/** What a process says of the requests of one client that run at once. */
export interface SlotClaim {
  /** They run here now, whatever the answer. */
  readonly running: number;
  /** So many are to run here, those that run included. */
  readonly wanted: number;
  /** So many may run everywhere together. */
  readonly max: number;
}

/**
 * How limits of clients are shared now. `counted`: what is shared knows. `away`: each process has its share. `returning`:
 * what is shared is there again, and not yet told by all what they granted; share and count hold together.
 */
export type SharingPhase = "counted" | "returning" | "away";

/**
 * The part of the port that the limits of clients are shared by. A process asks seldom: it grants a little by itself
 * and tells later. Nothing rejects; undefined is: what is shared is away.
 */
export interface SharedLimits {
  readonly phase: SharingPhase;
  /** How many processes share, this one included. */
  readonly processes: number;
  /** What this process may take of `whole` by itself: the shares of all processes add up to it. */
  shareOf(whole: number): number;
  takeTokens(name: string, claim: TokenClaim): Promise<TokenGrant | undefined>;
  /** How many may run here: at least those that run. Holds for {@link SLOTS_HOLD}, and has to be claimed again by then. */
  holdSlots(name: string, claim: SlotClaim): Promise<number | undefined>;
  /** Has `report` called when what is shared is there again, to be told what was granted without it. */
  onReturned(report: () => void): void;
}

/** The slots of a process that died are free after this time (milliseconds). */
export const SLOTS_HOLD = 3_000;
