import {
  createServer,
  type IncomingMessage,
  type RequestListener,
  type Server,
  type ServerOptions,
  ServerResponse,
} from "node:http";
import type { Socket } from "node:net";
import type { CancelTimer, Clock, Duration, Instant } from "../clock.ts";
import type { ClosingReason } from "../observe/metrics/labels.ts";

export interface ClientConnectionsOptions {
  readonly clock: Clock;
  /** How many may be open. */
  readonly max: number;
  /** Told of each connection that found no place. */
  readonly onDropped?: () => void;
  readonly onClosed?: (reason: ClosingReason) => void;
}

/** A client that has taken not a byte of its answer for so long reads no more. */
const UNREAD_TIMEOUT: Duration = 30_000;

/** How often it is looked how far the clients are that answers wait for. */
const LOOK_EVERY: Duration = 1_000;

/** What may be unread on all connections of a listener. */
const MAX_WAITING_BYTES = 128 * 1024 * 1024;

/**
 * Requests that may wait behind others on one connection: many while few wait on all, and few while many do. Node makes
 * some 5 KiB of each, however short, and of all that it reads at once; and ending a connection takes time for each.
 */
const MAX_HELD = 256;
const MAX_HELD_WHEN_CROWDED = 16;
const CROWDED = 4 * 1024;
const MAX_HELD_IN_ALL = 16 * 1024;

/** After a refusal that ends the connection, the client may read it for so long. */
const REFUSED_GRACE: Duration = 1_000;

/**
 * A client that has closed its side may be gone, or may wait for its answer: nothing tells until something is sent. It
 * is believed to wait for so long, and so many are: of clients that go in numbers, calls to registries must not stay.
 */
const HALF_CLOSED_GRACE: Duration = 2_000;
const MAX_HALF_CLOSED = 32;

/** How many idle connections are noted at once to be closed one after the other, and how often they are looked for. */
const IDLE_BATCH = 100;
const IDLE_SEARCH_EVERY: Duration = 100;

/** Places for connections about which it is decided whether an idle one makes room for them. */
const ADMISSION_PLACES = 64;

const CONNECTION = Symbol("client connection");

type ClientSocket = Socket & { [CONNECTION]?: Connection };

interface Connection {
  readonly socket: Socket;
  readonly owner: ClientConnections;
  /** When it was opened or brought its last request, counted in these, of whatever connection. */
  lastUse: number;
  /** Requests behind one whose answer is not out. */
  held: number;
  /** Called when there are none of these any more. */
  afterHeld: (() => void) | undefined;
  isWatched: boolean;
  /** Bytes of the answer that the client has not taken. */
  unread: number;
  /** What of them is counted in all. */
  weight: number;
  /** Bytes that the kernel had not taken when it was last looked. */
  unsent: number;
  /** When the client last took something. */
  progressAt: Instant;
}

/** Tells its connection when there is more than the client takes. */
class ClientResponse extends ServerResponse {
  override write(chunk: unknown, encoding?: unknown, callback?: unknown): boolean {
    const isTaken = super.write(chunk, encoding as BufferEncoding, callback as () => void);
    if (!isTaken) watch(this);
    return isTaken;
  }

  override end(chunk?: unknown, encoding?: unknown, callback?: unknown): this {
    super.end(chunk, encoding as BufferEncoding, callback as () => void);
    if (this.writableLength > 0) watch(this);
    return this;
  }
}

function watch(response: ServerResponse): void {
  const connection = (response.req.socket as ClientSocket)[CONNECTION];
  connection?.owner.watch(connection, response);
}

/**
 * The connections of a listener's clients, which are served only as fast as they read: one request at a time, the next
 * when the answer before it has left the process. Requests and answers that wait meanwhile are bounded on one connection
 * and on all, and so is the time that a client may read nothing.
 *
 * A request that comes alone, and whose answer the kernel takes whole, pays for none of this but two comparisons.
 */
export class ClientConnections {
  private readonly options: ClientConnectionsOptions;
  private readonly open = new Set<Connection>();
  /** Those on which something waits, the longest without progress first. */
  private readonly waiting = new Set<Connection>();
  private waitingBytes = 0;
  private held = 0;
  private cancelLook: CancelTimer | undefined;
  /** Refused, and not closed by the client yet. */
  private readonly refused = new Map<Socket, CancelTimer>();
  /** Of whose clients nobody knows whether they are there. */
  private readonly halfClosed = new Set<Socket>();
  private uses = 0;
  /** Found idle, the one that has been so for longest last; `lastUse` tells whether it still is. */
  private idle: { readonly connection: Connection; readonly lastUse: number }[] = [];
  private nextIdleSearch: Instant = -Infinity;

