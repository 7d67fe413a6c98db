import type { Socket } from "node:net";
import type { FastifyInstance } from "fastify";
import { type Clock, type Duration, settledWithin, sleep } from "../clock.ts";

/** Time between two looks for connections that became idle, or sent nothing yet, which are closed. */
const IDLE_EVERY: Duration = 100;

/** Time in which each answer says that it is its connection's last: few are left then that a client may just be using. */
const LAST: Duration = 1_000;

/**
 * Goes on as before for `grace`, and a second more with `Connection: close` on each answer. Then stops listening, and waits
 * until every connection has ended: those that are idle at once, the others with their answer. What still runs after `timeout`
 * is cut.
 *
 * @param sockets the open connections of clients, below TLS
 */
export async function drain(
  app: FastifyInstance,
  sockets: ReadonlySet<Socket>,
  { grace, timeout, clock }: { readonly grace: Duration; readonly timeout: Duration; readonly clock: Clock },
): Promise<void> {
  await sleep(grace, clock);
  if (grace > 0) {
    app.server.prependListener("request", (_request, response) => void response.setHeader("connection", "close"));
    await sleep(LAST, clock);
  }
  const closed = app.close();
  const end = clock.now() + timeout;
  while (!(await settledWithin(closed, IDLE_EVERY, clock)) && clock.now() < end) {
    app.server.closeIdleConnections();
    // For Node a connection is busy before its first request, and none at all before its handshake.
    for (const socket of sockets) if (socket.bytesRead === 0) socket.destroy();
  }
  for (const socket of sockets) socket.destroy();
  await closed;
}
