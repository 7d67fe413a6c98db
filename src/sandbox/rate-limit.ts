import type { Clock, Duration, Instant } from "../clock.ts";

/** At most this number of requests in any window of that length. */
export interface RateLimit {
  requests: number;
  per: Duration;
}

/** An exact sliding window: it remembers when each request of the last window came. */
export class SlidingWindow {
  private readonly limit: RateLimit;
  private readonly clock: Clock;
  private readonly admitted: Instant[] = [];

  constructor(limit: RateLimit, clock: Clock) {
    this.limit = limit;
    this.clock = clock;
  }

  /** Whether one more request fits now; if so it is counted. */
  admits(): boolean {
    const now = this.clock.now();
    while (this.admitted.length > 0 && this.admitted[0]! <= now - this.limit.per) this.admitted.shift();
    if (this.admitted.length >= this.limit.requests) return false;
    this.admitted.push(now);
    return true;
  }
}
