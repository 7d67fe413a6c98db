import type { Clock, Wait } from "../clock.ts";
import { clientGone, type GatewayError } from "../errors.ts";

/** A call that may have to wait: calls of clients come before refreshes, and the oldest comes first among equals. */
export interface Turn extends Wait {
  readonly priority: "client" | "refresh";
}

/** Errors for those who have to go without. */
export interface Refusals {
  /** Made when the queue is full. */
  readonly full: () => GatewayError;
  /** Made when the deadline of the turn passes. */
  readonly late: () => GatewayError;
}

interface Waiter {
  /** Lets it go on, or turns it away. */
  readonly leave: (error?: GatewayError) => void;
}

/** A bounded queue of calls that wait for their turn. Whoever leaves it has left at once: no turn is given to nobody. */
export class WaitQueue {
  /** Bound of the queue. */
  most: number;
  private readonly clock: Clock;
  private readonly clients = new Set<Waiter>();
  private readonly refreshes = new Set<Waiter>();

  constructor(most: number, clock: Clock) {
    this.most = most;
    this.clock = clock;
  }

  get size(): number {
    return this.clients.size + this.refreshes.size;
  }

  /**
   * Resolves when the turn has come. In a full queue a call of a client takes the place of the newest refresh.
   *
   * @throws what {@link Refusals} make, and {@link clientGone} when the signal aborts
   */
  wait({ priority, deadline, signal }: Turn, { full, late }: Refusals): Promise<void> {
    if (signal?.aborted === true) return Promise.reject(clientGone());
    if (this.size >= this.most && !(priority === "client" && this.displaceRefresh(full))) return Promise.reject(full());
    const waiters = priority === "client" ? this.clients : this.refreshes;
    return new Promise((resolve, reject) => {
      const gone = (): void => waiter.leave(clientGone());
      const cancelTimer = this.clock.after(deadline - this.clock.now(), () => waiter.leave(late()));
      const waiter: Waiter = {
        leave(error) {
          cancelTimer();
          signal?.removeEventListener("abort", gone);
          waiters.delete(waiter);
          if (error === undefined) resolve();
          else reject(error);
        },
      };
      signal?.addEventListener("abort", gone, { once: true });
      waiters.add(waiter);
    });
  }

  /** Gives the next one its turn; false when nobody waits. */
  admitNext(): boolean {
    const [first] = this.clients.size > 0 ? this.clients : this.refreshes;
    first?.leave();
    return first !== undefined;
  }

  private displaceRefresh(full: Refusals["full"]): boolean {
    const newest = [...this.refreshes].at(-1);
    newest?.leave(full());
    return newest !== undefined;
  }
}
