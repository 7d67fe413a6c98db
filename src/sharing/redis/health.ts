import type { Logger } from "pino";
import type { Clock, Duration, Instant } from "../../clock.ts";
import type { SharingStatus } from "../ports.ts";

/** Least time between two warnings of a Redis that comes and goes. */
const TELL_EVERY: Duration = 10_000;

/** State of Redis: whether it can be used, since when, and why not. Changes are logged. */
export class Health {
  private readonly clock: Clock;
  private readonly log: Logger;
  /** Undefined: it is up. */
  private cause: string | undefined = "is not connected yet";
  private since: number;
  /** Cause that was logged last; undefined: it was logged that Redis can be used. */
  private told: string | undefined = this.cause;
  private toldAt: Instant = -Infinity;

  constructor(clock: Clock, log: Logger) {
    this.clock = clock;
    this.log = log;
    this.since = clock.wallNow();
  }

  get isUp(): boolean {
    return this.cause === undefined;
  }

  cameUp(): void {
    if (this.isUp) return;
    this.cause = undefined;
    this.since = this.clock.wallNow();
    if (this.told === undefined) return;
    this.told = undefined;
    this.log.info("Redis can be used");
  }

  /** @param cause the end of a sentence that begins with "Redis" */
  wentAway(cause: string): void {
    if (this.isUp) this.since = this.clock.wallNow();
    this.cause = cause;
    const now = this.clock.now();
    if (cause === this.told || now - this.toldAt < TELL_EVERY) return;
    this.told = cause;
    this.toldAt = now;
    this.log.warn(`Redis ${cause}; the gateway goes on without it`);
  }

  status(): Pick<SharingStatus, "redis" | "cause" | "since"> {
    const { cause, since } = this;
    return cause === undefined ? { redis: "up", since } : { redis: "away", cause: `it ${cause}`, since };
  }
}
