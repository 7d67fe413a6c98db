/** Milliseconds on the gateway's own clock (see {@link Clock.now}); only differences have meaning. */
export type Instant = number;

/** Milliseconds. */
export type Duration = number;

/** Cancels a timer; calling it again, or after the timer fired, does nothing. */
export type CancelTimer = () => void;

/**
 * The only source of time. Everything takes it as a parameter, so that tests can move it by hand.
 */
export interface Clock {
  /**
   * Milliseconds since an arbitrary origin. Never goes back, and never runs slower than real time: a machine that
   * slept, or whose wall clock was set forward, finds its entries older, never younger.
   */
  now(): Instant;
  /** Milliseconds since the Unix epoch, for `Date` and `Last-Modified` arithmetic and for people. */
  wallNow(): number;
  /** Calls `fire` once after `delay`. Does not keep the process alive. */
  after(delay: Duration, fire: () => void): CancelTimer;
}

/** A step of the wall clock smaller than this is jitter of its millisecond ticks, not a step. */
const WALL_STEP = 1_000;

/**
 * The real clock: monotonic time, pushed forward whenever the wall clock shows that more time passed than the
 * monotonic clock counted. Linux stops the monotonic clock while a machine is suspended; without this correction an
 * entry would outlive its promise by the length of the sleep.
 */
export function systemClock(): Clock {
  let skew = Date.now() - performance.now();
  let slept = 0;
  return {
    now() {
      const monotonic = performance.now();
      const currentSkew = Date.now() - monotonic;
      const step = currentSkew - skew;
      if (step > WALL_STEP || step < -WALL_STEP) {
        if (step > 0) slept += step;
        skew = currentSkew;
      }
      return monotonic + slept;
    },
    wallNow: () => Date.now(),
    after(delay, fire) {
      // setTimeout turns a delay beyond 2^31-1 into 1 ms.
      const timer = setTimeout(fire, Math.min(Math.max(delay, 0), 2 ** 31 - 1));
      timer.unref();
      return () => clearTimeout(timer);
    },
  };
}
