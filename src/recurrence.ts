import type { Clock, Duration, Instant } from "./clock.ts";

const REMINDER: Duration = 600_000;

/** Things that are told apart at a time. */
const MOST = 16;

interface RecurrenceBounds {
  /** The same is worth no line sooner. */
  readonly every?: Duration;
  /** Further things are worth no line while so many are remembered. */
  readonly most?: number;
}

/** Whether something that happens again and again is worth a line in the log: when it begins, and every 10 minutes. */
export class Recurrence {
  private readonly clock: Clock;
  private readonly every: Duration;
  private readonly most: number;
  private readonly reportedAt = new Map<string, Instant>();

  constructor(clock: Clock, { every = REMINDER, most = MOST }: RecurrenceBounds = {}) {
    this.clock = clock;
    this.every = every;
    this.most = most;
  }

  /** It happened; `what` names it among others. Returns whether to log it. */
  isDue(what = ""): boolean {
    const since = this.clock.now() - this.every;
    if ((this.reportedAt.get(what) ?? -Infinity) > since) return false;
    for (const [other, at] of this.reportedAt) {
      // The oldest come first.
      if (at > since) break;
      this.reportedAt.delete(other);
    }
    if (this.reportedAt.size >= this.most) return false;
    this.reportedAt.set(what, this.clock.now());
    return true;
  }

  /** It is over: the next time it begins anew. */
  end(): void {
    this.reportedAt.clear();
  }
}
