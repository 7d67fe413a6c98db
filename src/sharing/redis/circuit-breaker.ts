import type { Clock, Duration, Instant } from "../../clock.ts";
import type { RedisObserver } from "./observer.ts";

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

/** Whether requests ask Redis, for metrics, the log and those who wait for it. */
export class Usability {
  private readonly observer: Pick<RedisObserver, "stateChanged">;
  private readonly changed: (isUp: boolean) => void;
  private isUp = false;
  private isClosed = false;
  private next = Promise.withResolvers<void>();

  constructor(observer: Pick<RedisObserver, "stateChanged">, changed: (isUp: boolean) => void) {
    this.observer = observer;
    this.changed = changed;
  }

  /** Resolves when it is up, or closed. */
  get up(): Promise<void> {
    return this.next.promise;
  }

  /** @param why it is not, where that is known */
  note(isUp: boolean, why: string | undefined): void {
    if (isUp === this.isUp || this.isClosed) return;
    this.isUp = isUp;
    this.observer.stateChanged(isUp ? "up" : "away", isUp ? "connected and up to date" : (why ?? "too slow"));
    this.changed(isUp);
    if (isUp) this.next.resolve();
    else this.next = Promise.withResolvers();
  }

  close(): void {
    this.isClosed = true;
    this.next.resolve();
  }
}
