import type { Logger } from "pino";
import type { Clock, Duration, Instant } from "../../clock.ts";
import type { SharingStatus } from "../ports.ts";

/** A Redis that comes and goes is told no more often. */
const TELL_EVERY: Duration = 10_000;

/** Whether Redis can be used, and since when and why not. Tells the log when that changes. */
export class Health {
  private readonly clock: Clock;
  private readonly log: Logger;
  /** Undefined: it is up. */
  private cause: string | undefined = "is not connected yet";
  private since: number;
  /** The cause that was told last; undefined: it was told that it is back. */
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
