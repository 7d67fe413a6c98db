import type { Clock, Duration } from "./clock.ts";

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

/** Resolves after `duration`. */
export function elapsed(duration: Duration, clock: Clock): Promise<void> {
  return new Promise((resolve) => {
    clock.after(duration, resolve);
  });
}
