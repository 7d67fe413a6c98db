import type { AbortSignalLike, Clock, Duration, Instant } from "../../clock.ts";
import type { UpstreamConfig } from "../../config/schema.ts";
import type { CallGrant, Coordinator, MaybePromise } from "../../coordination/coordinator.ts";
import { GatewayError } from "../../errors.ts";
import { type Operation, OPERATIONS } from "../../spec/endpoints.ts";
import type { Priority } from "../call.ts";
import { News } from "../news.ts";
import { PRIORITIES, WaitQueue } from "./concurrency-limit.ts";
import { Ration, type RateLimitGroups } from "./rate-limit-groups.ts";

export type RateLimitConfig = NonNullable<UpstreamConfig["rateLimit"]>;

/** Who asks for a call. */
export interface Spender {
  readonly operation: Operation;
  readonly priority: Priority;
  readonly deadline: Instant;
  readonly signal?: AbortSignalLike | undefined;
}

interface RateLimitParts {
  readonly upstream: string;
  readonly rateLimit: RateLimitConfig;
  readonly coordinator: Coordinator;
  readonly clock: Clock;
  readonly groups: RateLimitGroups;
  /** The upstream answered 429: calls are rationed to `share` of the limit. `isNews`: as {@link News}. */
  readonly onRation: (share: number, isNews: boolean) => void;
}

/** Up to which share of the window calls of a priority may fill it: the rest is kept for more urgent ones. */
const SHARES: Readonly<Record<Priority, number>> = { post: 1, miss: 0.8, refresh: 0.65, background: 0.5 };

/** Calls do not all travel equally long: granted in one window, they may arrive in a shorter one. */
const TRAVEL_SHARE = 0.01;
const LONGEST_TRAVEL: Duration = 1_000;

/** How long an upstream that was served lets the others of its group ask first. */
const TURN: Duration = 2;

/** After an upstream's 429. */
const SHRINK = 0.5;
const LEAST_SHARE = 0.1;
const LONGEST_RETRY_AFTER: Duration = 60_000;
/** Refusals within this time are one. */
const ONE_EVENT: Duration = 1_000;
const LONGEST_RECOVERY: Duration = 600_000;

/** One window of calls: of the whole upstream, or of one endpoint; of all its group where it has one. */
class CallWindow {
  readonly name: string;
  readonly ration: Ration;
  readonly queue: WaitQueue;
  /** Until when asking for a call of this priority is known to be in vain. */
  readonly deniedUntil: Record<Priority, Instant> = { post: 0, miss: 0, refresh: 0, background: 0 };
  isPumping = false;

  constructor(name: string, ration: Ration, clock: Clock) {
    this.name = name;
    this.ration = ration;
    this.queue = new WaitQueue(clock);
  }
}

/**
 * At most so many calls in any window, shared by all replicas through the coordinator. Urgent calls go first; what
 * would wait too long is refused at once.
 */
export class RateLimit {
  private readonly parts: RateLimitParts;
  private readonly span: Duration;
  private readonly windows = new Map<string, CallWindow>();
  private readonly rations: News;

  constructor(parts: RateLimitParts) {
    const { per } = parts.rateLimit;
    this.parts = parts;
    this.span = per + Math.min(per * TRAVEL_SHARE, LONGEST_TRAVEL);
    this.rations = new News(parts.clock);
  }

  /** Calls left in the window as last seen: the least of all windows. */
  get left(): number | undefined {
    const { rateLimit, groups } = this.parts;
    const rations =
      rateLimit.group === undefined
        ? [...this.windows.values()].map(({ ration }) => ration)
        : groups.rationsOf(rateLimit.group);
    const lefts = rations.flatMap(({ left }) => left ?? []);
    return lefts.length === 0 ? undefined : Math.min(...lefts);
  }

  /** As one of several of its group; undefined where it has the limit for itself. */
  private get member(): string | undefined {
    const { upstream, rateLimit, groups } = this.parts;
    return rateLimit.group !== undefined && groups.isShared(rateLimit.group) ? upstream : undefined;
  }

  get queued(): number {
    let queued = 0;
    for (const window of this.windows.values()) queued += window.queue.size;
    return queued;
  }

