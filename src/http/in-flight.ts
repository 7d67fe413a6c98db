import type { IncomingMessage, ServerResponse } from "node:http";
import type { FastifyInstance } from "fastify";

/** A request that has not been answered to its end. */
export interface RunningRequest {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
}

/**
 * The requests that a listener is working on. Memory hits are never among them: they are answered in one go, before
 * Fastify, and pay nothing for this.
 */
export class InFlight {
  /**
   * By place, which is used again. Not a map: one that is added to and deleted from all the time leaves a chain of old
   * tables behind, each of which keeps what was in it until the next full garbage collection.
   */
  private readonly places: (RunningRequest | undefined)[] = [];
  private readonly free: number[] = [];
  private readonly waiting = new Set<{ readonly left: Set<ServerResponse>; readonly resolve: () => void }>();

  /** Notes every request of `listener` from now on. */
  follow(listener: FastifyInstance): void {
    listener.addHook("onRequest", (request, reply, done) => {
      this.begin({ request: request.raw, response: reply.raw });
      done();
    });
  }

  get size(): number {
    return this.places.length - this.free.length;
  }

  all(): RunningRequest[] {
    return this.places.filter((running) => running !== undefined);
  }

  /** Resolves when all that run now are over; those that begin later don't count. */
  settled(): Promise<void> {
    const running = this.all();
    if (running.length === 0) return Promise.resolve();
    return new Promise((resolve) => {
      this.waiting.add({ left: new Set(running.map(({ response }) => response)), resolve });
    });
  }

  private begin(running: RunningRequest): void {
    const place = this.free.pop() ?? this.places.length;
    this.places[place] = running;
    running.response.once("close", () => this.end(place, running.response));
  }

  private end(place: number, response: ServerResponse): void {
    this.places[place] = undefined;
    this.free.push(place);
    for (const waiter of this.waiting) {
      waiter.left.delete(response);
      if (waiter.left.size > 0) continue;
      this.waiting.delete(waiter);
      waiter.resolve();
    }
  }
}
