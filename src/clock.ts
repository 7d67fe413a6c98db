import { clientGone } from "./errors.ts";

/** Milliseconds on {@link Clock.now}; only differences have meaning. */
export type Instant = number;

/** Milliseconds. */
export type Duration = number;

/** Cancels a timer; calling it again, or after the timer fired, does nothing. */
export type CancelTimer = () => void;

/** The only source of time. Everything takes it as a parameter, so that tests can move it by hand. */
export interface Clock {
  /** Milliseconds since an arbitrary origin. Monotonic: a wall clock that is set changes nothing that is counted. */
  now(): Instant;
  /** Milliseconds since the Unix epoch: for `Date` fields, expiry dates of credentials, and people. */
  wallNow(): number;
  /** Calls `fire` once after `delay`. Does not keep the process alive. */
  after(delay: Duration, fire: () => void): CancelTimer;
}

/** `setTimeout` turns a longer delay into 1 ms. */
const MAX_DELAY: Duration = 2 ** 31 - 1;

export function systemClock(): Clock {
  return {
    now: () => performance.now(),
    wallNow: () => Date.now(),
    after(delay, fire) {
      const timer = setTimeout(fire, Math.min(Math.max(delay, 0), MAX_DELAY));
      timer.unref();
      return () => clearTimeout(timer);
    },
  };
}

/** Bounds of one wait for what others may wait for, too. */
export interface Wait {
  readonly deadline: Instant;
  /** Aborts when the waiter goes away. */
  readonly signal?: AbortSignal | undefined;
}

/**
 * Settles as `promise` does, unless the deadline passes or the waiter goes away first. The promise itself goes on for others.
 *
 * @param late makes the error of a passed deadline
 * @throws what `promise` throws, what `late` makes, or {@link clientGone}
 */
export function withDeadline<T>(promise: Promise<T>, wait: Wait, late: () => Error, clock: Clock): Promise<T> {
  const { deadline, signal } = wait;
  return new Promise<T>((resolve, reject) => {
    const leave = (): void => settle(() => reject(clientGone()));
    const cancelTimer = clock.after(deadline - clock.now(), () => settle(() => reject(late())));
    function settle(end: () => void): void {
      cancelTimer();
      signal?.removeEventListener("abort", leave);
      end();
    }
    promise.then(
      (value) => settle(() => resolve(value)),
      (reason: unknown) => settle(() => reject(reason instanceof Error ? reason : new Error(String(reason)))),
    );
    if (signal?.aborted === true) leave();
    else signal?.addEventListener("abort", leave, { once: true });
  });
}

/** Waits until `work` has ended, well or not, but no longer than `timeout`. Says whether it has. Never rejects. */
export function settledWithin(work: Promise<unknown>, timeout: Duration, clock: Clock): Promise<boolean> {
  return new Promise((resolve) => {
    const cancel = clock.after(timeout, () => resolve(false));
    const settle = (): void => {
      cancel();
      resolve(true);
    };
    work.then(settle, settle);
  });
}

/** Resolves after `duration`, or as soon as `signal` aborts. */
export function sleep(duration: Duration, clock: Clock, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const end = (): void => {
      cancel();
      signal?.removeEventListener("abort", end);
      resolve();
    };
    const cancel = clock.after(duration, end);
    if (signal?.aborted === true) end();
    else signal?.addEventListener("abort", end, { once: true });
  });
}
