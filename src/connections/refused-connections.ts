import type { Socket } from "node:net";
import type { CancelTimer, Clock, Duration } from "../clock.ts";

/** After a refusal that ends the connection, the client may read it for so long. */
const REFUSED_GRACE: Duration = 1_000;

/** Connections that got their last answer, a refusal, until their clients close them. */
export class RefusedConnections {
  private readonly clock: Clock;
  private readonly reset: (socket: Socket) => void;
  private readonly waiting = new Map<Socket, CancelTimer>();

  /** @param reset closes a connection whose client does not */
  constructor(clock: Clock, reset: (socket: Socket) => void) {
    this.clock = clock;
    this.reset = reset;
  }

  /** The connection closes when its client closes it, or after a second. */
  add(socket: Socket): void {
    if (this.waiting.has(socket) || socket.destroyed) return;
    // Else nothing shows that the client has closed it.
    socket.resume();
    const cancel = this.clock.after(REFUSED_GRACE, () => this.reset(socket));
    this.waiting.set(socket, cancel);
    socket.once("close", () => {
      cancel();
      this.waiting.delete(socket);
    });
  }

  /** Closes the one that waits longest, and returns it; undefined when none waits. */
  closeFirst(): Socket | undefined {
    const [socket] = this.waiting.keys();
    if (socket === undefined) return undefined;
    this.reset(socket);
    this.waiting.delete(socket);
    return socket;
  }

  closeAll(): void {
    for (const socket of this.waiting.keys()) this.reset(socket);
  }
}
