import type { Clock, Duration, Instant } from "../clock.ts";
import { hasToken, refill, type TokenBucket, untilToken } from "../coordination/gcra.ts";
import type { SharedLimits, TokenGrant } from "../coordination/shared-limits.ts";
import type { Client, Standing } from "./client.ts";
import { type ClientBuckets, type CountedLevel, newLevel, type TierLimits, type Waiting } from "./tier-limits.ts";

/** All processes together grant so much of a bucket without asking. */
const CREDIT = 0.1;

/** Requests of one client that wait for one answer. */
const MAX_WAITING = 1_000;

/** A client that is over is refused without asking for so long at least, or a part of its bucket where that is less. */
const REFUSE_AT_LEAST: Duration = 20;
const REFUSE_PART = 0.05;

/** Clients that are reported at once when what is shared is there again; others are when they next ask. */
const MAX_REPORTED = 10_000;

/** A client's buckets and where they are. */
interface Counted {
  readonly tier: TierLimits;
  readonly id: string;
  readonly buckets: ClientBuckets;
}

/**
 * Buckets that several processes draw from. A process grants a few tokens by itself while a bucket is far from empty as
 * far as it knows, and tells of them later; else it asks. So all processes together grant at most a tenth of a bucket
 * too much, once, and what they grant is all charged. While what is shared is away each has its share.
 */
export class SharedAdmission {
  private readonly shared: SharedLimits;
  private readonly clock: Clock;
  /** Those that a share was granted to that is not told yet. */
  private readonly untold = new Map<ClientBuckets, Counted>();

  constructor(shared: SharedLimits, clock: Clock) {
    this.shared = shared;
    this.clock = clock;
  }

  /** Tells what is shared, which is there again, of what was granted without it. */
  report(): void {
    for (const counted of this.untold.values()) this.ask(counted);
  }

  admit(tier: TierLimits, client: Client, needed: number): Standing | Promise<Standing> {
    const now = this.clock.now();
    const buckets = tier.of(client, now);
    const { phase } = this.shared;
    refillAll(tier, buckets, needed, now);
    if (phase === "counted") {
      if (isRefused(buckets, needed, now)) return standingOf(tier, buckets, needed, true);
      if (this.hasCredit(tier, buckets, needed)) return this.spend(tier, client, buckets, needed);
      return this.wait({ tier, id: client.id, buckets }, needed);
    }
    const counted = { tier, id: client.id, buckets };
    const isGranted = this.takeShare(counted, needed);
    if (phase === "away" || !isGranted) return this.shareStanding(tier, buckets, needed, !isGranted);
    // What the count will have, it is not to be told again.
    changeShare(buckets, needed, { missing: 0, told: 1 });
    return this.wait(counted, needed, true);
  }

  /** Whether it may be granted without asking. */
  private hasCredit({ quotas }: TierLimits, buckets: ClientBuckets, needed: number): boolean {
    for (let i = 0; i < needed; i += 1) {
      const { burst } = quotas[i]!;
      const { missing, spent } = levelAt(buckets, i);
      if (spent + 1 > this.creditOf(burst) || missing + spent + 1 > burst * (1 - CREDIT)) return false;
    }
    return true;
  }

  private creditOf(burst: number): number {
    return Math.floor((burst * CREDIT) / this.shared.processes);
  }

  private spend(tier: TierLimits, { id }: Client, buckets: ClientBuckets, needed: number): Standing {
    let isDue = buckets.first.share !== undefined;
    for (let i = 0; i < needed; i += 1) {
      const level = levelAt(buckets, i);
      level.spent += 1;
      // A client that sends one request is never told of.
      if (level.spent > 1 && level.spent * 2 >= this.creditOf(tier.quotas[i]!.burst)) isDue = true;
    }
    if (isDue && buckets.waiting === undefined) this.ask({ tier, id, buckets });
    return standingOf(tier, buckets, needed, false);
  }

