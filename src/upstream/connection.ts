import type { Socket } from "node:net";
import { Client, type Dispatcher } from "undici";
import type { Duration, Instant } from "../clock.ts";
import type { Failure } from "./failure.ts";

/** All that is known of the registry at one remote address. A proxy hides the address: there, each connection has its own. */
export interface Proof {
  /** When its info named the admin. The proof ends when no connection to the address is open any more. */
  at: Instant;
  /** Connections to the address that are open. */
  open: number;
  /** Until then a node is believed that closed its last connection right behind its info. */
  graceUntil: Instant;
  /** Until then other addresses of the name are taken first: here no info was to be had, or another registry's. */
  shunnedUntil: Instant;
  /** Its last info was another registry's. */
  isAnothers: boolean;
  /** It has carried calls since it was proved. */
  hasCarried: boolean;
  /** The info that is being asked over one of its connections. */
  asking: Promise<Failure | undefined> | undefined;
}

/** How long an idle connection is kept; shorter where the node says so. */
export const MOST_IDLE: Duration = 45_000;
/** undici's own timers are coarse: deadlines are kept by whoever waits. */
const CLIENT = {
  pipelining: 1,
  headersTimeout: 0,
  bodyTimeout: 0,
  maxHeaderSize: 32 * 1_024,
  keepAliveTimeout: MOST_IDLE,
  keepAliveMaxTimeout: MOST_IDLE,
  allowH2: false,
} as const;

/** One socket, which carries one request at a time. */
export class Connection {
  readonly proof: Proof;
  readonly address: string;
  /** When its info came; undefined: another answer came since. */
  infoAt: Instant | undefined;
  wasUsed = false;
  /** Its info is being asked. */
  isAsked = false;
  private readonly socket: Socket;
  private readonly client: Client;

  constructor(socket: Socket, origin: string, proof: Proof) {
    this.socket = socket;
    this.address = socket.remoteAddress ?? "";
    this.proof = proof;
    let isHandedOver = false;
    // undici asks for a socket whenever it has a request and none: it gets this one, and never another.
    const connect = ((_options: unknown, done: (error: Error | null, socket: Socket | null) => void) => {
      // What came before anything was asked is no answer: a 408, perhaps.
      const isUnfit = isHandedOver || !this.isOpen || socket.readableLength > 0;
      if (isUnfit) return done(new ClosedError("the connection is closed"), null);
      isHandedOver = true;
      // Never at once: undici has not put the request into its queue yet, and would forget it.
      queueMicrotask(() => done(null, socket));
    }) as never;
    this.client = new Client(origin, { ...CLIENT, connect });
  }

  get isOpen(): boolean {
    return !this.socket.destroyed;
  }

  /** It was reset: what undici took for the end of an answer without a length is none. */
  get isReset(): boolean {
    return this.socket.errored !== null;
  }

  dispatch(request: Dispatcher.DispatchOptions, handler: Dispatcher.DispatchHandler): void {
    this.wasUsed = true;
    this.client.dispatch(request, handler);
  }

  close(): void {
    void this.client.destroy(new ClosedError("the connection was closed"));
    this.socket.destroy();
  }
}

/** The connection was closed here, or before a request could be sent on it. */
class ClosedError extends Error {
  readonly code = "ECONNRESET";
}

/** Whether a connection that was fit to carry a call still is, after a wait for the limit. */
export function holdsYet({ proof, isOpen }: Connection, now: Instant, proofEvery: Duration): boolean {
  // A node that closes behind its info gives no newer proof than the one by which this connection was opened.
  const isBelieved = proof.at === -Infinity && now >= proof.shunnedUntil;
  return isOpen && (isBelieved || holds(proof, now, proofEvery));
}

/** Whether connections with this proof may carry calls. */
export function holds({ at, open, graceUntil }: Proof, now: Instant, proofEvery: Duration): boolean {
  return (open > 0 && now - at < proofEvery) || now < graceUntil;
}
