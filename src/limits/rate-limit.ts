import type { Clock, Duration, Instant, MaybePromise } from "../clock.ts";
import type { UpstreamConfig } from "../config/schema.ts";
import type { Coordinator } from "../sharing/ports.ts";
import type { LimitAnswer, LimitClaim, LimitWindow } from "../sharing/limits.ts";
import { GatewayError } from "../errors.ts";
import type { Operation } from "../spec/operations.ts";
import {
  CountedCalls,
  formatRefusal,
  LONGEST_RETRY_AFTER,
  parseRefusal,
  type RateLimitGroups,
  whoseLimit,
} from "./counted-calls.ts";
import { Recurrence } from "../recurrence.ts";
import { PRIORITIES, type Priority, type WaitTerms } from "./wait-queue.ts";

export type RateLimitConfig = NonNullable<UpstreamConfig["rateLimit"]>;

/** A call that is to count. */
export interface CountedCall extends WaitTerms {
  readonly operation: Operation;
  /** How long it waits at most, if less than the `maxWait` that is configured. */
  readonly maxWait?: Duration | undefined;
}

interface RateLimitParts {
  readonly upstream: string;
  readonly rateLimit: RateLimitConfig;
  readonly coordinator: Pick<Coordinator, "announcements" | "limits">;
  readonly clock: Clock;
  readonly groups: RateLimitGroups;
  /** The upstream answered 429: calls are rationed to `share` of the limit. `isNew`: as {@link Recurrence}. */
  readonly onRation: (share: number, isNew: boolean) => void;
}

/** Up to which share of the window calls of a priority may fill it: the rest is kept for more urgent ones. */
const SHARES: Readonly<Record<Priority, number>> = { post: 1, miss: 0.8, refresh: 0.65, background: 0.5 };

/**
 * Calls do not all travel equally long: granted in one window, they may arrive in a shorter one. What the way varies by has
 * nothing to do with the window, but a short window is no longer by more than a tenth.
 */
const TRAVEL: Duration = 100;
const LONGEST_TRAVEL: Duration = 1_000;

/** A refusal is believed for this long at most: what replicas count together may be anybody's who can write there. */
const ASK_AGAIN_AFTER: Duration = 1_000;

/** Calls that are asked for at once for those that wait: one by one they would take a round trip to Redis each. */
const MOST_AT_ONCE = 32;

/** After an upstream's 429. */
const SHRINK = 0.5;
const LEAST_SHARE = 0.1;
/** Refusals within this time are one. */
const ONE_EVENT: Duration = 1_000;
const LONGEST_RECOVERY: Duration = 600_000;

/**
 * At most so many calls in any window, shared by all replicas through the coordinator, and by the upstreams of a group.
 * Urgent calls go first, equally urgent ones in the order they came; what would wait too long is refused at once.
 */
export class RateLimit {
  private readonly parts: RateLimitParts;
  private readonly whose: string;
  private readonly limits: readonly LimitWindow[];
  /** A call that is made later than this after it was granted counts from when it is made. */
  private readonly leeway: Duration;
  /** Of a group: those of all its members. What was learned outlives a reload. */
  private readonly counted: Map<string, CountedCalls>;
  private readonly rations: Recurrence;

  constructor(parts: RateLimitParts) {
    const { upstream, rateLimit, groups, clock } = parts;
    this.parts = parts;
    this.limits = windowsOf(rateLimit);
    this.leeway = Math.min(...this.limits.map(({ per }) => travelIn(per))) / 2;
    this.whose = whoseLimit({ name: upstream, rateLimit });
    this.counted = groups.of(this.whose);
    this.rations = new Recurrence(clock);
  }

  /** Calls left in the main window, as last seen within it: all of them where none was taken for so long. */
  get left(): number {
    const { requests, per } = this.limits[0]!;
    const since = this.parts.clock.now() - per;
    const recent = [...this.counted.values()].filter(({ leftAt }) => leftAt > since);
    return Math.min(requests, ...recent.map(({ left }) => left));
  }

  get queued(): number {
    let queued = 0;
    for (const { queue } of this.counted.values()) queued += queue.size;
    return queued;
  }

  /** Takes a call without waiting for one: false when there is none. */
  tryTake(operation: Operation, priority: Priority): MaybePromise<boolean> {
    const counted = this.countedOf(operation);
    return counted.queue.size === 0 && this.ask(counted, operation, priority);
  }

