import { LRUCache } from "lru-cache";
import type { Clock, Duration, Instant } from "../clock.ts";
import type { CallGrant, CallLimit } from "./coordinator.ts";

/** Rate limits are few (upstreams times endpoints); the bound is for names gone with an old configuration. */
const MAX_WINDOWS = 4_096;

/** The calls of one rate limit in its last window. */
interface CallWindow {
  readonly name: string;
  readonly per: Duration;
  /** Oldest first. */
  readonly calls: readonly Instant[];
}

/**
 * Rate limits of one process, exact in any window: a call is granted only when the call `requests` before it was made
 * at least `per` ago.
 */
export class CallWindows {
  private readonly clock: Clock;
  private readonly windows = new LRUCache<string, { per: Duration; calls: Instant[] }>({
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
    const calls = this.recent(name, limit.per);
    calls.push(this.stamp());
    return { granted: true, left: limit.requests - calls.length };
  }

  /** How long until a call may be granted; 0 when one may be now. */
  retryIn(name: string, { requests, per }: CallLimit): Duration {
    if (requests <= 0) return per;
    const calls = this.recent(name, per);
    return calls.length < requests ? 0 : calls[calls.length - requests]! + per - this.clock.now();
  }

  /** Notes a call that is about to be granted elsewhere; the instant it has is no other call's. */
  note(name: string, per: Duration): Instant {
    const at = this.stamp();
    this.recent(name, per).push(at);
    return at;
  }

  /** Forgets a call that was not granted after all. */
  forget(name: string, per: Duration, at: Instant): void {
    const calls = this.recent(name, per);
    const index = calls.lastIndexOf(at);
    if (index !== -1) calls.splice(index, 1);
  }

  /** How many calls there were in the last `per`. */
  count(name: string, per: Duration): number {
    return this.recent(name, per).length;
  }

  all(): CallWindow[] {
    return [...this.windows.entries()].map(([name, { per }]) => ({ name, per, calls: this.recent(name, per) }));
  }

  private stamp(): Instant {
    this.lastStamp = Math.max(this.clock.now(), this.lastStamp + 0.001);
    return this.lastStamp;
  }

  /** The calls of the last `per`, oldest first. */
  private recent(name: string, per: Duration): Instant[] {
    const window = this.windows.get(name) ?? { per, calls: [] };
    window.per = per;
    this.windows.set(name, window);
    const { calls } = window;
    const begin = this.clock.now() - per;
    let old = 0;
    while (old < calls.length && calls[old]! <= begin) old += 1;
    if (old > 0) calls.splice(0, old);
    return calls;
  }
}