  /** Waits for what is shared to grant it. `hasShare`: its share has granted it already. */
  private wait(counted: Counted, needed: number, hasShare = false): Standing | Promise<Standing> {
    const { tier, buckets } = counted;
    if ((buckets.waiting?.length ?? 0) >= MAX_WAITING) return standingOf(tier, buckets, needed, true);
    return new Promise((resolve) => {
      const decide = (isGranted: boolean | undefined): void => {
        if (isGranted !== undefined) {
          if (hasShare && !isGranted) changeShare(buckets, needed, { missing: -1, told: -1 });
          resolve(standingOf(tier, buckets, needed, !isGranted));
          return;
        }
        if (hasShare) changeShare(buckets, needed, { missing: 0, told: -1 });
        const isShared = hasShare || this.takeShare(counted, needed);
        resolve(this.shareStanding(tier, buckets, needed, !isShared));
      };
      const request = { needed, decide };
      if (buckets.waiting === undefined) this.ask(counted, [request]);
      else buckets.waiting.push(request);
    });
  }

  /** Asks for those that wait, one question at a time; those that come meanwhile are in the next. */
  private ask(counted: Counted, first: readonly Waiting[] = []): void {
    const { buckets } = counted;
    if (buckets.waiting !== undefined) return;
    const askOn = async (): Promise<void> => {
      let asking = first;
      do {
        buckets.waiting = [];
        const isTold = await this.exchange(counted, asking);
        // Those that came meanwhile do not wait for a second answer that does not come.
        if (!isTold) for (const { decide } of buckets.waiting.splice(0)) decide(undefined);
        asking = decideRefused(counted, buckets.waiting, this.clock.now());
      } while (asking.length > 0);
      buckets.waiting = undefined;
    };
    void askOn();
  }

  /** Resolves with false when what is shared is away. */
  private async exchange({ tier, id, buckets }: Counted, asking: readonly Waiting[]): Promise<boolean> {
    const sentAt = this.clock.now();
    refillAll(tier, buckets, tier.quotas.length, sentAt);
    const told = tier.quotas.map(({ burst, interval }, i) => {
      const { missing, spent } = levelOf(buckets, i) ?? NEW;
      return { burst, interval, missing, spent, untold: this.untoldOf(tier.quotas[i]!, levelOf(buckets, i)?.share) };
    });
    const grant = await this.shared.takeTokens(`${tier.signature}\n${id}`, {
      buckets: told.map(({ burst, interval, missing, spent, untold }) => ({
        burst,
        interval,
        missing,
        spent: spent + untold,
      })),
      wanted: tier.quotas.map((_, i) => asking.filter(({ needed }) => needed === i + 1).length),
    });
    if (grant === undefined) {
      for (const { decide } of asking) decide(undefined);
      return false;
    }
    for (const [i, { spent, untold }] of told.entries()) {
      const level = levelOf(buckets, i);
      if (level === undefined) continue;
      level.spent -= spent;
      if (level.share !== undefined) level.share.told += untold;
      this.learn(level, tier.quotas[i]!, { missing: grant.missing[i]!, at: sentAt });
    }
    if (this.shared.phase === "counted") this.forgetShare(buckets);
    decideAll(asking, grant);
    return true;
  }

  /** Takes over what is missing. It was counted after the question was sent, so that this is never too much. */
  private learn(level: CountedLevel, bucket: TokenBucket, told: { missing: number; at: Instant }): void {
    const now = this.clock.now();
    level.missing = told.missing;
    level.at = told.at;
    refill(level, bucket.interval, now);
    if (hasToken(told.missing, bucket.burst)) return;
    const atLeast = Math.min(REFUSE_AT_LEAST, bucket.burst * bucket.interval * REFUSE_PART);
    level.refusedUntil = now + Math.max(untilToken(level.missing, bucket), atLeast);
  }

  /** Takes tokens out of this process's share of the buckets. */
  private takeShare(counted: Counted, needed: number): boolean {
    const { tier, buckets } = counted;
    let isGranted = true;
    for (let i = 0; i < needed; i += 1) {
      const quota = tier.quotas[i]!;
      const { burst, interval } = this.shareOf(quota);
      const level = levelAt(buckets, i);
      if (level.share === undefined) {
        // The others take theirs of what is missing.
        const missing = Math.min(burst, (level.missing * burst) / quota.burst + level.spent);
        level.share = { missing, told: missing, at: this.clock.now() };
      }
      this.refillShare(level.share, interval);
      if (!hasToken(level.share.missing, burst)) isGranted = false;
    }
    if (!isGranted) return false;
    changeShare(buckets, needed, { missing: 1, told: 0 });
    if (this.untold.size < MAX_REPORTED) this.untold.set(buckets, counted);
    return true;
  }

