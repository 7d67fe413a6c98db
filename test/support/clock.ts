import type { CancelTimer, Clock, Duration, Instant } from "../../src/clock.ts";
import { parseDuration } from "../../src/units.ts";

interface Timer {
  at: Instant;
  readonly fire: () => void;
  real?: NodeJS.Timeout;
}

/** Milliseconds, or a duration as the configuration writes it: `30s`. */
export type Span = number | string;

export function spanOf(span: Span): number {
  const value = typeof span === "number" ? span : parseDuration(span);
  if (value === undefined) throw new Error(`${span} is no duration`);
  return value;
}

/**
 * A clock that a test moves. One that stands moves by that alone; one that runs goes with the real time besides, so that
 * what waits in the background comes to pass without a test's doing.
 */
export class TestClock implements Clock {
  private readonly isRunning: boolean;
  private moved: Duration = 1_000_000;
  private wallOffset = 0;
  private readonly startedAt = Date.now();
  private readonly timers = new Set<Timer>();

  private constructor(isRunning: boolean) {
    this.isRunning = isRunning;
  }

  static standing(): TestClock {
    return new TestClock(false);
  }

  static running(): TestClock {
    return new TestClock(true);
  }

  now(): Instant {
    return this.moved + (this.isRunning ? performance.now() : 0);
  }

  wallNow(): number {
    const real = this.isRunning ? Date.now() : this.startedAt;
    return Math.floor(real + this.moved - 1_000_000 + this.wallOffset);
  }

  after(delay: Duration, fire: () => void): CancelTimer {
    const timer: Timer = { at: this.now() + Math.max(delay, 0), fire };
    this.timers.add(timer);
    this.arm(timer);
    return () => this.drop(timer);
  }

  /** Moves time forward. Timers that fall due fire in order, each at its own instant. */
  advance(span: Span): void {
    let left = spanOf(span);
    for (let next = this.nextDue(left); next !== undefined; next = this.nextDue(left)) {
      const step = Math.min(left, Math.max(0, next.at - this.now()));
      this.moved += step;
      left -= step;
      this.drop(next);
      next.fire();
    }
    this.moved += left;
    for (const timer of this.timers) this.arm(timer);
  }

  /** Sets the wall clock alone, as an operator or NTP would. */
  stepWall(span: number): void {
    this.wallOffset += span;
  }

  private nextDue(within: Duration): Timer | undefined {
    const end = this.now() + within;
    let next: Timer | undefined;
    for (const timer of this.timers) if (timer.at <= end && (next === undefined || timer.at < next.at)) next = timer;
    return next;
  }

  private arm(timer: Timer): void {
    if (!this.isRunning) return;
    clearTimeout(timer.real);
    timer.real = setTimeout(
      () => {
        if (!this.timers.delete(timer)) return;
        timer.fire();
      },
      Math.min(Math.max(timer.at - this.now(), 0), 2 ** 31 - 1),
    );
    timer.real.unref();
  }

  private drop(timer: Timer): void {
    clearTimeout(timer.real);
    this.timers.delete(timer);
  }
}
