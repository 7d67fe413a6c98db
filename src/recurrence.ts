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

/**
 * Hands on a value that is another than the one before: what goes wrong is logged once, and once that it is over.
 *
 * @param first what is so at the start, and is no change
 */
export function whenChanged<Value>(first: Value, report: (value: Value) => void): (value: Value) => void {
  let last = first;
  return (value) => {
    if (value === last) return;
    last = value;
    report(value);
  };
}
