import type { Clock, Duration, Instant } from "../../clock.ts";

const FIRST_PAUSE: Duration = 250;
const MAX_PAUSE: Duration = 1_000;

/** After this long without a failure, the next failure counts as the first. */
const STEADY: Duration = 10_000;

/**
 * The breaker before a part of Redis that fails as one: a server, or the shard of one partition in a cluster. The first
 * failure ends its session; what was learned in an earlier session has to be learned again before it counts.
 */
export class CircuitBreaker {
  private readonly clock: Clock;
  private sessionNumber = 1;
  private failures = 0;
  private steadySince: Instant | undefined;
  private pauseUntil: Instant = -Infinity;

  constructor(clock: Clock) {
    this.clock = clock;
  }

  /** Changes with every failure. */
  get session(): number {
    return this.sessionNumber;
  }

  /** Whether it may be tried (again) now. */
  get mayTry(): boolean {
    return this.clock.now() >= this.pauseUntil;
  }

  /** Notes a failure of something begun in `session`; those of an earlier session are known already. */
  fail(session: number): void {
    if (session !== this.sessionNumber) return;
    const now = this.clock.now();
    if (this.steadySince !== undefined && now - this.steadySince > STEADY) this.failures = 0;
    this.sessionNumber += 1;
    this.pauseUntil = now + Math.min(FIRST_PAUSE * 2 ** this.failures, MAX_PAUSE);
    this.steadySince = undefined;
    this.failures = Math.min(this.failures + 1, 10);
  }

  /** Notes a success of something begun in `session`; false when it failed in between. */
  regain(session: number): boolean {
    if (session !== this.sessionNumber) return false;
    this.steadySince ??= this.clock.now();
    return true;
  }

  /** A new connection: nothing known holds, and it may be tried at once. */
  reset(): void {
    this.sessionNumber += 1;
    this.steadySince = undefined;
    this.pauseUntil = -Infinity;
  }
}
