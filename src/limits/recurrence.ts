import type { Clock, Duration, Instant } from "../clock.ts";

const REMINDER: Duration = 600_000;

/** Whether something that happens again and again is worth a line in the log: when it begins, and every 10 minutes. */
export class Recurrence {
  private readonly clock: Clock;
  private reportedAt: Instant = -Infinity;

  constructor(clock: Clock) {
    this.clock = clock;
  }

  /** It happened. Returns whether to log it. */
  isDue(): boolean {
    const now = this.clock.now();
    if (now - this.reportedAt < REMINDER) return false;
    this.reportedAt = now;
    return true;
  }

  /** It is over: the next time it begins anew. */
  end(): void {
    this.reportedAt = -Infinity;
  }
}
