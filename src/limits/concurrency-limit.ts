import type { Clock } from "../clock.ts";
import { GatewayError } from "../errors.ts";
import { WaitQueue, type WaitTerms } from "./wait-queue.ts";

/** Share of the places that calls may have whose bodies are still arriving. */
const UPLOADS = 0.25;

interface Bounds {
  readonly max: number;
  readonly queue: number;
}

/** What those get who have to go without a place. */
interface PlaceErrors {
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

/** Bounds how much runs at once to one upstream, so that a slow one takes nothing from the others. */
export class ConcurrencyLimit extends Places {
  /**
   * What a call needs besides, and before, for as long as its body is arriving: clients that stall hold a share of the
   * places and no more.
   */
  readonly uploads: Places;

  /** Its errors are a {@link GatewayError} 503 when there is no room in the queue, 504 when the deadline passes. */
  constructor(upstream: string, bounds: Bounds, clock: Clock) {
    const errors = errorsOf(upstream);
    super(bounds, errors, clock);
    this.uploads = new Places({ ...bounds, max: Math.max(1, Math.floor(bounds.max * UPLOADS)) }, errors, clock);
  }
}

function errorsOf(upstream: string): PlaceErrors {
  const full = `upstream "${upstream}" has too many calls running and waiting; try again in a second`;
  const late = `upstream "${upstream}" had no place for another call in time; try again later`;
  return {
    full: () => new GatewayError("queue_full", full, { retryAfter: 1 }),
    late: () => new GatewayError("queue_timeout", late),
  };
}
