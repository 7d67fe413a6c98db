import { LRUCache } from "lru-cache";
import type { Clock, Instant } from "../clock.ts";
import { type BucketLevel, refill, tokensLeft } from "./gcra.ts";
import type { SlotClaim, TokenClaim, TokenGrant } from "./shared-limits.ts";

/** Clients whose buckets are counted; those used longest ago are forgotten first, and are full by then. */
const MAX_CLIENTS = 100_000;

/** What is granted beyond a bucket is charged, but no more than a bucket: nobody waits longer than for two. */
const MOST_MISSING = 2;

/** The buckets of clients, for several processes of one machine. */
export class TokenTable {
  private readonly clock: Clock;
  private readonly levels = new LRUCache<string, readonly BucketLevel[]>({ max: MAX_CLIENTS });

  constructor(clock: Clock) {
    this.clock = clock;
  }

  take(name: string, claim: TokenClaim): TokenGrant {
    const now = this.clock.now();
    const known = this.levels.get(name);
    const levels = claim.buckets.map((_, i) => known?.[i] ?? { missing: 0, at: now });
    const grant = takeTokens(levels, claim, now);
    this.levels.set(name, levels);
    return grant;
  }
}

/** Takes tokens out of one client's buckets, which are at `levels`, and changes these. */
export function takeTokens(levels: readonly BucketLevel[], { buckets, wanted }: TokenClaim, now: Instant): TokenGrant {
  for (const [i, { burst, interval, spent, missing }] of buckets.entries()) {
    const level = levels[i]!;
    refill(level, interval, now);
    level.missing = Math.min(Math.max(level.missing, missing) + spent, burst * MOST_MISSING);
  }
  const granted = wanted.map(() => 0);
  for (let last = wanted.length - 1; last >= 0; last -= 1) {
    const drawn = levels.slice(0, last + 1);
    const room = Math.min(...drawn.map(({ missing }, i) => tokensLeft(missing, buckets[i]!.burst)));
    granted[last] = Math.min(wanted[last]!, room);
    for (const level of drawn) level.missing += granted[last]!;
  }
  return { granted, missing: levels.map(({ missing }) => missing) };
}

/** How many slots one process holds of those that all share, of which the others hold `others`. */
export function slotsFor({ running, wanted, max }: SlotClaim, others: number): number {
  return Math.max(0, running, Math.min(wanted, max - others));
}

/** Who runs how many requests of which client. A holder has entries only while it holds slots. */
export class SlotTable<Holder> {
  private readonly clients = new Map<string, Map<Holder, number>>();

  hold(name: string, holder: Holder, claim: SlotClaim): number {
    const holders = this.clients.get(name) ?? new Map<Holder, number>();
    let others = 0;
    for (const [other, held] of holders) if (other !== holder) others += held;
    const held = slotsFor(claim, others);
    if (held > 0) holders.set(holder, held);
    else holders.delete(holder);
    if (holders.size > 0) this.clients.set(name, holders);
    else this.clients.delete(name);
    return held;
  }

  /** The holder is gone, and what ran there. */
  leave(holder: Holder): void {
    for (const [name, holders] of this.clients) {
      if (holders.delete(holder) && holders.size === 0) this.clients.delete(name);
    }
  }
}
