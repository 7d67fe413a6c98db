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
  private readonly running = new Map<ServerResponse, RunningRequest>();
  private readonly waiting = new Set<{ readonly left: Set<ServerResponse>; readonly resolve: () => void }>();

  /** Notes every request of `listener` from now on. */
  follow(listener: FastifyInstance): void {
    listener.addHook("onRequest", (request, reply, done) => {
      this.begin({ request: request.raw, response: reply.raw });
      done();
    });
  }

  get size(): number {
    return this.running.size;
  }

  all(): RunningRequest[] {
    return [...this.running.values()];
  }

  /** Resolves when all that run now are over; those that begin later don't count. */
  settled(): Promise<void> {
    if (this.running.size === 0) return Promise.resolve();
    return new Promise((resolve) => {
      this.waiting.add({ left: new Set(this.running.keys()), resolve });
    });
  }

  private begin(running: RunningRequest): void {
    const { response } = running;
    this.running.set(response, running);
    response.once("close", () => this.end(response));
  }

  private end(response: ServerResponse): void {
    this.running.delete(response);
    for (const waiter of this.waiting) {
      waiter.left.delete(response);
      if (waiter.left.size > 0) continue;
      this.waiting.delete(waiter);
      waiter.resolve();
    }
  }
}
