import type { Clock, Duration, Instant } from "../clock.ts";

/** Calls and extra attempts of about this time count. */
const MEMORY: Duration = 10_000;
const SHARE_OF_CALLS = 0.2;
const EACH_SECOND = 1;

/**
 * A budget of extra attempts: a fifth of the calls or one a second, whichever is more. Both counts fade away exponentially, so
 * that they stand for the last ten seconds without a history.
 */
export class RetryBudget {
  private readonly clock: Clock;
  private calls = 0;
  private paid = 0;
  private countedAt: Instant;

  constructor(clock: Clock) {
    this.clock = clock;
    this.countedAt = clock.now();
  }

  /** Counts a call, once however often it is attempted. */
  called(): void {
    this.fade();
    this.calls += 1;
  }

  /** Pays an extra attempt; false where the budget has none left. Hedges leave half of it to retries. */
  tryPay(kind: "retry" | "hedge"): boolean {
    this.fade();
    const whole = Math.max(this.calls * SHARE_OF_CALLS, (MEMORY / 1_000) * EACH_SECOND);
    if (this.paid + 1 > (kind === "hedge" ? whole / 2 : whole)) return false;
    this.paid += 1;
    return true;
  }

  private fade(): void {
    const now = this.clock.now();
    const left = Math.exp((this.countedAt - now) / MEMORY);
    this.calls *= left;
    this.paid *= left;
    this.countedAt = now;
  }
}
