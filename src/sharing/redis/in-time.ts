import type { CancelTimer, Clock, Duration } from "../../clock.ts";

const TICK: Duration = 20;

/** How many ticks a command is waited for: while a request waits with it, and behind all requests. */
export const TICKS = { request: 4, background: 20 } as const;

/** No answer came in time. */
export class Late extends Error {}

/**
 * Settles as the answer does, or rejects after some ticks. A deadline of one timer would pass, in a process that was busy for
 * so long, before an answer is read that has arrived; each tick lets it be read.
 */
export function inTime<T>(send: () => Promise<T>, ticks: number, clock: Clock): Promise<T> {
  return new Promise((resolve, reject) => {
    let left = ticks;
    let cancel: CancelTimer = () => {};
    const tick = (): void => {
      left -= 1;
      if (left < 0) reject(new Late("no answer in time"));
      else cancel = clock.after(TICK, tick);
    };
    tick();
    send().then(
      (answer) => {
        cancel();
        resolve(answer);
      },
      (error: unknown) => {
        cancel();
        reject(error instanceof Error ? error : new Error("no answer"));
      },
    );
  });
}
