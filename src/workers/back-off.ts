import type { Duration } from "../clock.ts";

const FIRST_PAUSE: Duration = 250;
const LONGEST_PAUSE: Duration = 30_000;

/** What was of use for longer has not failed to begin. */
const LONG_LIFE: Duration = 5_000;

/** Pauses before what ended is begun anew: what ends the next one too must not use up the machine. */
export class BackOff {
  private failures = 0;

  /**
   * How long to wait now that one has ended. The first that did not live long is followed at once as well.
   *
   * @param life for how long it was of use
   */
  pauseAfter(life: Duration): Duration {
    this.failures = life > LONG_LIFE ? 0 : this.failures + 1;
    return this.failures < 2 ? 0 : Math.min(FIRST_PAUSE * 2 ** (this.failures - 2), LONGEST_PAUSE);
  }
}