  constructor(options: ClientConnectionsOptions) {
    this.options = options;
  }

  /** A server whose connections these are; several may share them, if only one listens. */
  createServer(options: ServerOptions, answer: RequestListener): Server {
    const server: Server & { httpAllowHalfOpen?: boolean } = createServer(
      { ...options, ServerResponse: ClientResponse },
      this.inTurn(answer),
    );
    // Node's own name for it: the end of what a client sends is not the end of what it reads.
    server.httpAllowHalfOpen = true;
    server.maxConnections = this.options.max + ADMISSION_PLACES;
    server.on("connection", (socket) => this.admit(socket));
    server.on("drop", () => this.options.onDropped?.());
    return server;
  }

  /** `answer`, for each request when those before it on its connection have been answered. */
  inTurn(answer: RequestListener): RequestListener {
    return (request, response) => {
      const connection = (request.socket as ClientSocket)[CONNECTION];
      if (connection !== undefined) connection.lastUse = ++this.uses;
      // Node gives the socket to one response after the other.
      if (response.socket !== null || connection === undefined) answer(request, response);
      else this.hold(connection, { request, response, answer });
    };
  }

  /** Calls `next` when none of the requests that were read on a connection waits for its turn any more. */
  afterHeld(socket: Socket, next: () => void): void {
    const connection = (socket as ClientSocket)[CONNECTION];
    if (connection === undefined || connection.held === 0) next();
    else connection.afterHeld = next;
  }

  /** Notes how much of an answer its client has not taken; called by the answer itself. */
  watch(connection: Connection, response: ServerResponse): void {
    if (response.closed || response.destroyed) return;
    connection.unread = response.writableLength;
    if (!connection.isWatched) {
      connection.isWatched = true;
      response.once("close", () => {
        connection.isWatched = false;
        connection.unread = 0;
        this.weigh(connection);
      });
    }
    this.weigh(connection);
  }

  /** Closes a connection that got its last answer: when the client does, or after a second. Nothing on it is heard. */
  closeSoon(socket: Socket): void {
    if (this.refused.has(socket) || socket.destroyed) return;
    socket.removeAllListeners("data");
    socket.on("data", () => undefined);
    const cancel = this.options.clock.after(REFUSED_GRACE, () => this.reset(socket, "refused"));
    this.refused.set(socket, cancel);
    socket.once("close", () => {
      cancel();
      this.refused.delete(socket);
    });
  }

  /** Closes at once what `closeSoon` was to close: nobody is to wait for it. */
  closeRefused(): void {
    for (const socket of this.refused.keys()) this.reset(socket, "refused");
  }

  private admit(socket: ClientSocket): void {
    const { max, onDropped } = this.options;
    if (this.open.size >= max && !this.makeRoom()) {
      socket.destroy();
      onDropped?.();
      return;
    }
    const connection: Connection = {
      socket,
      owner: this,
      lastUse: ++this.uses,
      held: 0,
      afterHeld: undefined,
      isWatched: false,
      unread: 0,
      weight: 0,
      unsent: 0,
      progressAt: 0,
    };
    socket[CONNECTION] = connection;
    endWithSocket(socket);
    this.open.add(connection);
    socket.once("end", () => this.halfClose(socket));
    socket.once("close", () => this.forget(connection));
  }

  private halfClose(socket: Socket): void {
    // Node has ended it where no answer was to come.
    if (socket.writableEnded) return;
    const { bytesWritten } = socket;
    const cancel = this.options.clock.after(HALF_CLOSED_GRACE, () => {
      if (socket.bytesWritten === bytesWritten) socket.destroy();
    });
    this.halfClosed.add(socket);
    socket.once("close", () => {
      cancel();
      this.halfClosed.delete(socket);
    });
    if (this.halfClosed.size <= MAX_HALF_CLOSED) return;
    const [longest] = this.halfClosed;
    this.halfClosed.delete(longest!);
    longest!.destroy();
  }

  private forget(connection: Connection): void {
    this.open.delete(connection);
    this.held -= connection.held;
    connection.held = 0;
    connection.unread = 0;
    this.weigh(connection);
  }

