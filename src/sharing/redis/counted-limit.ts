import type { Clock, Duration, Instant } from "../../clock.ts";
import { type LimitAnswer, type LimitClaim, type LimitKind, type WindowName, Windows } from "../limits.ts";
import { SlidingWindow } from "../sliding-window.ts";
import type { Membership } from "./membership.ts";

/**
 * Share of a limit that all replicas together may grant without asking Redis first. Calls to a registry are all asked
 * for; a client's requests would wait for Redis too often.
 */
export const SLACK: Readonly<Record<LimitKind, number>> = { upstream: 0, client: 0.1, address: 0.1 };

/** What a replica knows of one window of a limit. */
export class CountedWindow {
  readonly name: string;
  readonly per: Duration;
  /** All calls of this replica. */
  readonly own: SlidingWindow;
  /** Those of them that are not in Redis. */
  readonly unsent: SlidingWindow;
  /** Calls that are on their way to Redis: it lacks them until it says otherwise. */
  sending = 0;
  /** Calls that are allowed, as last claimed. */
  requests = 0;
  /** When that was: a reload may have given the limit another length since. */
  claimedAt: Instant = -Infinity;
  /** Calls in Redis, as last read. */
  known = 0;
  /**
   * What Redis said first since the replicas agreed who they are: the calls there, and those of them that are this
   * replica's. Until then what it said last.
   */
  private base = { at: -Infinity, known: 0, own: 0 };
  /** When there is likely to be room, after a refusal; and until when Redis is not asked again. */
  freeAt: Instant = -Infinity;
  refusedUntil: Instant = -Infinity;

  /** `longest`: of those of its name; Redis takes over what it has of that by itself. */
  constructor({ name, per }: WindowName, longest: CountedWindow | undefined, now: Instant) {
    this.name = name;
    this.per = per;
    this.own = new SlidingWindow(per).takeOver(longest?.own, now);
    this.unsent = new SlidingWindow(per).takeOver(longest?.unsent, now);
  }

  /** Redis had so many calls. */
  learn(known: number, { agreedAt }: Membership, now: Instant): void {
    this.known = known;
    const isStanding = this.base.at >= agreedAt && now - agreedAt < this.per;
    if (!isStanding) this.base = { at: now, known, own: this.own.count(now) };
  }

  /**
   * How many calls this replica may have in the window by itself. Those of replicas that are gone, or that had larger
   * shares before others came, are in no share of now: until they are out of the window, a share is of what Redis had left.
   */
  shareOf(members: Membership, now: Instant): number {
    const share = members.shareOf(this.requests);
    const { at, known, own } = this.base;
    if (now - members.agreedAt >= this.per || now - at >= this.per) return share;
    return Math.min(share, own + Math.floor((this.requests - known) / members.likelyCount));
  }

  /** Counts a call that Redis is told of later. */
  add(now: Instant): void {
    this.own.add(now);
    this.unsent.add(now);
  }
}

/** What a replica knows of one limit. */
export class CountedLimit {
  readonly kind: LimitKind;
  readonly id: string;
  readonly windows: Windows<CountedWindow>;
  /** Names the value in Redis that calls were counted in: one with another name has forgotten them. */
  born = "";
  /** Calls that Redis is being asked for. */
  asking = 0;
  isSending = false;
  restoring: Promise<void> | undefined;
  /** All calls from before then are in the value of this name. */
  restoredAt: Instant = -Infinity;

  private readonly clock: Clock;

  constructor({ kind, id }: LimitClaim, clock: Clock) {
    this.kind = kind;
    this.id = id;
    this.clock = clock;
    this.windows = new Windows((name, longest) => new CountedWindow(name, longest, clock.steadyNow()));
  }

  /** The windows of a claim, in its order. */
  of({ windows }: LimitClaim): CountedWindow[] {
    const now = this.clock.steadyNow();
    return windows.map((each) => {
      const window = this.windows.of(each);
      window.requests = each.requests;
      window.claimedAt = now;
      return window;
    });
  }

  /** Counts a call in these windows, and all of their names, that Redis is told of later. */
  add(claimed: readonly CountedWindow[], now: Instant): void {
    for (const window of this.windows.named(claimed)) window.add(now);
  }
}

/** As far as is known, where Redis is not asked or refused. */
export function refusal(
  windows: readonly CountedWindow[],
  now: Instant,
  retryIn: (window: CountedWindow) => Duration,
): LimitAnswer {
  const used = windows.map(({ own, unsent, known }) => Math.max(own.count(now), known + unsent.count(now)));
  return { granted: false, used, retryIn: windows.map(retryIn) };
}
