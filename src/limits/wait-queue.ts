import type { AbortSignalLike, CancelTimer, Clock, Instant } from "../clock.ts";
import { clientGone, type GatewayError } from "../errors.ts";

/** Who waits for a call, most urgent first: a POST, a cold miss, a refresh behind a stale answer, background work. */
export const PRIORITIES = ["post", "miss", "refresh", "background"] as const;
export type Priority = (typeof PRIORITIES)[number];

/** A call that wants to begin. */
export interface WaitTerms {
  readonly priority: Priority;
  readonly deadline: Instant;
  readonly signal?: AbortSignalLike | undefined;
}

export interface WaitOptions {
  readonly priority: Priority;
  readonly until: Instant;
  readonly signal?: AbortSignalLike | undefined;
  /** What the waiter gets when its time is up. */
  readonly late: () => GatewayError;
}

interface Waiter {
  /** Lets it go on, or turns it away. */
  readonly leave: (error?: GatewayError) => void;
}

/** Calls that wait for their turn: the most urgent first, the oldest first among equals. */
export class WaitQueue {
  private readonly clock: Clock;
  private readonly waiters: Readonly<Record<Priority, Set<Waiter>>> = {
    post: new Set(),
    miss: new Set(),
    refresh: new Set(),
    background: new Set(),
  };

  constructor(clock: Clock) {
    this.clock = clock;
  }

  get size(): number {
    const { post, miss, refresh, background } = this.waiters;
    return post.size + miss.size + refresh.size + background.size;
  }

  sizeOf(priority: Priority): number {
    return this.waiters[priority].size;
  }

  /** How many would go before a newcomer of this priority. */
  sizeBefore(priority: Priority): number {
    let size = 0;
    for (const each of PRIORITIES) {
      size += this.waiters[each].size;
      if (each === priority) break;
    }
    return size;
  }

  /** The priority of the waiter whose turn is next. */
  get head(): Priority | undefined {
    return PRIORITIES.find((priority) => this.waiters[priority].size > 0);
  }

  /**
   * Resolves when it is this waiter's turn.
   * @throws what `late` makes when that is not before `until`; {@link clientGone} when `signal` aborts.
   */
  wait({ priority, until, signal, late }: WaitOptions): Promise<void> {
    if (signal?.aborted === true) return Promise.reject(clientGone());
    return new Promise((resolve, reject) => {
      let cancelTimer: CancelTimer | undefined = undefined;
      const waiter: Waiter = {
        leave: (error) => {
          cancelTimer?.();
          signal?.removeEventListener("abort", onAbort);
          this.waiters[priority].delete(waiter);
          if (error === undefined) resolve();
          else reject(error);
        },
      };
      const onAbort = () => waiter.leave(clientGone());
      signal?.addEventListener("abort", onAbort);
      cancelTimer = this.clock.after(until - this.clock.now(), () => waiter.leave(late()));
      this.waiters[priority].add(waiter);
    });
  }

  /** Lets the next waiter go on; false when nobody waits. */
  admitNext(): boolean {
    const { head } = this;
    if (head === undefined) return false;
    const [first] = this.waiters[head];
    first!.leave();
    return true;
  }

  /** Turns away the newest waiter that is less urgent than `priority`; false when there is none. */
  displace(priority: Priority, error: GatewayError): boolean {
    for (const each of PRIORITIES.toReversed()) {
      if (each === priority) return false;
      const last = [...this.waiters[each]].at(-1);
      if (last !== undefined) {
        last.leave(error);
        return true;
      }
    }
    return false;
  }
}
