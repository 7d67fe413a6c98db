import type { CancelTimer } from "../../src/clock.ts";
import { ManualClock } from "./manual-clock.ts";

/** A clock moved by hand that tells how many timers were set, so that a test can wait for the next one. */
export class CountingClock extends ManualClock {
  /** Timers set so far. */
  set = 0;

  override after(delay: number, fire: () => void): CancelTimer {
    this.set += 1;
    return super.after(delay, fire);
  }
}
