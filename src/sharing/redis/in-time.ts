import type { CancelTimer, Clock, Duration } from "../../clock.ts";

const TICK: Duration = 20;

/** Ticks that a command is waited for: 80 ms while a request waits with it, 400 ms behind all requests. */
export const TICKS = { request: 4, background: 20 } as const;

/** No answer came in time. */
export class Late extends Error {}

/**
 * Settles as the answer does, or rejects after some ticks. A single timer would fire, in a process that was busy, before an
 * answer that has arrived is read; between two ticks it is read.
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
