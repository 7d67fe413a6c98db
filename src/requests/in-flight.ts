import type { ServerResponse } from "node:http";
import type { RequestContext } from "./context.ts";

/** The requests that a listener is working on; fresh memory hits are never among them. */
export class InFlight {
  /** The process is about to end: each answer is the last of its connection. */
  isDraining = false;
  /**
   * By slot, which is used again. Not a map: one that is added to and deleted from all the time leaves a chain of old
   * tables behind, each of which keeps what was in it until the next full garbage collection.
   */
  private readonly slots: (RequestContext | undefined)[] = [];
  private readonly free: number[] = [];
  private readonly waiting = new Set<{ readonly left: Set<ServerResponse>; readonly resolve: () => void }>();

  get size(): number {
    return this.slots.length - this.free.length;
  }

  all(): RequestContext[] {
    return this.slots.filter((running) => running !== undefined);
  }

  /** Notes a request that begins; returns what is to be called when it is over. */
  begin(context: RequestContext): () => void {
    const slot = this.free.pop() ?? this.slots.length;
    this.slots[slot] = context;
    return () => this.end(slot, context.response);
  }

  /** Resolves when all that run now are over; those that begin later don't count. */
  settled(): Promise<void> {
    const running = this.all();
    if (running.length === 0) return Promise.resolve();
    return new Promise((resolve) => {
      this.waiting.add({ left: new Set(running.map(({ response }) => response)), resolve });
    });
  }

  private end(slot: number, response: ServerResponse): void {
    this.slots[slot] = undefined;
    this.free.push(slot);
    for (const waiter of this.waiting) {
      waiter.left.delete(response);
      if (waiter.left.size > 0) continue;
      this.waiting.delete(waiter);
      waiter.resolve();
    }
  }
}