  private hold(
    connection: Connection,
    { request, response, answer }: { request: IncomingMessage; response: ServerResponse; answer: RequestListener },
  ): void {
    const { socket } = connection;
    if (socket.destroyed) return;
    const most = this.held < CROWDED ? MAX_HELD : MAX_HELD_WHEN_CROWDED;
    if (connection.held >= most || this.held === MAX_HELD_IN_ALL) {
      this.close(connection, "pipelined");
      return;
    }
    connection.held += 1;
    this.held += 1;
    const serve = () => {
      if (socket.destroyed) return;
      connection.held -= 1;
      this.held -= 1;
      answer(request, response);
      if (connection.held === 0) connection.afterHeld?.();
    };
    // In another turn: what is read meanwhile, on other connections too, has its turn between two of these.
    response.once("socket", () => setImmediate(serve));
  }

  /** Counts what is unread on a connection, and closes those that wait longest where it is too much in all. */
  private weigh(connection: Connection): void {
    const { socket, unread } = connection;
    const weight = socket.destroyed ? 0 : unread;
    this.waitingBytes += weight - connection.weight;
    connection.weight = weight;
    if (weight === 0) {
      this.waiting.delete(connection);
      return;
    }
    if (!this.waiting.has(connection)) {
      this.waiting.add(connection);
      connection.progressAt = this.options.clock.now();
      connection.unsent = unsentBytes(socket);
      this.cancelLook ??= this.options.clock.after(LOOK_EVERY, this.look);
    }
    // One alone may have all of it.
    while (this.waitingBytes > MAX_WAITING_BYTES && this.waiting.size > 1) {
      const [longest] = this.waiting;
      this.close(longest!, "crowded");
    }
  }

  private readonly look = (): void => {
    const now = this.options.clock.now();
    this.cancelLook = undefined;
    // What made progress goes to the end, and is not to be met there again.
    const waiting = [...this.waiting];
    for (const connection of waiting) {
      const unsent = unsentBytes(connection.socket);
      if (unsent === 0) {
        // A stream whose next bytes are still to come.
        connection.unread = 0;
        this.weigh(connection);
      } else if (unsent !== connection.unsent) {
        connection.unsent = unsent;
        connection.progressAt = now;
        this.waiting.delete(connection);
        this.waiting.add(connection);
      } else if (now - connection.progressAt >= UNREAD_TIMEOUT) {
        this.close(connection, "unread");
      }
    }
    if (this.waiting.size > 0) this.cancelLook = this.options.clock.after(LOOK_EVERY, this.look);
  };

  /** False when every connection is in use. */
  private makeRoom(): boolean {
    const [refused] = this.refused.keys();
    if (refused === undefined) return this.closeLongestIdle();
    this.reset(refused, "refused");
    this.refused.delete(refused);
    this.forget((refused as ClientSocket)[CONNECTION]!);
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

  private close(connection: Connection, reason: ClosingReason): void {
    this.reset(connection.socket, reason);
    // The requests that it held are in memory until Node has closed it, and are counted until then.
    this.weigh(connection);
  }

  /** Not ended but reset: what the client has not read by now must not stay in the kernel either. */
  private reset(socket: Socket, reason: ClosingReason): void {
    if (socket.destroyed) return;
    this.options.onClosed?.(reason);
    socket.resetAndDestroy();
  }
}

/** What tells Node's parser to leave the rest of what was read. */
const PARSER_STOP = 2;

interface RequestParser {
  onIncoming: (request: IncomingMessage, keepAlive: boolean) => number;
}

/**
 * Lets the parser end with the connection. By itself it would go on and make requests, thousands maybe, of all that was
 * read at once; and Node would make two errors of each, which takes seconds.
 */
function endWithSocket(socket: Socket): void {
  const { parser } = socket as { parser?: RequestParser | null };
  if (parser === undefined || parser === null) return;
  const { onIncoming } = parser;
  parser.onIncoming = (request, keepAlive) => (socket.destroyed ? PARSER_STOP : onIncoming(request, keepAlive));
}

/** Whether nothing is under way on a connection, and no part of a first request has come. */
function isIdle({ socket, weight }: Connection): boolean {
  if (weight > 0 || socket.destroyed) return false;
  // Node sets this when the last answer is out, and takes it away with the next request.
  return (socket.timeout ?? 0) > 0 || socket.bytesRead === 0;
}

/** Nothing public tells how far a large write has come; Node's own timeouts look here. */
function unsentBytes(socket: Socket): number {
  return (socket as { _handle?: { writeQueueSize?: number } | null })._handle?.writeQueueSize ?? 0;
}

/** Whether an answer has begun on the connection and is not complete; only Node knows whose turn it is. */
export function isAnswering(socket: Socket): boolean {
  const response = (socket as { _httpMessage?: ServerResponse | null })._httpMessage;
  return response?.headersSent === true && !response.writableEnded;
}
