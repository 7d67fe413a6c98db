import { LRUCache } from "lru-cache";
import type { Clock, Duration, Instant } from "../../clock.ts";
import { GRANTED_AT_ONCE, type LimitAnswer, type LimitKind, slidingWindows, type Windows } from "../limits.ts";
import type { SlidingWindow } from "../sliding-window.ts";
import { type CountedLimit, type CountedWindow, refusal, SLACK } from "./counted-limit.ts";
import type { Keys } from "./keys.ts";
import { CHANGING_OVER, type Membership } from "./membership.ts";
import type { Message } from "./messages.ts";
import { MAX_WAIT } from "./partitions.ts";

/**
 * Calls to upstreams are held back for this long when Redis went away, or has not been there yet: mostly it is there by
 * then, and a call granted without it could be one too many.
 */
const HELD_BACK: Duration = 350;

/** Limits of which it is known what other replicas took beyond their shares. */
const MOST_BORROWED = 10_000;

/** What this replica may take of limits while Redis is away, and a little longer: the shares of all add up to them. */
export class LimitShares {
  private readonly keys: Pick<Keys, "limit">;
  private readonly members: Membership;
  private readonly clock: Clock;
  /** What other replicas took beyond their shares, by the limit's key in Redis: it is missing from this one's share. */
  private readonly borrowed = new LRUCache<string, Windows<SlidingWindow>>({
    maxSize: MOST_BORROWED,
    sizeCalculation: () => 1,
  });
  /** The share of this replica holds beside the count in Redis until this instant. */
  private sharedUntil: Instant = Infinity;
  private lostAt: Instant;
  private hasGrantedToClients = false;

  constructor(keys: Pick<Keys, "limit">, members: Membership, clock: Clock) {
    this.keys = keys;
    this.members = members;
    this.clock = clock;
    this.lostAt = clock.steadyNow();
  }

  /**
   * How much longer the share holds beside the count in Redis; that of clients does not until one of them was granted
   * something without Redis.
   */
  holdsFor(kind: LimitKind, now: Instant): Duration {
    return SLACK[kind] === 0 || this.hasGrantedToClients ? this.sharedUntil - now : 0;
  }

  /** Redis is away: what it counts is not what is called from now on. */
  lost(): void {
    this.lostAt = this.clock.steadyNow();
    this.sharedUntil = Infinity;
  }

  /** Redis is there: other replicas may not have noticed yet. */
  regained(): void {
    this.sharedUntil = this.clock.steadyNow() + CHANGING_OVER;
  }

  received({ key, by, windows }: Extract<Message, { kind: "borrowed" }>): void {
    if (by === this.members.id) return;
    let borrowed = this.borrowed.get(key);
    if (borrowed === undefined) this.borrowed.set(key, (borrowed = slidingWindows(this.clock)));
    for (const each of windows) borrowed.of(each).add(this.clock.steadyNow(), each.count);
  }

  /** Takes a call out of this replica's share of the limit. */
  take(limit: CountedLimit, windows: readonly CountedWindow[], now: Instant): LimitAnswer {
    const heldBack = SLACK[limit.kind] === 0 ? this.lostAt + HELD_BACK - now : 0;
    if (heldBack > 0) return refusal(windows, now, () => Math.min(heldBack, MAX_WAIT));
    if (windows.some((window) => this.freeIn(limit, window, now) > 0)) {
      return refusal(windows, now, (window) => this.freeIn(limit, window, now));
    }
    limit.add(windows, now);
    if (SLACK[limit.kind] > 0) this.hasGrantedToClients = true;
    const used = windows.map((window) => window.requests - this.shareOf(limit, window, now) + window.own.count(now));
    return { granted: true, used, retryIn: GRANTED_AT_ONCE };
  }

  /**
   * How long until this replica's share allows a call beside the count in Redis. To an upstream it may grant all that it is
   * being asked for; a client's limit may be exceeded a little, and no request waits to know.
   */
  freeBesideIn(limit: CountedLimit, window: CountedWindow, now: Instant): Duration {
    const freeIn = this.freeIn(limit, window, now);
    const isPromised =
      SLACK[limit.kind] === 0 && window.own.count(now) + limit.asking >= this.shareOf(limit, window, now);
    return freeIn === 0 && isPromised ? MAX_WAIT : freeIn;
  }

  /** How long until this replica's share allows a call; 0 when it does now. */
  private freeIn(limit: CountedLimit, window: CountedWindow, now: Instant): Duration {
    const share = this.shareOf(limit, window, now);
    if (share > 0) return window.own.freeIn(now, share);
    // The others have it all, until the first of their calls is out of the window.
    return this.borrowedOf(limit, window)?.freeIn(now, window.shareOf(this.members, now)) || window.per;
  }

  private shareOf(limit: CountedLimit, window: CountedWindow, now: Instant): number {
    return window.shareOf(this.members, now) - (this.borrowedOf(limit, window)?.count(now) ?? 0);
  }

  private borrowedOf(limit: CountedLimit, { name, per }: CountedWindow): SlidingWindow | undefined {
    if (this.borrowed.size === 0) return undefined;
    return this.borrowed.get(this.keys.limit(limit.kind, limit.id))?.of({ name, per });
  }
}
