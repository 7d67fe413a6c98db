import { type CancelTimer, type Clock, type Duration, type Instant, systemClock } from "../../src/clock.ts";

/** Real time, which a test can set forward: for whole gateways, whose retries and deadlines need timers that fire. */
export class ShiftedClock implements Clock {
  private readonly real = systemClock();
  private shift: Duration = 0;

  now(): Instant {
    return this.real.now() + this.shift;
  }

  steadyNow(): Instant {
    return this.real.steadyNow() + this.shift;
  }

  wallNow(): number {
    return this.real.wallNow() + this.shift;
  }

  after(delay: Duration, fire: () => void): CancelTimer {
    return this.real.after(delay, fire);
  }

  /** Sets both clocks forward; timers that run keep their real time. */
  advance(duration: Duration): void {
    this.shift += duration;
  }
}
