import type { IncomingMessage, ServerResponse } from "node:http";
import type { Socket } from "node:net";
import type { CancelTimer, Clock, Duration } from "../clock.ts";

/** After a refusal that ends the connection, the client may read it for so long. */
const REFUSED_GRACE: Duration = 1_000;

/** Bytes of a refused body that are read and dropped; what is beyond waits in the kernel until the connection ends. */
const MOST_DROPPED = 4 * 1024 * 1024;

/** To read chunks of a few bytes costs more than an answer that may get lost: then the connection ends at once. */
const FREE_CHUNKS = 1_024;
const BYTES_OF_A_CHUNK = 16;

const unread = new WeakSet<IncomingMessage>();

/** No more of a body is taken, as it costs too much: its connection ends with the answer. */
export function readNoMore(request: IncomingMessage): void {
  unread.add(request);
  request.socket.pause();
}

/**
 * Reads a body that nobody wants, and drops it: each chunk that is kept takes some hundred bytes. `onTooDear` is called when it
 * comes in too many chunks; of what is too large the rest waits.
 */
export function dropBody(request: IncomingMessage, onTooDear: () => void): void {
  let bytes = 0;
  let chunks = 0;
  request.on("data", (chunk: Buffer) => {
    bytes += chunk.length;
    chunks += 1;
    if (chunks > FREE_CHUNKS + bytes / BYTES_OF_A_CHUNK) onTooDear();
    else if (bytes > MOST_DROPPED) request.pause();
  });
  // Nobody may have listened to it before.
  request.resume();
}

/** Whether more of a body may be taken. The socket cannot be asked: Node pauses it, too, while nobody reads a body. */
export function mayBeRead(request: IncomingMessage): boolean {
  return !unread.has(request);
}

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

  /**
   * Ends an answer that is written, and its connection, when the body of its request has come, or after a second. To close
   * a connection with bytes that nobody has read resets it, and its client may lose the answer (RFC 9112 §9.6).
   */
  endAfterBody(response: ServerResponse): void {
    const { req: request } = response;
    const end = (): void => {
      if (!response.writableEnded) response.end(() => request.socket.destroySoon());
    };
    const cancel = this.clock.after(REFUSED_GRACE, end);
    response.once("close", cancel);
    request.once("end", end);
    dropBody(request, end);
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
