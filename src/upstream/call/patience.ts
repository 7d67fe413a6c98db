import type { Clock, Instant } from "../../clock.ts";
import type { GatewayError } from "../../errors.ts";
import { ClientGone } from "./call.ts";

/** How long somebody waits for what others wait for too. */
export interface Patience {
  readonly deadline: Instant;
  readonly signal?: AbortSignal | undefined;
  /** What the waiter is told when the deadline passes. */
  readonly late: () => GatewayError;
}

/**
 * Waits for a shared `promise` with a deadline of one's own; the promise itself goes on for the others.
 * @throws what `promise` throws, what `late` makes, or {@link ClientGone}.
 */
export function waitFor<T>(promise: Promise<T>, { deadline, signal, late }: Patience, clock: Clock): Promise<T> {
  return new Promise((resolve, reject) => {
    const leave = () => {
      cancelTimer();
      signal?.removeEventListener("abort", onAbort);
    };
    const onAbort = () => {
      leave();
      reject(new ClientGone());
    };
    const cancelTimer = clock.after(deadline - clock.now(), () => {
      leave();
      reject(late());
    });
    signal?.addEventListener("abort", onAbort, { once: true });
    if (signal?.aborted === true) onAbort();
    promise.then(
      (value) => {
        leave();
        resolve(value);
      },
      (error: unknown) => {
        leave();
        reject(error instanceof Error ? error : new Error(String(error)));
      },
    );
  });
}
