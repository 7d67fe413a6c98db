import {
  createServer,
  type IncomingMessage,
  type RequestListener,
  type Server,
  type ServerOptions,
  type ServerResponse,
} from "node:http";
import type { Socket } from "node:net";
import type { TLSSocket } from "node:tls";
import type { Clock, Duration, Instant } from "../clock.ts";
import { clientResponses, QueuedRequests, type ReceivedRequest, type RequestQueue, UnreadAnswers } from "./backlog.ts";
import { hasBody, isInOnePiece, MOST_FIELDS } from "./framing.ts";
import { dropBody, RefusedConnections } from "./refused-connections.ts";
import { createTlsServer, type TlsServerOptions } from "./tls.ts";

/**
 * Why the gateway closed a connection of a client: too much was sent ahead on it, nothing was read on it, too much waited
 * on all of them together, its place was needed while it was idle, or it stayed open after a refusal.
 */
export type ClosingReason = "pipelined" | "unread" | "crowded" | "idle" | "refused";

export interface ClientConnectionsOptions {
  readonly clock: Clock;
  /** How many may be open. */
  readonly max: number;
  /** A client that has taken not a byte of its answer for so long reads no more. */
  readonly unreadTimeout?: Duration;
  /** Called for each connection that there was no room for. */
  readonly onDropped?: () => void;
  readonly onClosed?: (reason: ClosingReason) => void;
}

const UNREAD_TIMEOUT: Duration = 30_000;

/** How many idle connections are noted at once to be closed one after the other, and how often they are looked for. */
const IDLE_BATCH = 100;
const IDLE_SEARCH_EVERY: Duration = 100;

/** So many connections more may be open while it is decided whether an idle one makes room for them. */
const ADMISSION_ROOM = 64;

/**
 * A client may have all of an answer before it is known here that it has ended: over TLS by a turn, and where the end of a
 * registry's stream comes after its last byte.
 */
const MOMENT: Duration = 50;

/** Requests that are read on a connection that is ending: Node makes some KiB of each. */
const MOST_IGNORED = 256;

interface Connection {
  /** What was accepted. */
  readonly transport: Socket;
  /** What HTTP is spoken on: once there is one, the TLS over the transport. */
  socket: Socket;
  /** When it was opened or brought its last request, counted in these, of whatever connection. */
  lastUse: number;
  /** The request whose answer is not out yet. */
  current: ReceivedRequest | undefined;
  /** Those behind it. */
  readonly queue: RequestQueue;
  /** No further request is taken from it: what comes may be none. */
  isEnding: boolean;
  isRefused: boolean;
  /** Requests since then. */
  ignored: number;
  /** Writes the last answer, when all requests are answered. */
  afterAnswers: (() => void) | undefined;
}

/**
 * The connections of a listener's clients, which are served only as fast as they read: one request at a time, the next
 * when the answer before it has left the process. Requests and answers that wait meanwhile are bounded on one connection
 * and on all, and so is the time that a client may read nothing.
 */
export class ClientConnections {
  private readonly options: ClientConnectionsOptions;
  private readonly open = new Set<Connection>();
  private readonly bySocket = new WeakMap<Socket, Connection>();
  /** By their ends, those whose TLS is still to come. */
  private readonly handshakes = new Map<string, Connection>();
  private readonly queued = new QueuedRequests();
  private readonly unread: UnreadAnswers;
  private readonly unreadTimeout: Duration;
  private readonly refused: RefusedConnections;
  private uses = 0;
  /** Found idle, the one that has been so for longest last; `lastUse` says whether it still is. */
  private idle: { readonly connection: Connection; readonly lastUse: number }[] = [];
  private nextIdleSearch: Instant = -Infinity;

  constructor(options: ClientConnectionsOptions) {
    this.options = options;
    this.unreadTimeout = options.unreadTimeout ?? UNREAD_TIMEOUT;
    this.unread = new UnreadAnswers({
      timeout: this.unreadTimeout,
      close: ({ req }, reason) => this.reset(req.socket, reason),
    });
    this.refused = new RefusedConnections(options.clock, (socket) => this.reset(socket, "refused"));
  }

  /** A server whose connections these are; of HTTPS where there is `tls`. */
  createServer(options: ServerOptions, answer: RequestListener, tls?: TlsServerOptions): Server {
    const http: ServerOptions = {
      ...options,
      ServerResponse: clientResponses({
        onUnread: this.unread.note,
        endAfterBody: (response) => this.endAfterBody(response),
      }),
    };
    const server =
      tls === undefined ? createServer(http, this.inTurn(answer)) : createTlsServer(http, this.inTurn(answer), tls);
    // What is beyond it Node leaves out, in silence: one more than framing lets through, so that framing can refuse it.
    server.maxHeadersCount = MOST_FIELDS + 1;
    server.maxConnections = this.options.max + ADMISSION_ROOM;
    server.on("connection", (socket) => this.admit(socket, tls !== undefined));
    server.on("secureConnection", (socket: TLSSocket) => this.secure(socket));
    server.on("drop", () => this.options.onDropped?.());
    return server;
  }

