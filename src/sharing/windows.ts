import type { Clock, Duration, Instant } from "../clock.ts";
import type { Rate } from "../config/schema.ts";
import type { Grant, Limiter } from "./ports.ts";

/**
 * Slots in which a window is counted. A call counts until its whole slot is out of the window: never more calls in any window,
 * and for a steady caller a twentieth less at the most. Redis counts in the same way (`redis/scripts.ts`).
 */
export const SLOTS = 20;

/** Keys (of upstreams and groups) that are remembered; beyond it those that were used the longest ago are forgotten. */
const MOST_KEYS = 10_000;

/** Counts of the calls of one process, in memory. */
export class WindowLimiter implements Limiter {
  private readonly clock: Clock;
  private readonly counted = new Map<string, Map<Duration, Slot[]>>();

  constructor(clock: Clock) {
    this.clock = clock;
  }

  take(key: string, windows: readonly Rate[]): Promise<Grant> {
    const now = this.clock.now();
    const slots = new Map<Duration, Slot[]>();
    // Windows of another length stay while they count: before and after a reload, calls ask by either.
    for (const [per, counts] of this.counted.get(key) ?? []) {
      const counted = counts.filter(isCounted(now, per));
      if (counted.length > 0) slots.set(per, counted);
    }
    for (const { per } of windows) if (!slots.has(per)) slots.set(per, []);
    this.keep(key, slots);
    const retryIn = Math.max(...windows.map((window) => waitFor(window, slots.get(window.per)!, now)));
    if (retryIn > 0) return Promise.resolve({ granted: false, retryIn });
    for (const { per } of windows) count(slots.get(per)!, slotAt(now, per));
    return Promise.resolve({ granted: true });
  }

  private keep(key: string, slots: Map<Duration, Slot[]>): void {
    this.counted.delete(key);
    this.counted.set(key, slots);
    if (this.counted.size <= MOST_KEYS) return;
    const [oldest] = this.counted.keys();
    this.counted.delete(oldest!);
  }
}

/** Calls in a part of a window; slots are numbered from the clock's origin. */
interface Slot {
  readonly at: number;
  calls: number;
}

function slotAt(now: Instant, per: Duration): number {
  return Math.floor((now * SLOTS) / per);
}

function isCounted(now: Instant, per: Duration): (slot: Slot) => boolean {
  const oldest = slotAt(now, per) - SLOTS;
  return ({ at }) => at >= oldest;
}

/** Time until one more call keeps to `requests`; 0: it does now. `slots` are in order. */
function waitFor({ requests, per }: Rate, slots: readonly Slot[], now: Instant): Duration {
  let over = slots.reduce((sum, { calls }) => sum + calls, 1) - requests;
  for (const { at, calls } of slots) {
    if (over <= 0) break;
    over -= calls;
    if (over <= 0) return Math.max(((at + SLOTS + 1) * per) / SLOTS - now, 1);
  }
  return over > 0 ? per : 0;
}

function count(slots: Slot[], at: number): void {
  const last = slots.at(-1);
  if (last?.at === at) last.calls += 1;
  else slots.push({ at, calls: 1 });
}
