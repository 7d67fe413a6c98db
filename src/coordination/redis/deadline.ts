import type { CancelTimer, Clock, Duration } from "../../clock.ts";

/** Nothing came back in time. */
export class TimedOut extends Error {
  constructor(timeout: Duration) {
    super(`no reply within ${timeout} ms`);
    this.name = "TimedOut";
  }
}

/** Into so many parts a wait is cut. */
const SLICES = 5;

/**
 * What `promise` becomes, or a rejection with {@link TimedOut} after `timeout`.
 *
 * Only time in which this process could have read the answer counts: the wait is cut into slices, and a pause of ours
 * (a burst of requests, garbage) lengthens the one it falls into. Else every burst would look like a slow Redis, just
 * when sharing counts most.
 */
export function within<T>(promise: Promise<T>, timeout: Duration, clock: Clock): Promise<T> {
  return new Promise<T>((resolve, reject) => {
    let elapsed = 0;
    let cancel: CancelTimer;
    const wait = (): void => {
      cancel = clock.after(timeout / SLICES, () => {
        elapsed += 1;
        if (elapsed < SLICES) wait();
        // Sockets are read between timers and immediates: what has arrived by now is in time.
        else setImmediate(() => reject(new TimedOut(timeout)));
      });
    };
    wait();
    promise.then(
      (value) => {
        cancel();
        resolve(value);
      },
      (error: unknown) => {
        cancel();
        reject(error instanceof Error ? error : new Error(String(error)));
      },
    );
  });
}

/** Whether `promise` settles within `timeout`, counted as {@link within} does. Never rejects. */
export async function isWithin(promise: Promise<unknown>, timeout: Duration, clock: Clock): Promise<boolean> {
  try {
    await within(promise, timeout, clock);
    return true;
  } catch (error) {
    return !(error instanceof TimedOut);
  }
}