  /** `answer`, for each request when those before it on its connection have been answered. */
  inTurn(answer: RequestListener): RequestListener {
    return (request, response) => {
      const connection = this.bySocket.get(request.socket);
      if (connection === undefined || request.socket.destroyed) return;
      if (connection.isEnding) {
        this.ignore(connection, request);
        return;
      }
      connection.lastUse = ++this.uses;
      if (request.headers.upgrade !== undefined) {
        // Node loses what comes behind such a head in the same read: the rest of it must not be taken for requests.
        connection.isEnding = true;
        response.setHeader("connection", "close");
      }
      const received = { request, response, answer };
      if (!isBusy(connection)) this.serve(connection, received);
      else if (!this.queued.add(connection.queue, received)) this.reset(connection.socket, "pipelined");
      else if (hasBody(request)) this.options.clock.after(MOMENT, () => this.endBefore(connection, request));
    };
  }

  /**
   * Ends a connection on which something came that is no request. What came whole before it is answered first; `refuse`
   * writes the last answer, which is that of the last request where it is about that one's body.
   */
  refuse(socket: Socket, refuse: () => void): void {
    const connection = this.bySocket.get(socket);
    if (connection === undefined) socket.destroy();
    if (connection === undefined || connection.isRefused) return;
    const { current, queue, isEnding } = connection;
    const last = queue.requests.at(-1) ?? current;
    const isInBody = last?.request.complete === false;
    // Nothing behind the last request is looked at.
    if (isEnding && !isInBody) return;
    connection.isEnding = true;
    connection.isRefused = true;
    const send = (): void => {
      if (!socket.writable) socket.destroy();
      else refuse();
      this.refused.add(socket);
    };
    if (isInBody && queue.requests.length > 0) this.queued.takeLast(queue);
    else if (isInBody) {
      // No other answer can be put into one that has begun.
      if (!current!.response.headersSent) send();
      else if (!current!.response.writableEnded) socket.destroy();
      return;
    }
    if (isBusy(connection)) connection.afterAnswers = send;
    else send();
  }

  /** What is below a connection whose handshake failed; undefined where it is closed. */
  transportOf(socket: Socket): Socket | undefined {
    return this.handshakes.get(endsOf(socket))?.transport;
  }

  /** Whether there are answers that their clients have still to take. */
  get isSending(): boolean {
    return this.unread.size > 0;
  }

  /** Resolves when there are none of these. */
  settled(): Promise<void> {
    return this.unread.settled();
  }

  private endAfterBody(response: ServerResponse): void {
    const connection = this.bySocket.get(response.req.socket);
    // What comes behind the body is not looked at.
    if (connection !== undefined) connection.isEnding = true;
    this.refused.endAfterBody(response);
  }

  /**
   * Ends a connection when the answers to what came before this request are out, where that still waits and its body may take
   * much memory until somebody reads it. Its client sends it again over another one (RFC 9112 §9.3.2).
   */
  private endBefore(connection: Connection, request: IncomingMessage): void {
    const { queue, socket } = connection;
    const at = queue.requests.findIndex((each) => each.request === request);
    if (at === -1 || connection.isEnding || isInOnePiece(request)) return;
    connection.isEnding = true;
    connection.afterAnswers = () => {
      socket.end();
      // Else nothing shows that the client has closed it.
      socket.resume();
      const cancel = this.options.clock.after(this.unreadTimeout, () => this.reset(socket, "unread"));
      socket.once("close", cancel);
    };
    while (queue.requests.length > at) this.ignore(connection, this.queued.takeLast(queue)!.request);
  }

  /** Takes no notice of a request that came behind the last one to be answered. */
  private ignore(connection: Connection, request: IncomingMessage): void {
    connection.ignored += 1;
    if (connection.ignored > MOST_IGNORED) this.reset(connection.socket, "pipelined");
    else this.drop(request);
  }

  private drop(request: IncomingMessage): void {
    dropBody(request, () => this.reset(request.socket, "pipelined"));
  }

  /** Closes every connection at once. */
  closeAll(): void {
    for (const { socket } of this.open) socket.destroy();
  }

  /** Closes at once what was refused, and waits for its client to close it. */
  closeRefused(): void {
    this.refused.closeAll();
  }

