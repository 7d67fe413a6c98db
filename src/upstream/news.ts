import type { Clock, Duration, Instant } from "../clock.ts";
import type { CredentialKey, CredentialLook } from "./observer.ts";

const REMINDER: Duration = 600_000;

/** Whether something that happens again and again is worth a line in the log: when it begins, and every 10 minutes. */
export class News {
  private readonly clock: Clock;
  private toldAt: Instant = -Infinity;

  constructor(clock: Clock) {
    this.clock = clock;
  }

  /** It happened. Returns whether to log it. */
  isDue(): boolean {
    const now = this.clock.now();
    if (now - this.toldAt < REMINDER) return false;
    this.toldAt = now;
    return true;
  }

  /** It is over: the next time it begins anew. */
  end(): void {
    this.toldAt = -Infinity;
  }
}

/** Different faults of one key that are reported before it is good again. */
const MOST_FAULTS = 8;

/** Decides what of the looks at an upstream's credentials is worth a line: a fault once, and that it is over. */
export class CredentialLooks {
  private readonly clock: Clock;
  private readonly faults = new Map<CredentialKey, Map<string, News>>();

  constructor(clock: Clock) {
    this.clock = clock;
  }

  note(key: CredentialKey, fault: string | undefined): CredentialLook {
    const told = this.faults.get(key);
    if (fault === undefined) return { fault, isNews: this.faults.delete(key) };
    const news = told?.get(fault) ?? new News(this.clock);
    if (told === undefined) this.faults.set(key, new Map([[fault, news]]));
    else if (!told.has(fault) && told.size >= MOST_FAULTS) return { fault, isNews: false };
    else told.set(fault, news);
    return { fault, isNews: news.isDue() };
  }
}
