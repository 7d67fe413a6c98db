import type { Clock, Duration } from "../clock.ts";

/** Resolves after `duration` on `clock`; at once when there is nothing to wait for. */
export async function delay(clock: Clock, duration: Duration): Promise<void> {
  if (duration <= 0) return;
  await new Promise<void>((resolve) => {
    clock.after(duration, resolve);
  });
}
