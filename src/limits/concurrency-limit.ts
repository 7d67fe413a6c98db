import type { AbortSignalLike, CancelTimer, Clock, Instant } from "../clock.ts";
import { clientGone, GatewayError } from "../errors.ts";
import type { Priority } from "../upstream/call.ts";

interface WaitTerms {
  readonly priority: Priority;
  readonly deadline: Instant;
  readonly signal?: AbortSignalLike | undefined;
}

interface Bounds {
  readonly max: number;
  readonly queue: number;
}

/** Share of the places that calls may have whose bodies are still arriving. */
const UPLOADS = 0.25;

/** So many places, and a queue of those who wait for one. */
class Places {
  private readonly upstream: string;
  private readonly bounds: Bounds;
  private readonly waiting: WaitQueue;
  private runningCount = 0;

  constructor(upstream: string, bounds: Bounds, clock: Clock) {
    this.upstream = upstream;
    this.bounds = bounds;
    this.waiting = new WaitQueue(clock);
  }

  get running(): number {
    return this.runningCount;
  }

  get queued(): number {
    return this.waiting.size;
  }

  /** Takes a place when one is free. Anybody who has a place gives it back with {@link leave}, once. */
  tryEnter(): boolean {
    if (this.runningCount >= this.bounds.max) return false;
    this.runningCount += 1;
    return true;
  }

  /**
   * Waits for a place that was not free. When the queue is full, a more urgent call displaces a less urgent one.
   * @throws {@link GatewayError} 503 when there is no room in the queue, 504 when the deadline passes.
   */
  async enter({ priority, deadline, signal }: WaitTerms): Promise<void> {
    if (this.waiting.size >= this.bounds.queue && !this.waiting.displace(priority, this.full())) throw this.full();
    // The place of whoever leaves is handed over: the count stays.
    await this.waiting.wait({ priority, until: deadline, signal, late: () => this.late() });
  }

  leave(): void {
    if (!this.waiting.admitNext()) this.runningCount -= 1;
  }

  private full(): GatewayError {
    const text = `upstream "${this.upstream}" has too many calls running and waiting; try again in a second`;
    return new GatewayError("queue_full", text, { retryAfter: 1 });
  }

  private late(): GatewayError {
    const text = `upstream "${this.upstream}" had no place for another call in time; try again later`;
    return new GatewayError("queue_timeout", text);
  }
}

/** Bounds how much runs at once to one upstream, so that a slow one takes nothing from the others. */
export class ConcurrencyLimit extends Places {
  /**
   * What a call needs besides, and before, for as long as its body is arriving: clients that stall hold a share of the
   * places and no more.
   */
  readonly uploads: Places;

  constructor(upstream: string, bounds: Bounds, clock: Clock) {
    super(upstream, bounds, clock);
    this.uploads = new Places(upstream, { ...bounds, max: Math.max(1, Math.floor(bounds.max * UPLOADS)) }, clock);
  }
}

/** Most urgent first. */
export const PRIORITIES: readonly Priority[] = ["post", "miss", "refresh", "background"];

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
