import type { ServerResponse } from "node:http";
import type { FastifyInstance } from "fastify";
import type { Clock, Duration } from "../clock.ts";
import { sleep, settledWithin } from "../deadline.ts";
import { GatewayError } from "../errors.ts";
import type { RequestContext } from "./context.ts";
import { commonFieldsOf, errorAnswer, sendAnswer } from "./send.ts";

/** The requests that a listener is working on; fresh memory hits are never among them. */
export class InFlight {
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

/**
 * Once nothing runs any more, connections that never carried a request are given so long for one that is on its way.
 * Node takes them for busy, and would wait for their head until `listen.headersTimeout`.
 */
const UNUSED_CONNECTION_GRACE: Duration = 1_000;

/** An answer given at the last moment is to leave the machine before its connection is cut. */
const FLUSH_TIMEOUT: Duration = 1_000;

/** How often it is looked whether requests came on connections that were open. */
const LOOK_EVERY: Duration = 20;

export interface DrainOptions {
  readonly listener: FastifyInstance;
  readonly inFlight: InFlight;
  readonly clock: Clock;
  /** What still runs after so long is refused. */
  readonly timeout: Duration;
}

/**
 * Stops accepting connections, closes idle ones at once and busy ones after their answer, which has to say
 * `Connection: close`. Resolves when no connection is left: after `timeout` and little more at the latest.
 */
export async function drain({ listener, inFlight, clock, timeout }: DrainOptions): Promise<void> {
  const deadline = clock.now() + timeout;
  const closed = listener.close();
  let isClosed = false;
  void closed.then(() => {
    isClosed = true;
  });

  let idleSince = clock.now();
  for (;;) {
    const now = clock.now();
    if (inFlight.size > 0) idleSince = now;
    if (isClosed || now >= deadline || now - idleSince >= UNUSED_CONNECTION_GRACE) break;
    const step = Math.min(LOOK_EVERY, deadline - now);
    await Promise.race([closed, sleep(step, clock)]);
  }
  const late = inFlight.settled();
  for (const context of inFlight.all()) refuseLate(context);
  await settledWithin(late, FLUSH_TIMEOUT, clock);
  listener.server.closeAllConnections();
  await settledWithin(closed, FLUSH_TIMEOUT, clock);
}

/** Answers a request for which there is no time left; one whose answer has begun can only be cut off. */
function refuseLate(context: RequestContext): void {
  const { request, response } = context;
  if (response.headersSent) {
    response.destroy();
    return;
  }
  context.outcome = "refused";
  context.error = new GatewayError(
    "stopping",
    "the gateway is being stopped and could not wait any longer; try again",
    { retryAfter: 1 },
  );
  sendAnswer(request, response, errorAnswer(context.error), commonFieldsOf(context, true));
}
