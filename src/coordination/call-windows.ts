import { LRUCache } from "lru-cache";
import type { Clock, Duration, Instant } from "../clock.ts";
import type { CallGrant, CallLimit } from "./coordinator.ts";

/** Rate limits are few (upstreams times endpoints); the bound is for names gone with an old configuration. */
const MAX_WINDOWS = 4_096;

/** Of a limit that several share, what is kept for those who have had less than their part of it. */
export const KEPT_FOR_OTHERS = 0.1;

/** For so many windows a member that was refused counts as one that comes back: it is told to when one has gone by. */
export const WANTED_FOR = 1.25;

/** The calls of one rate limit in its last window. */
interface CallWindow {
  per: Duration;
  /** Oldest first. */
  readonly calls: Instant[];
  /** Who made each of them; empty where the limit has no members. */
  readonly callers: string[];
  /** How many of them are of each. */
  readonly counts: Map<string, number>;
  /** When a member was last refused that had not had its part. */
  readonly refusedAt: Map<string, Instant>;
}

/**
 * Rate limits of one process, exact in any window: a call is granted only when the call `requests` before it was made
 * at least `per` ago.
 */
export class CallWindows {
  private readonly clock: Clock;
  private readonly windows = new LRUCache<string, CallWindow>({
    maxSize: MAX_WINDOWS,
    sizeCalculation: () => 1,
  });
  private lastStamp: Instant = -Infinity;

  constructor(clock: Clock) {
    this.clock = clock;
  }

  take(name: string, limit: CallLimit): CallGrant {
    const retryIn = this.retryIn(name, limit);
    if (retryIn > 0) return { granted: false, retryIn };
    this.note(name, limit);
    return { granted: true, left: limit.requests - this.count(name, limit.per) };
  }

  /** How long until a call may be granted; 0 when one may be now. */
  retryIn(name: string, limit: CallLimit): Duration {
    const { requests, per, member } = limit;
    const window = this.recent(name, per);
    const { calls } = window;
    const now = this.clock.now();
    const most = member === undefined ? requests : mostFor(window, limit, member, now);
    if (calls.length < most) return 0;
    if (member !== undefined && most === requests) window.refusedAt.set(member, now);
    return most <= 0 ? per : calls[calls.length - most]! + per - now;
  }

  /** Notes a call that is about to be granted elsewhere; the instant it has is no other call's. */
  note(name: string, { per, member = "" }: Omit<CallLimit, "requests">): Instant {
    const at = this.stamp();
    const { calls, callers, counts } = this.recent(name, per);
    calls.push(at);
    callers.push(member);
    counts.set(member, (counts.get(member) ?? 0) + 1);
    return at;
  }

  /** Forgets a call that was not granted after all. */
  forget(name: string, per: Duration, at: Instant): void {
    const window = this.recent(name, per);
    const index = window.calls.lastIndexOf(at);
    if (index !== -1) drop(window, index, 1);
  }

  /** How many calls there were in the last `per`. */
  count(name: string, per: Duration): number {
    return this.recent(name, per).calls.length;
  }

  /** The calls of each rate limit, oldest first, and who made each of them. */
  all(): { name: string; per: Duration; calls: readonly Instant[]; callers: readonly string[] }[] {
    return [...this.windows.entries()].map(([name, { per }]) => {
      const { calls, callers } = this.recent(name, per);
      return { name, per, calls, callers };
    });
  }

  private stamp(): Instant {
    this.lastStamp = Math.max(this.clock.now(), this.lastStamp + 0.001);
    return this.lastStamp;
  }

  /** The calls of the last `per`. */
  private recent(name: string, per: Duration): CallWindow {
    const window: CallWindow = this.windows.get(name) ?? {
      per,
      calls: [],
      callers: [],
      counts: new Map(),
      refusedAt: new Map(),
    };
    window.per = per;
    this.windows.set(name, window);
    const { calls } = window;
    const begin = this.clock.now() - per;
    let old = 0;
    while (old < calls.length && calls[old]! <= begin) old += 1;
    if (old > 0) drop(window, 0, old);
    return window;
  }
}

/**
 * Up to which count of calls in the window one of several members may have another. One that has not had its part (the
 * limit, divided among those who called or want to) may fill the window. One that has leaves what is missing of their
 * parts to those who were refused, and a tenth to those who have yet to ask: so a flood of one takes nothing that others
 * cannot have at once, and in the next window each has its part. The same as in Redis (`redis/shared-rate-limits.ts`).
 */
function mostFor(
  { counts, refusedAt }: CallWindow,
  { requests, per }: CallLimit,
  member: string,
  now: Instant,
): number {
  for (const [each, at] of refusedAt) if (now - at >= per * WANTED_FOR) refusedAt.delete(each);
  const part = requests / Math.max(2, new Set([member, ...counts.keys(), ...refusedAt.keys()]).size);
  if ((counts.get(member) ?? 0) < part) return requests;
  let missing = 0;
  for (const each of refusedAt.keys()) {
    if (each !== member) missing += Math.max(0, Math.floor(part) - (counts.get(each) ?? 0));
  }
  return requests - Math.max(Math.ceil(requests * KEPT_FOR_OTHERS), missing);
}

function drop({ calls, callers, counts }: CallWindow, index: number, count: number): void {
  calls.splice(index, count);
  for (const caller of callers.splice(index, count)) {
    const left = counts.get(caller)! - 1;
    if (left > 0) counts.set(caller, left);
    else counts.delete(caller);
  }
}