  /**
   * Takes a call: undefined when it was there at once, else resolves when its turn has come.
   * @throws {@link GatewayError} 429 (in the promise) when it would have to wait longer than `maxWait` or its deadline.
   */
  take(call: CountedCall): undefined | Promise<void> {
    const { operation, priority } = call;
    const counted = this.countedOf(operation);
    if (counted.queue.sizeBefore(priority) > 0) return this.queueUp(counted, call);
    const granted = this.ask(counted, operation, priority);
    if (granted instanceof Promise) return granted.then((is) => (is ? undefined : this.queueUp(counted, call)));
    return granted ? undefined : this.queueUp(counted, call);
  }

  /**
   * A call that was granted at `grantedAt` is made only now, for it had to wait for a connection or for credentials. It
   * counts from now on: what was counted then is soon out of the window, and this call would come on top of the next ones.
   * Where its grant is out of a window it takes another.
   * @throws as {@link take}
   */
  begin(call: CountedCall, grantedAt: Instant): undefined | Promise<void> {
    return this.isInTime(call.operation, grantedAt) ? undefined : this.take(call);
  }

  /** The upstream answered 429 although the budget allowed the call: the real limit is lower, for other processes as well. */
  shrink(operation: Operation, retryAfter: number | undefined): void {
    const pause = Math.min(Math.ceil((retryAfter ?? 0) * 1_000), LONGEST_RETRY_AFTER);
    if (!this.obey(operation, pause, true)) return;
    this.parts.coordinator.announcements.announce(formatRefusal({ whose: this.whose, operation, pause }), {
      isBrief: true,
    });
  }

  /** Another process announced something: it may be that it was answered 429 for what this limit is about. */
  receive(event: string): void {
    const refusal = parseRefusal(event);
    if (refusal?.whose === this.whose) this.obey(refusal.operation, refusal.pause, false);
  }

  /** Makes no call for `pause`, and fewer for a while. False where that was known; `isOwn`: the answer came to this process. */
  private obey(operation: Operation, pause: Duration, isOwn: boolean): boolean {
    const counted = this.countedOf(operation);
    const now = this.parts.clock.now();
    const isLonger = now + pause >= counted.pausedUntil + ONE_EVENT && pause > 0;
    counted.pausedUntil = Math.max(counted.pausedUntil, now + pause);
    // The answers to calls that were already on their way are one event.
    if (now - counted.shrunkAt < ONE_EVENT) return isLonger;
    if (this.shareOf(counted, now) === 1) this.rations.end();
    counted.share = Math.max(this.shareOf(counted, now) * SHRINK, LEAST_SHARE);
    counted.shrunkAt = now;
    this.parts.onRation(counted.share, isOwn && this.rations.isDue());
    return true;
  }

  private countedOf(operation: Operation): CountedCalls {
    const key = this.parts.rateLimit.perEndpoint ? operation : "";
    let counted = this.counted.get(key);
    if (counted === undefined) this.counted.set(key, (counted = new CountedCalls(this.parts.clock)));
    return counted;
  }

  /** The share of the limit in use: after a 429 it grows back over two windows. */
  private shareOf({ share, shrunkAt }: CountedCalls, now: Instant): number {
    const recovery = Math.min(this.parts.rateLimit.per * 2, LONGEST_RECOVERY);
    return Math.min(1, share + (now - shrunkAt) / recovery);
  }

  /** Whether a call that was granted at `grantedAt` may be made now; if so, it counts from now on. */
  private isInTime(operation: Operation, grantedAt: Instant): boolean {
    const { clock, coordinator } = this.parts;
    const late = clock.now() - grantedAt;
    if (this.limits.some(({ per }) => late >= per)) return false;
    if (late > this.leeway) coordinator.limits.recount(this.claim(operation, this.limits));
    return true;
  }

  private claim(operation: Operation, windows: readonly LimitWindow[]): LimitClaim {
    const id = this.parts.rateLimit.perEndpoint ? `${this.whose}:${operation}` : this.whose;
    return { kind: "upstream", id, windows };
  }

  /** Asks for a call: whether it was granted. */
  private ask(counted: CountedCalls, operation: Operation, priority: Priority): MaybePromise<boolean> {
    const now = this.parts.clock.now();
    if (counted.asksAt(priority) > now) return false;
    const inUse = this.shareOf(counted, now);
    const whole = this.limits.map(({ requests }) => Math.max(1, Math.floor(requests * inUse)));
    // The same windows with smaller limits: granted only while those before it leave so much.
    const windows = this.limits.map((each, i) => ({ ...each, requests: Math.ceil(whole[i]! * SHARES[priority]) }));
    const answer = this.parts.coordinator.limits.take(this.claim(operation, windows));
    const note = (each: LimitAnswer) => this.note(counted, { priority, whole, answer: each });
    return answer instanceof Promise
      ? answer.then((each) => note(each) && this.isInTime(operation, now))
      : note(answer);
  }

