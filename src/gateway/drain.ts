import { Server as SocketServer } from "node:net";
import { performance } from "node:perf_hooks";
import type { FastifyInstance } from "fastify";
import { type Clock, type Duration, settledWithin, sleep } from "../clock.ts";
import type { ClientConnections } from "../connections/connections.ts";
import { hasUnreadBody } from "../connections/framing.ts";
import { readNoMore } from "../connections/refused-connections.ts";
import { GatewayError } from "../errors.ts";
import { giveUp, type RequestContext } from "../requests/context.ts";
import type { InFlight } from "../requests/in-flight.ts";
import { commonFieldsOf, errorAnswer, sendAnswer } from "../requests/send.ts";

/**
 * Once nothing runs any more, connections that never carried a request are given so long for one that is on its way.
 * Node takes them for busy, and would wait for their head until `listen.headersTimeout`.
 */
const UNUSED_CONNECTION_GRACE: Duration = 1_000;

/** An answer given at the last moment is to leave the machine before its connection is cut. */
const FLUSH_TIMEOUT: Duration = 1_000;

/** How often it is looked whether requests came on connections that were open. */
const LATE_REQUEST_LOOK_EVERY: Duration = 20;

export interface DrainOptions {
  readonly listener: FastifyInstance;
  readonly connections: Pick<ClientConnections, "closeAll" | "isSending" | "settled">;
  readonly inFlight: InFlight;
  readonly clock: Clock;
  /** What still runs after so long is refused. */
  readonly timeout: Duration;
}

/**
 * Stops accepting connections, closes idle ones at once and busy ones after their answer, which has to say
 * `Connection: close`. Resolves when no connection is left: after `timeout` and little more at the latest.
 */
export async function drain({ listener, connections, inFlight, clock, timeout }: DrainOptions): Promise<void> {
  const deadline = clock.now() + timeout;
  // Node takes connections for idle whose answer has ended, and is on its way.
  const settled = stopAccepting(listener).then(() => connections.settled());
  const closed = settledWithin(settled, timeout, clock).then(() => closeListener(listener));
  let isClosed = false;
  void closed.then(() => {
    isClosed = true;
  });

  let idleSince = clock.now();
  for (;;) {
    const now = clock.now();
    if (inFlight.size > 0 || connections.isSending) idleSince = now;
    if (isClosed || now >= deadline || now - idleSince >= UNUSED_CONNECTION_GRACE) break;
    const step = Math.min(LATE_REQUEST_LOOK_EVERY, deadline - now);
    await Promise.race([closed, sleep(step, clock)]);
  }
  const late = inFlight.settled();
  for (const context of inFlight.all()) refuseLate(context);
  await settledWithin(late, FLUSH_TIMEOUT, clock);
  connections.closeAll();
  await settledWithin(closed, FLUSH_TIMEOUT, clock);
}

/** A turn of the event loop this short leaves little time for connections to come after it has accepted. */
const SHORT_TURN: Duration = 1;

/** How long a short turn is waited for. */
const SHORT_TURN_TIMEOUT: Duration = 500;

/**
 * Closes the socket that listens, and nothing else, right after a short turn of the loop has accepted what waited there:
 * what comes between accepting and closing, the kernel resets.
 */
function stopAccepting({ server }: FastifyInstance): Promise<void> {
  return new Promise((resolve) => {
    const latest = performance.now() + SHORT_TURN_TIMEOUT;
    const endTurn = (startedAt: number): void => {
      const now = performance.now();
      if (now - startedAt >= SHORT_TURN && now < latest) {
        setImmediate(endTurn, now);
        return;
      }
      // A server of HTTP is one of sockets, and its own `close` ends idle connections as well.
      SocketServer.prototype.close.call(server);
      resolve();
    };
    setImmediate(() => setImmediate(endTurn, performance.now()));
  });
}

/** Closes idle connections. Resolves when the last one is closed. */
function closeListener(listener: FastifyInstance): Promise<unknown> {
  const serverClosed = new Promise((settle) => listener.server.close(settle));
  return Promise.all([serverClosed, listener.close()]);
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
  // What comes of the body, or waits for its turn, would still be carried out.
  if (hasUnreadBody(request)) readNoMore(request);
  sendAnswer(request, response, errorAnswer(context.error, context.id), commonFieldsOf(context, true));
  giveUp(context);
}