  /** Takes a call without waiting for one: false when there is none. */
  tryTake(operation: Operation, priority: Priority): MaybePromise<boolean> {
    const window = this.windowOf(operation);
    if (window.queue.size > 0) return false;
    const granted = this.ask(window, priority);
    return granted instanceof Promise ? granted.then((grant) => grant.granted) : granted.granted;
  }

  /**
   * Takes a call: undefined when it was there at once, else resolves when its turn has come.
   * @throws {@link GatewayError} 429 (in the promise) when it would have to wait longer than `maxWait` or its deadline.
   */
  take(spender: Spender): undefined | Promise<void> {
    const window = this.windowOf(spender.operation);
    if (window.queue.sizeBefore(spender.priority) > 0) return this.queueUp(window, spender);
    const granted = this.ask(window, spender.priority);
    if (granted instanceof Promise) {
      return granted.then((grant) => (grant.granted ? undefined : this.queueUp(window, spender)));
    }
    return granted.granted ? undefined : this.queueUp(window, spender);
  }

  /** The upstream answered 429 although the budget allowed the call: the real limit is lower, for other processes as well. */
  shrink(operation: Operation, retryAfter: number | undefined): void {
    const pause = Math.min(Math.ceil((retryAfter ?? 0) * 1_000), LONGEST_RETRY_AFTER);
    if (!this.heed(operation, pause, true)) return;
    this.parts.coordinator.announce(formatRefusal({ whose: this.whose, operation, pause }), { isBrief: true });
  }

  /** Another process announced something: it may be that it was answered 429 for what this limit is about. */
  hear(news: string): void {
    const refusal = parseRefusal(news);
    if (refusal?.whose === this.whose) this.heed(refusal.operation, refusal.pause, false);
  }

  /** Makes no call for `pause`, and fewer for a while. False where that was known; `isOwn`: the answer came to this process. */
  private heed(operation: Operation, pause: Duration, isOwn: boolean): boolean {
    const { ration } = this.windowOf(operation);
    const now = this.parts.clock.now();
    const isLonger = now + pause >= ration.deniedUntil + ONE_EVENT && pause > 0;
    ration.deniedUntil = Math.max(ration.deniedUntil, now + pause);
    // The answers to calls that were already on their way are one event.
    if (now - ration.shrunkAt < ONE_EVENT) return isLonger;
    if (this.shareOf(ration, now) === 1) this.rations.end();
    ration.share = Math.max(this.shareOf(ration, now) * SHRINK, LEAST_SHARE);
    ration.shrunkAt = now;
    this.parts.onRation(ration.share, isOwn && this.rations.isDue());
    return true;
  }

  /** Names what shares its windows, the same in all processes. */
  private get whose(): string {
    const { rateLimit, upstream } = this.parts;
    return rateLimit.group === undefined ? `upstream:${upstream}` : `group:${rateLimit.group}`;
  }

  private windowOf(operation: Operation): CallWindow {
    const { rateLimit, groups, clock } = this.parts;
    const { group } = rateLimit;
    const key = rateLimit.perEndpoint ? operation : "";
    let window = this.windows.get(key);
    if (window === undefined) {
      const ration = group === undefined ? new Ration() : groups.ration(group, key);
      window = new CallWindow(rateLimit.perEndpoint ? `${this.whose}:${operation}` : this.whose, ration, clock);
      this.windows.set(key, window);
    }
    return window;
  }

  /** The share of the limit in use: after a 429 it grows back over two windows. */
  private shareOf({ share, shrunkAt }: Ration, now: Instant): number {
    const recovery = Math.min(this.parts.rateLimit.per * 2, LONGEST_RECOVERY);
    return Math.min(1, share + (now - shrunkAt) / recovery);
  }

  private ask(window: CallWindow, priority: Priority): MaybePromise<CallGrant> {
    const { clock, coordinator, rateLimit } = this.parts;
    const now = clock.now();
    const denied = deniedUntil(window, priority) - now;
    if (denied > 0) return { granted: false, retryIn: denied };
    const whole = Math.max(1, Math.floor(rateLimit.requests * this.shareOf(window.ration, now)));
    // The same window with a smaller limit: granted only while those before it leave so much.
    const requests = Math.ceil(whole * SHARES[priority]);
    const grant = coordinator.takeCall(window.name, { requests, per: this.span, member: this.member });
    const kept = whole - requests;
    return grant instanceof Promise
      ? grant.then((each) => this.note(window, priority, addKept(each, kept)))
      : this.note(window, priority, addKept(grant, kept));
  }