  private admit(transport: Socket, isForTls: boolean): void {
    const { max, onDropped } = this.options;
    if (this.open.size >= max && !this.makeRoom()) {
      transport.destroy();
      onDropped?.();
      return;
    }
    const connection: Connection = {
      transport,
      socket: transport,
      lastUse: ++this.uses,
      current: undefined,
      queue: { requests: [], weight: 0 },
      isEnding: false,
      ignored: 0,
      isRefused: false,
      afterAnswers: undefined,
    };
    this.open.add(connection);
    this.bySocket.set(transport, connection);
    const ends = endsOf(transport);
    if (isForTls) this.handshakes.set(ends, connection);
    transport.once("close", () => {
      if (this.handshakes.get(ends) === connection) this.handshakes.delete(ends);
      this.forget(connection);
    });
  }

  /** From here on HTTP is spoken on the TLS over a connection that was admitted. */
  private secure(socket: TLSSocket): void {
    const ends = endsOf(socket);
    const connection = this.handshakes.get(ends);
    if (connection === undefined) {
      socket.destroy();
      return;
    }
    this.handshakes.delete(ends);
    connection.socket = socket;
    this.bySocket.set(socket, connection);
  }

  private serve(connection: Connection, received: ReceivedRequest): void {
    const { request, response, answer } = received;
    connection.current = received;
    response.on("close", () => this.answered(connection));
    // Nothing reads a body of these.
    if (hasBody(request) && (request.method === "GET" || request.method === "HEAD")) this.drop(request);
    if (!hasBody(request)) answer(request, response);
    // Until then all that came in one packet with its head is read: what turns out to be no HTTP goes nowhere.
    else
      setImmediate(() => {
        if (request.complete || !connection.isRefused) answer(request, response);
      });
  }

  private answered(connection: Connection): void {
    connection.current = undefined;
    const { queue, afterAnswers, socket } = connection;
    if (socket.destroyed || (queue.requests.length === 0 && afterAnswers === undefined)) return;
    // In another turn: what is read meanwhile, on other connections too, has its turn between two of these.
    setImmediate(() => {
      if (socket.destroyed) return;
      const next = this.queued.take(queue);
      if (next === undefined) connection.afterAnswers?.();
      else this.serve(connection, next);
    });
  }

  private forget(connection: Connection): void {
    this.open.delete(connection);
    this.queued.drop(connection.queue);
  }

  /** False when every connection is in use. */
  private makeRoom(): boolean {
    const refused = this.refused.closeFirst();
    if (refused === undefined) return this.closeLongestIdle();
    this.forget(this.bySocket.get(refused)!);
    return true;
  }

  private closeLongestIdle(): boolean {
    if (this.idle.length === 0) this.findIdle();
    for (let found = this.idle.pop(); found !== undefined; found = this.idle.pop()) {
      const { connection, lastUse } = found;
      if (connection.lastUse !== lastUse || !isIdle(connection)) continue;
      this.options.onClosed?.("idle");
      connection.socket.destroy();
      this.forget(connection);
      return true;
    }
    return false;
  }

  private findIdle(): void {
    const now = this.options.clock.now();
    if (now < this.nextIdleSearch) return;
    this.nextIdleSearch = now + IDLE_SEARCH_EVERY;
    this.idle = [...this.open]
      .filter(isIdle)
      .toSorted((one, other) => one.lastUse - other.lastUse)
      .slice(0, IDLE_BATCH)
      .toReversed()
      .map((connection) => ({ connection, lastUse: connection.lastUse }));
  }

  /** Not ended but reset: what the client has not read by now must not stay in the kernel either. */
  private reset(socket: Socket, reason: ClosingReason): void {
    if (socket.destroyed) return;
    this.options.onClosed?.(reason);
    this.bySocket.get(socket)?.transport.resetAndDestroy();
    // TLS learns of it later.
    socket.destroy();
  }
}

function isBusy({ current, queue }: Connection): boolean {
  return current !== undefined || queue.requests.length > 0;
}

/** Whether nothing is under way on a connection, and no part of a first request has come. */
function isIdle(connection: Connection): boolean {
  const { socket } = connection;
  if (isBusy(connection) || socket.destroyed) return false;
  if (connection.isEnding) return true;
  // Node sets its time for idle connections when the last answer is out, and takes it away with the next request.
  return (socket.timeout ?? 0) > 0 || socket.bytesRead === 0;
}

/** Both ends of a connection, which no other one has. A client may use its port for several addresses of this machine. */
function endsOf({ remoteAddress, remotePort, localAddress, localPort }: Socket): string {
  return `${remoteAddress} ${remotePort} ${localAddress} ${localPort}`;
}