  private note(counted: CountedCalls, { priority, whole, answer }: Asked): boolean {
    const now = this.parts.clock.now();
    // Not of `burst`, which a few calls fill: that says nothing of how much of the limit is used.
    counted.left = Math.max(0, whole[0]! - answer.used[0]!);
    counted.leftAt = now;
    if (answer.granted) return true;
    const retryIn = Math.max(...answer.retryIn);
    // What is refused to a call is refused to less urgent ones as well.
    for (const each of PRIORITIES.slice(PRIORITIES.indexOf(priority))) {
      counted.freeAt[each] = now + retryIn;
      counted.askAt[each] = now + Math.min(retryIn, ASK_AGAIN_AFTER);
    }
    return false;
  }

  private queueUp(
    counted: CountedCalls,
    { operation, priority, maxWait, deadline, signal }: CountedCall,
  ): Promise<void> {
    const { clock, rateLimit } = this.parts;
    const now = clock.now();
    const ahead = counted.queue.sizeBefore(priority);
    const wait = Math.max(counted.grantedAt(priority) - now, 0) + (ahead * rateLimit.per) / rateLimit.requests;
    const longest = Math.min(rateLimit.maxWait, maxWait ?? Infinity, deadline - now);
    if (wait > longest) return Promise.reject(this.refusal(counted, wait));
    const turn = counted.queue.wait({
      priority,
      until: now + longest,
      signal,
      late: () => this.refusal(counted, Math.max(counted.grantedAt(priority) - clock.now(), 0)),
    });
    counted.pump = () => this.pump(counted, operation);
    this.schedulePump(counted);
    return turn;
  }

  private schedulePump(counted: CountedCalls): void {
    const { head } = counted.queue;
    if (counted.isPumping || head === undefined) return;
    const { clock } = this.parts;
    const at = Math.max(counted.asksAt(head), clock.now() + 1);
    // One that waits already may be less urgent, and have to wait for longer.
    if (counted.next !== undefined && at >= counted.next.at) return;
    counted.next?.cancel();
    counted.next = { at, cancel: clock.after(at - clock.now(), () => void counted.pump()) };
  }

  /** Lets waiting calls go as long as there is something to take. */
  private async pump(counted: CountedCalls, operation: Operation): Promise<void> {
    counted.isPumping = true;
    counted.next = undefined;
    let granted = 0;
    let isRefused = false;
    while (!isRefused && counted.queue.head !== undefined) {
      const { head } = counted.queue;
      const length = Math.min(counted.queue.sizeOf(head), counted.atOnce);
      const answers = await Promise.all(Array.from({ length }, async () => this.ask(counted, operation, head)));
      for (const isGranted of answers) if (isGranted) counted.queue.admitNext();
      granted += answers.filter(Boolean).length;
      isRefused = answers.includes(false);
      counted.atOnce = Math.min(granted + 1, MOST_AT_ONCE);
    }
    counted.isPumping = false;
    this.schedulePump(counted);
  }

  private refusal(counted: CountedCalls, wait: Duration): GatewayError {
    const { upstream, rateLimit, clock } = this.parts;
    const { group } = rateLimit;
    const who = group === undefined ? `upstream "${upstream}"` : `the upstreams of the group "${group}" together`;
    const retryAfter = Math.max(1, Math.ceil(Math.floor(wait) / 1_000));
    const why =
      this.shareOf(counted, clock.now()) < 1
        ? `upstream "${upstream}" answered 429 Too Many Requests and is asked less for a while`
        : `the gateway may ask ${who} ${sayRates(rateLimit)}, and that is used up`;
    return new GatewayError("too_many_requests", `${why}; try again in ${retryAfter} s`, { retryAfter });
  }
}

interface Asked {
  readonly priority: Priority;
  /** What each window allows to the most urgent calls. */
  readonly whole: readonly number[];
  readonly answer: LimitAnswer;
}

/** The windows of a limit, each a little longer, for calls do not all travel equally long. */
function windowsOf({ requests, per, burst }: RateLimitConfig): LimitWindow[] {
  const window = (name: string, most: number, length: Duration) => {
    return { name, requests: most, per: Math.ceil(length + travelIn(length)) };
  };
  const whole = window("calls", requests, per);
  return burst === undefined ? [whole] : [whole, window("burst", burst.requests, burst.per)];
}

function travelIn(length: Duration): Duration {
  return Math.min(Math.max(length / 100, Math.min(TRAVEL, length / 10)), LONGEST_TRAVEL);
}

function sayRates({ requests, per, burst }: RateLimitConfig): string {
  const whole = `${requests} times in ${per / 1_000} s`;
  return burst === undefined ? whole : `${whole} and ${burst.requests} times in ${burst.per / 1_000} s`;
}
