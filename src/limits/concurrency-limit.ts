import type { Clock } from "../clock.ts";
import { GatewayError } from "../errors.ts";
import { WaitQueue, type WaitTerms } from "./wait-queue.ts";

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