  private refillShare(share: NonNullable<CountedLevel["share"]>, interval: Duration): void {
    const now = this.clock.now();
    share.told = Math.max(0, share.told - Math.max(0, now - share.at) / interval);
    refill(share, interval, now);
  }

  /** What the share granted that is not told, less what has come back of it. */
  private untoldOf(quota: TokenBucket, share: CountedLevel["share"]): number {
    if (share === undefined) return 0;
    this.refillShare(share, this.shareOf(quota).interval);
    return Math.max(0, share.missing - share.told);
  }

  private shareStanding(tier: TierLimits, buckets: ClientBuckets, needed: number, isOver: boolean): Standing {
    const fillings = tier.quotas.slice(0, needed).map((quota, i) => ({
      bucket: this.shareOf(quota),
      missing: levelAt(buckets, i).share?.missing ?? 0,
    }));
    return tier.standings.ofAll(fillings, isOver);
  }

  /** Shares of all processes hold and get back together what the bucket does. */
  private shareOf({ burst, interval }: TokenBucket): TokenBucket {
    const share = this.shared.shareOf(burst);
    return { burst: share, interval: interval * (share > 0 ? burst / share : this.shared.processes) };
  }

  /** All was told. */
  private forgetShare(buckets: ClientBuckets): void {
    this.untold.delete(buckets);
    buckets.first.share = undefined;
    if (buckets.second !== undefined) buckets.second.share = undefined;
  }
}

/** A bucket that no request has drawn from here. */
const NEW = { missing: 0, spent: 0 };

function levelOf({ first, second }: ClientBuckets, index: number): CountedLevel | undefined {
  return index === 0 ? first : second;
}

/** A level that is there: {@link refillAll} was called for as many. */
function levelAt({ first, second }: ClientBuckets, index: number): CountedLevel {
  return index === 0 ? first : second!;
}

function refillAll({ quotas }: TierLimits, buckets: ClientBuckets, needed: number, now: Instant): void {
  refill(buckets.first, quotas[0]!.interval, now);
  if (needed > 1) refill((buckets.second ??= newLevel(now)), quotas[1]!.interval, now);
}

function isRefused({ first, second }: ClientBuckets, needed: number, now: Instant): boolean {
  return now < first.refusedUntil || (needed > 1 && second !== undefined && now < second.refusedUntil);
}

function standingOf(tier: TierLimits, buckets: ClientBuckets, needed: number, isOver: boolean): Standing {
  const { first, second } = buckets;
  const [quota, other] = [tier.quotas[0]!, tier.quotas[1]];
  if (needed === 1 || other === undefined || second === undefined) {
    return tier.standings.ofOne(quota, first.missing + first.spent, isOver);
  }
  const fillings = [
    { bucket: quota, missing: first.missing + first.spent },
    { bucket: other, missing: second.missing + second.spent },
  ];
  return tier.standings.ofAll(fillings, isOver);
}

function changeShare(buckets: ClientBuckets, needed: number, by: { missing: number; told: number }): void {
  for (let i = 0; i < needed; i += 1) {
    const { share } = levelAt(buckets, i);
    if (share === undefined) continue;
    share.missing = Math.max(0, share.missing + by.missing);
    share.told = Math.max(0, share.told + by.told);
  }
}

/** Refuses those that draw from a bucket that is known to be empty; the others are to ask. */
function decideRefused({ buckets }: Counted, waiting: readonly Waiting[], now: Instant): readonly Waiting[] {
  return waiting.filter(({ needed, decide }) => {
    const isOver = isRefused(buckets, needed, now);
    if (isOver) decide(false);
    return !isOver;
  });
}

function decideAll(asking: readonly Waiting[], { granted }: TokenGrant): void {
  const left = [...granted];
  for (const { needed, decide } of asking) {
    left[needed - 1]! -= 1;
    decide(left[needed - 1]! >= 0);
  }
}
