import type { Socket } from "node:net";
import { type PeerCertificate, TLSSocket } from "node:tls";
import type { Dispatcher } from "undici";
import type { Duration, Instant } from "../../clock.ts";
import type { Exchange, StepFault } from "./in-step.ts";

export type Protocol = "http/1.1" | "h2";

/** No connection is idle for longer, where its node does not say when it closes those: many do after a minute. */
export const MOST_IDLE: Duration = 45_000;

/**
 * One connection to a node, open, and never opened again: nobody would have asked whose it is. Unless one says otherwise, its
 * requests are streams with numbers: no answer can be another's.
 */
export abstract class Connection {
  abstract readonly protocol: Protocol;
  /** It may carry requests; see `Connections`. */
  isProved = false;
  /** When the node proved itself over it, or over the one that vouched for it. */
  provedAt: Instant = -Infinity;
  /** Requests that are under way on it. */
  inFlight = 0;
  /** Whom it leads to: the remote address and port and, with TLS, the certificate that was shown. */
  readonly peer: string;
  /** When the certificate ends that was shown (RFC 3339); undefined without TLS. */
  readonly certificateEnd: string | undefined;
  readonly openedAt: Instant;
  protected readonly socket: Socket;
  private readonly onClose: (connection: Connection) => void;
  private isOver = false;

  /** `onClose` is called once, as soon as no request can be sent on it any more. */
  constructor(socket: Socket, openedAt: Instant, onClose: (connection: Connection) => void) {
    const certificate = socket instanceof TLSSocket ? socket.getPeerCertificate() : undefined;
    this.socket = socket;
    this.openedAt = openedAt;
    this.onClose = onClose;
    this.peer = peerOf(socket, certificate);
    this.certificateEnd = endOf(certificate);
    socket.once("close", () => this.end());
  }

  /** Requests that it takes beside those that are under way. */
  abstract get room(): number;

  /** As undici does it. */
  abstract dispatch(request: Dispatcher.DispatchOptions, handler: Dispatcher.DispatchHandler): void;

  /** A request is on its way; undefined where no answer can be another's. */
  asked(_method: string, _path: string): Exchange | undefined {
    return undefined;
  }

  /** All of the answer is here. Calls `done` when it is known as far as it can be whether that is the answer. */
  answered(done: (error: Error | undefined) => void): void {
    done(undefined);
  }

  /** Whether a call was sent over it before, whose answer could still come. */
  get isInDoubt(): boolean {
    return false;
  }

  /** What was asked last has brought the node's info: all before it was in step. */
  confirm(): void {
    // It was so by its number.
  }

  /** An answer that came over it was to another request. */
  leaveStep(_fault: StepFault): void {
    this.destroy();
  }

  /** Closes it at once; requests on it fail. */
  abstract destroy(): void;

  /** Takes no more requests, and closes it when those under way have ended. */
  abstract close(): void;

  /** It takes requests, as far as this process has heard. */
  get isOpen(): boolean {
    return !this.isOver && !this.socket.destroyed;
  }

  protected end(): void {
    if (this.isOver) return;
    this.isOver = true;
    this.onClose(this);
  }
}

function peerOf(socket: Socket, certificate: PeerCertificate | undefined): string {
  const address = `${socket.remoteAddress} ${socket.remotePort}`;
  return certificate === undefined ? address : `${address} ${certificate.fingerprint256}`;
}

function endOf(certificate: PeerCertificate | undefined): string | undefined {
  const end = Date.parse(certificate?.valid_to ?? "");
  return Number.isNaN(end) ? undefined : new Date(end).toISOString();
}
