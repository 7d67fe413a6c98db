import { LRUCache } from "lru-cache";
import type { Clock, Instant } from "../clock.ts";
import type { CallGrant, CallLimit } from "./coordinator.ts";

/** Budgets are few (upstreams times endpoints); the bound is for names gone with an old configuration. */
const MAX_BUDGETS = 4_096;

/**
 * Call budgets of one process, exact in any window: a call is granted only when the call `requests` before it was made
 * at least `per` ago.
 */
export class CallWindows {
  private readonly clock: Clock;
  private readonly calls = new LRUCache<string, Instant[]>({ max: MAX_BUDGETS });

  constructor(clock: Clock) {
    this.clock = clock;
  }

  take(name: string, limit: CallLimit): CallGrant {
    const now = this.clock.now();
    const calls = this.recent(name, limit);
    if (limit.requests <= 0) return { granted: false, retryIn: limit.per };
    if (calls.length < limit.requests) {
      calls.push(now);
      return { granted: true, left: limit.requests - calls.length };
    }
    return { granted: false, retryIn: calls[calls.length - limit.requests]! + limit.per - now };
  }

  /** Notes a call that was granted elsewhere. */
  note(name: string, limit: CallLimit): void {
    this.recent(name, limit).push(this.clock.now());
  }

  /** The calls of the last `per`, oldest first. */
  private recent(name: string, limit: CallLimit): Instant[] {
    const calls = this.calls.get(name) ?? [];
    this.calls.set(name, calls);
    const begin = this.clock.now() - limit.per;
    let old = 0;
    while (old < calls.length && calls[old]! <= begin) old += 1;
    if (old > 0) calls.splice(0, old);
    return calls;
  }
}
