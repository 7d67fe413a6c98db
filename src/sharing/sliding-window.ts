import type { Duration, Instant } from "../clock.ts";

/**
 * A window of time is counted in this many slots. A call counts until its whole slot is out of the window, so a limit is
 * never exceeded in any window, and a steady caller gets at most one part in fifty less than it.
 */
export const SLOTS = 50;

/** At most `requests` calls in any window of `per` (whole milliseconds). */
export interface Rate {
  readonly requests: number;
  readonly per: Duration;
}

/** Calls of one slot, as {@link SlidingWindow.ages} names them: made at most this long ago. */
export interface AgedCalls {
  readonly age: Duration;
  readonly count: number;
}

/**
 * The calls of the last `per`, in at most {@link SLOTS} + 1 counts. Redis counts in the same way: `redis/limit-scripts.ts`.
 */
export class SlidingWindow {
  private readonly slotLength: Duration;
  /** Numbers of the slots with calls, oldest first, and beside each its calls. */
  private readonly slots: number[] = [];
  private readonly counts: number[] = [];
  private total = 0;

  constructor(per: Duration) {
    this.slotLength = per / SLOTS;
  }

  /** Calls in the window that ends now. */
  count(now: Instant): number {
    const oldest = this.slotAt(now) - SLOTS;
    while (this.slots.length > 0 && this.slots[0]! < oldest) {
      this.slots.shift();
      this.total -= this.counts.shift()!;
    }
    return this.total;
  }

  /** Counts calls that are made now. */
  add(now: Instant, calls = 1): void {
    const slot = this.slotAt(now);
    const last = this.slots.length - 1;
    this.total += calls;
    if (last >= 0 && this.slots[last]! >= slot) this.counts[last]! += calls;
    else {
      this.slots.push(slot);
      this.counts.push(calls);
    }
  }

  /** How long until another call makes at most `requests` calls; 0 when it does now. */
  freeIn(now: Instant, requests: number): Duration {
    let excess = this.count(now) + 1 - requests;
    for (let i = 0; excess > 0 && i < this.slots.length; i += 1) {
      excess -= this.counts[i]!;
      if (excess <= 0) return Math.max((this.slots[i]! + SLOTS + 1) * this.slotLength - now, 1);
    }
    return excess > 0 ? this.slotLength * SLOTS : 0;
  }

  /** All calls, as no older than they are. */
  ages(now: Instant): AgedCalls[] {
    this.count(now);
    return this.slots.map((slot, i) => ({
      age: Math.max(0, now - (slot + 1) * this.slotLength),
      count: this.counts[i]!,
    }));
  }

  /** Counts what a window of another length counts, so far as it is in this one. */
  takeOver(other: SlidingWindow | undefined, now: Instant): this {
    for (const { age, count } of other?.ages(now) ?? []) this.add(now - age, count);
    return this;
  }

  /** Forgets all calls. */
  clear(): void {
    this.slots.length = 0;
    this.counts.length = 0;
    this.total = 0;
  }

  private slotAt(instant: Instant): number {
    return Math.floor(instant / this.slotLength);
  }
}
