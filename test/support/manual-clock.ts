import type { CancelTimer, Clock, Duration, Instant } from "../../src/clock.ts";

interface Timer {
  at: Instant;
  fire: () => void;
}

/** A clock that stands still until a test moves it; timers fire in order while it moves. */
export class ManualClock implements Clock {
  private time: Instant = 1_000_000;
  private wall = Date.UTC(2026, 0, 1);
  private readonly timers = new Set<Timer>();

  now(): Instant {
    return this.time;
  }

  steadyNow(): Instant {
    return this.time;
  }

  wallNow(): number {
    return this.wall;
  }

  after(delay: Duration, fire: () => void): CancelTimer {
    const timer = { at: this.time + Math.max(delay, 0), fire };
    this.timers.add(timer);
    return () => this.timers.delete(timer);
  }

  /** Moves both clocks forward by `duration`, firing the timers that fall due, each at its own instant. */
  advance(duration: Duration): void {
    const end = this.time + duration;
    for (let due = this.nextDue(end); due !== undefined; due = this.nextDue(end)) {
      this.move(due.at);
      this.timers.delete(due);
      due.fire();
    }
    this.move(end);
  }

  /** Sets the wall clock alone, as an operator or NTP would. */
  stepWall(duration: Duration): void {
    this.wall += duration;
  }

  private nextDue(end: Instant): Timer | undefined {
    let next: Timer | undefined;
    for (const timer of this.timers) {
      if (timer.at <= end && (next === undefined || timer.at < next.at)) next = timer;
    }
    return next;
  }

  private move(to: Instant): void {
    this.wall += Math.max(0, to - this.time);
    this.time = Math.max(this.time, to);
  }
}
