import type { Clock, Duration, Instant } from "../../clock.ts";
import {
  type SharedLimits,
  type SharingPhase,
  type SlotClaim,
  SLOTS_HOLD,
  type TokenClaim,
  type TokenGrant,
} from "../shared-limits.ts";
import { type BucketLevel, refill } from "../gcra.ts";
import { slotsFor, takeTokens } from "../limit-tables.ts";
import type { RedisConnection, RedisObserver } from "./connection.ts";
import { CHANGING_OVER, type Replicas } from "./replicas.ts";
import type { SharedEpochs } from "./shared-epochs.ts";
import { type NextValue, SharedValues } from "./shared-values.ts";

/** Tokens that may be missing; what is written to be more was not written by a gateway. */
const MOST_MISSING = 2 ** 53;

export interface RedisClientLimitsOptions {
  connection: RedisConnection;
  epochs: SharedEpochs;
  replicas: Replicas;
  clock: Clock;
  observer: Pick<RedisObserver, "valueRejected">;
}

/** Limits of clients counted in Redis; while it is away each replica has its share of them. */
export class RedisClientLimits implements SharedLimits {
  private readonly connection: RedisConnection;
  private readonly epochs: SharedEpochs;
  private readonly replicas: Replicas;
  private readonly clock: Clock;
  private readonly values: SharedValues;
  private report: () => void = () => undefined;
  /** Something may have been granted without Redis: it was there before, or a share was asked for. */
  private hasShared = false;
  private returningUntil: Instant = -Infinity;

  constructor({ connection, epochs, replicas, clock, observer }: RedisClientLimitsOptions) {
    this.connection = connection;
    this.epochs = epochs;
    this.replicas = replicas;
    this.clock = clock;
    this.values = new SharedValues({ connection, epochs, observer });
  }

  get phase(): SharingPhase {
    if (!this.epochs.isUsableElsewhere) return "away";
    return this.clock.now() < this.returningUntil ? "returning" : "counted";
  }

  get processes(): number {
    return this.replicas.likelyCount;
  }

  shareOf(whole: number): number {
    this.hasShared = true;
    return this.replicas.shareOf(whole);
  }

  takeTokens(name: string, claim: TokenClaim): Promise<TokenGrant | undefined> {
    const { buckets } = claim;
    return this.values.change({ kind: "limit", key: this.connection.keys.tokens(name) }, (text, now) => {
      const levels = readLevels(text, buckets.length, now);
      const isFormed = text === undefined || text === formatText(levels[0]?.at ?? now, levels);
      for (const [i, level] of levels.entries()) refill(level, buckets[i]!.interval, now);
      const before = levels.map(({ missing }) => missing);
      const result = takeTokens(levels, claim, now);
      // Who was refused has changed nothing; but what no gateway wrote would stay so.
      if (isFormed && levels.every(({ missing }, i) => missing === before[i])) return { result };
      return { result, write: { next: formatLevels(levels, claim, now) } };
    });
  }

  holdSlots(name: string, claim: SlotClaim): Promise<number | undefined> {
    return this.values.change({ kind: "limit", key: this.connection.keys.slots(name) }, (text, now) => {
      const others = readHolders(text, now).filter(({ id }) => id !== this.replicas.id);
      const result = slotsFor(
        claim,
        others.reduce((sum, { held }) => sum + held, 0),
      );
      const until = Math.ceil(now + SLOTS_HOLD);
      const holders = result > 0 ? [...others, { id: this.replicas.id, held: result, until }] : others;
      return { result, write: { next: formatHolders(holders, now) } };
    });
  }

  onReturned(report: () => void): void {
    this.report = report;
  }

  /** Redis is there. */
  regained(): void {
    if (this.hasShared) this.returningUntil = this.clock.now() + CHANGING_OVER;
    this.hasShared = true;
    this.report();
  }
}

/**
 * The levels of a client's buckets: when they were written (ms), then what was missing of each then. A clock set back
 * puts nothing back for a while, and takes nothing either.
 */
function readLevels(text: string | undefined, count: number, now: Instant): BucketLevel[] {
  const [writtenAt = now, ...missing] = text?.split(" ").map(Number) ?? [];
  const at = writtenAt <= now ? writtenAt : now;
  return Array.from({ length: count }, (_, i) => {
    const number = missing[i] ?? 0;
    return { missing: number >= 0 && number <= MOST_MISSING ? number : 0, at };
  });
}

/** Lives until all buckets are full. */
function formatLevels(levels: readonly BucketLevel[], { buckets }: TokenClaim, now: Instant): NextValue {
  const ttl = Math.max(...levels.map(({ missing }, i) => missing * buckets[i]!.interval));
  return ttl > 0 ? { text: formatText(now, levels), ttl } : undefined;
}

function formatText(now: Instant, levels: readonly BucketLevel[]): string {
  return [now, ...levels.map(({ missing }) => missing)].join(" ");
}

/** A replica that holds slots of a client, until an instant of Redis's clock. */
interface Holder {
  readonly id: string;
  readonly held: number;
  readonly until: Instant;
}

/** A list of replica=held@until. One that is held for too long was written by a clock that was set back. */
function readHolders(text: string | undefined, now: Instant): Holder[] {
  const holders = [...(text ?? "").matchAll(/([\w-]+)=(\d+)@(\d+)/g)].map(([, id, held, until]) => ({
    id: id!,
    held: Number(held),
    until: Number(until),
  }));
  return holders.filter(({ until }) => until > now && until <= now + SLOTS_HOLD + 1);
}

function formatHolders(holders: readonly Holder[], now: Instant): NextValue {
  if (holders.length === 0) return undefined;
  const ttl: Duration = Math.max(...holders.map(({ until }) => until)) - now;
  return { text: holders.map(({ id, held, until }) => `${id}=${held}@${until}`).join(","), ttl };
}
