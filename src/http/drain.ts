import type { FastifyInstance } from "fastify";
import type { Clock, Duration } from "../clock.ts";
import type { InFlight, RunningRequest } from "./in-flight.ts";
import { sleep, settledWithin } from "../deadline.ts";

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
  /** Answers a request that has run out of time. */
  readonly refuse: (running: RunningRequest) => void;
}

/**
 * Stops accepting connections, closes idle ones at once and busy ones after their answer, which has to say
 * `Connection: close`. Resolves when no connection is left: after `timeout` and little more at the latest.
 */
export async function drain(options: DrainOptions): Promise<void> {
  const { listener, inFlight, clock, timeout, refuse } = options;
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
  for (const running of inFlight.all()) refuse(running);
  await settledWithin(late, FLUSH_TIMEOUT, clock);
  listener.server.closeAllConnections();
  await settledWithin(closed, FLUSH_TIMEOUT, clock);
}
