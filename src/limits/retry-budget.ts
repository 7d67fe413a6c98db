import type { Clock, Instant } from "../clock.ts";

/** How extra attempts are earned. */
export interface Earnings {
  /** Earned with each call. */
  readonly perCall: number;
  /** Earned each second. */
  readonly perSecond: number;
  /** Most that can be saved up. */
  readonly most: number;
  /** What there is at the start. */
  readonly first: number;
}

/** Extra attempts (retries, hedges) as a share of calls: earned by calls and time, spent one by one. */
export class RetryBudget {
  private readonly clock: Clock;
  private readonly earnings: Earnings;
  private tokens: number;
  private refilledAt: Instant;

  constructor(clock: Clock, earnings: Earnings) {
    this.clock = clock;
    this.earnings = earnings;
    this.tokens = earnings.first;
    this.refilledAt = clock.now();
  }

  /** A call began. */
  earn(): void {
    this.tokens = Math.min(this.tokens + this.earnings.perCall, this.earnings.most);
  }

  /** Takes one extra attempt; false when none is left. */
  spend(): boolean {
    if (this.left < 1) return false;
    this.tokens -= 1;
    return true;
  }

  /** What could be spent now. */
  get left(): number {
    const now = this.clock.now();
    const earned = ((now - this.refilledAt) / 1_000) * this.earnings.perSecond;
    this.refilledAt = now;
    this.tokens = Math.min(this.tokens + earned, this.earnings.most);
    return this.tokens;
  }
}
