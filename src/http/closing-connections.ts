import type { Socket } from "node:net";
import type { CancelTimer, Clock, Duration } from "../clock.ts";

/** After a refusal that ends the connection, the client may read it for so long. */
const REFUSED_GRACE: Duration = 1_000;

/**
 * A client that has closed its side may be gone, or may wait for its answer: nothing tells until something is sent. It
 * is believed to wait for so long, and so many are: of clients that go in numbers, calls to registries must not stay.
 */
const HALF_CLOSED_GRACE: Duration = 2_000;
const MAX_HALF_CLOSED = 32;

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

  /** The connection closes when its client closes it, or after a second. Nothing on it is read. */
  add(socket: Socket): void {
    if (this.waiting.has(socket) || socket.destroyed) return;
    socket.removeAllListeners("data");
    socket.on("data", () => undefined);
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

/** Connections whose client has closed its side, and may or may not wait for an answer. */
export class HalfClosedConnections {
  private readonly clock: Clock;
  private readonly waiting = new Set<Socket>();

  constructor(clock: Clock) {
    this.clock = clock;
  }

  /** The connection is closed where nothing is sent on it for two seconds, or at once where there are too many. */
  add(socket: Socket): void {
    // Node has ended it where no answer was to come.
    if (socket.writableEnded) return;
    const { bytesWritten } = socket;
    const cancel = this.clock.after(HALF_CLOSED_GRACE, () => {
      if (socket.bytesWritten === bytesWritten) socket.destroy();
    });
    this.waiting.add(socket);
    socket.once("close", () => {
      cancel();
      this.waiting.delete(socket);
    });
    if (this.waiting.size <= MAX_HALF_CLOSED) return;
    const [longest] = this.waiting;
    this.waiting.delete(longest!);
    longest!.destroy();
  }
}
