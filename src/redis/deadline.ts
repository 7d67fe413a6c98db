import type { Clock, Duration } from "../clock.ts";

/** Nothing came back in time. */
export class TimedOut extends Error {
  constructor(timeout: Duration) {
    super(`no reply within ${timeout} ms`);
    this.name = "TimedOut";
  }
}

/**
 * What `promise` becomes, or a rejection with {@link TimedOut} after `timeout`. What has arrived by then counts as in
 * time even when this process was too busy to read it: a pause of ours is no fault of the other side.
 */
export function within<T>(promise: Promise<T>, timeout: Duration, clock: Clock): Promise<T> {
  return new Promise<T>((resolve, reject) => {
    // Sockets are read between timers and immediates.
    const cancel = clock.after(timeout, () => setImmediate(() => reject(new TimedOut(timeout))));
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