  private note(window: CallWindow, priority: Priority, grant: CallGrant): CallGrant {
    if (grant.granted) {
      window.ration.left = grant.left;
      return grant;
    }
    const until = this.parts.clock.now() + grant.retryIn;
    // What is refused to a call is refused to less urgent ones as well.
    for (const each of PRIORITIES.slice(PRIORITIES.indexOf(priority))) {
      window.deniedUntil[each] = Math.max(window.deniedUntil[each], until);
    }
    // In a group what is left may be for others.
    if (priority === "post" && this.member === undefined) window.ration.left = 0;
    return grant;
  }

  private queueUp(window: CallWindow, { priority, deadline, signal }: Spender): Promise<void> {
    const { clock, rateLimit } = this.parts;
    const now = clock.now();
    const ahead = window.queue.sizeBefore(priority);
    const wait = Math.max(deniedUntil(window, priority) - now, 0) + (ahead * rateLimit.per) / rateLimit.requests;
    const longest = Math.min(rateLimit.maxWait, deadline - now);
    if (wait > longest) return Promise.reject(this.refusal(window, wait));
    const turn = window.queue.wait({
      priority,
      until: now + longest,
      signal,
      late: () => this.refusal(window, Math.max(deniedUntil(window, priority) - clock.now(), 0)),
    });
    this.schedulePump(window);
    return turn;
  }

  private schedulePump(window: CallWindow): void {
    const { head } = window.queue;
    if (window.isPumping || head === undefined) return;
    window.isPumping = true;
    const { clock } = this.parts;
    // Who got the last call lets the others of its group ask first: where one call is free at a time, they take turns.
    const turn = this.member !== undefined && window.ration.lastServed === this.member ? TURN : 0;
    clock.after(Math.max(deniedUntil(window, head) - clock.now() + turn, 1), () => void this.pump(window));
  }

  /** Lets waiting calls go as long as there is something to take. */
  private async pump(window: CallWindow): Promise<void> {
    while (window.queue.head !== undefined) {
      const { granted } = await this.ask(window, window.queue.head);
      if (!granted) break;
      window.ration.lastServed = this.member;
      window.queue.admitNext();
    }
    window.isPumping = false;
    this.schedulePump(window);
  }

  private refusal(window: CallWindow, wait: Duration): GatewayError {
    const { upstream, rateLimit, clock } = this.parts;
    const { group } = rateLimit;
    const who = group === undefined ? `upstream "${upstream}"` : `the upstreams of the group "${group}" together`;
    const retryAfter = Math.max(1, Math.ceil(Math.floor(wait) / 1_000));
    const why =
      this.shareOf(window.ration, clock.now()) < 1
        ? `upstream "${upstream}" answered 429 Too Many Requests and is asked less for a while`
        : `the gateway may ask ${who} ${rateLimit.requests} times in ${rateLimit.per / 1_000} s, and that is used up`;
    return new GatewayError("too_many_requests", `${why}; try again in ${retryAfter} s`, { retryAfter });
  }
}

/** Until when asking for a call of this priority is known to be in vain. */
function deniedUntil(window: CallWindow, priority: Priority): Instant {
  return Math.max(window.deniedUntil[priority], window.ration.deniedUntil);
}

/** What is left of the whole window. */
function addKept(grant: CallGrant, kept: number): CallGrant {
  return grant.granted && kept > 0 ? { granted: true, left: grant.left + kept } : grant;
}

/** A 429 as processes announce it: to what it was the answer, and how long nothing is to be asked. */
interface Refusal {
  readonly whose: string;
  readonly operation: Operation;
  readonly pause: Duration;
}

function formatRefusal({ whose, operation, pause }: Refusal): string {
  return `refused ${operation} ${pause} ${whose}`;
}

/** Undefined for other news, and for what goes beyond the bounds of a refusal. */
function parseRefusal(news: string): Refusal | undefined {
  const [, name, pause, whose] = /^refused (\w+) (\d{1,5}) (.+)$/s.exec(news) ?? [];
  const operation = OPERATIONS.find((each) => each === name);
  if (operation === undefined || Number(pause) > LONGEST_RETRY_AFTER) return undefined;
  return { whose: whose!, operation, pause: Number(pause) };
}
