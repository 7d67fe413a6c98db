import type { Clock } from "../clock.ts";
import type { GatewayError } from "../errors.ts";
import { WaitQueue, type WaitTerms } from "./wait-queue.ts";

export interface Bounds {
  readonly max: number;
  readonly queue: number;
}

/** What those get who have to go without a place. */
export interface PlaceErrors {
  /** Of whom there is no room for in the queue. */
  readonly full: () => GatewayError;
  /** Whose deadline passes. */
  readonly late: () => GatewayError;
}

/** So many places, and a queue of those who wait for one. */
export class Places {
  private readonly bounds: Bounds;
  private readonly errors: PlaceErrors;
  private readonly waiting: WaitQueue;
  private runningCount = 0;

  constructor(bounds: Bounds, errors: PlaceErrors, clock: Clock) {
    this.bounds = bounds;
    this.errors = errors;
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
   * @throws what {@link PlaceErrors} make, and `clientGone` when the signal aborts.
   */
  async enter({ priority, deadline, signal }: WaitTerms): Promise<void> {
    const { full, late } = this.errors;
    if (this.waiting.size >= this.bounds.queue && !this.waiting.displace(priority, full())) throw full();
    // The place of whoever leaves is handed over: the count stays.
    await this.waiting.wait({ priority, until: deadline, signal, late });
  }

  leave(): void {
    if (!this.waiting.admitNext()) this.runningCount -= 1;
  }
}
