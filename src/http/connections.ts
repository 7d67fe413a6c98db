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
import type { CancelTimer, Clock, Duration, Instant } from "../clock.ts";
import type { ClosingReason } from "../observe/metrics/labels.ts";
import { MOST_FIELDS } from "./framing.ts";
import {
  ClientResponse,
  endParserWith,
  QueuedRequests,
  type RequestQueue,
  transportOf,
  type UnreadAnswer,
  UnreadAnswers,
} from "./backlog.ts";
import { HeadReader, type HeadReaderOptions, rememberHead, RepeatedHeads } from "./repeated-head.ts";
import { createTlsServer, type TlsServerOptions } from "./tls-server.ts";

/** After a refusal that ends the connection, the client may read it for so long. */
const REFUSED_GRACE: Duration = 1_000;

/**
 * A client that has closed its side may be gone, or may wait for its answer: nothing tells until something is sent. It
 * is believed to wait for so long, and so many are: of clients that go in numbers, calls to registries must not stay.
 */
const HALF_CLOSED_GRACE: Duration = 2_000;
const MAX_HALF_CLOSED = 32;

/** Connections that got their last answer, a refusal, until their clients close them. */
class RefusedConnections {
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
class HalfClosedConnections {
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

export interface ClientConnectionsOptions {
  readonly clock: Clock;
  /** How many may be open. */
  readonly max: number;
  /** Told of each connection that there was no room for. */
  readonly onDropped?: () => void;
  readonly onClosed?: (reason: ClosingReason) => void;
}

/** How many idle connections are noted at once to be closed one after the other, and how often they are looked for. */
const IDLE_BATCH = 100;
const IDLE_SEARCH_EVERY: Duration = 100;

/** So many connections more may be open while it is decided whether an idle one makes room for them. */
const ADMISSION_ROOM = 64;

const CONNECTION = Symbol("client connection");

/** Node keeps the answer that is being sent in `_httpMessage`: of connections without, or whose is finished, it thinks that they are idle. */
type ClientSocket = Socket & {
  [CONNECTION]?: Connection;
  _httpMessage?: { readonly finished: boolean } | null | undefined;
};

const UNFINISHED = { finished: false };

interface Connection extends RequestQueue {
  /** What HTTP is spoken on: once there is one, the TLS over what was accepted. */
  socket: ClientSocket;
  /** When it was opened or brought its last request, counted in these, of whatever connection. */
  lastUse: number;
  answer: UnreadAnswer;
  /** Of HTTP/1.1, from the first such answer on. */
  reader: HeadReader | undefined;
  /** Streams of HTTP/2 that are open; undefined with HTTP/1.1. */
  streams: number | undefined;
}

/** Serves requests whose heads came before. */
export type Repeats = Pick<HeadReaderOptions, "begin" | "answer">;

/** A connection that several requests are under way on at once. */
export interface StreamConnection {
  readonly socket: Socket;
  /** What its client has not read, of all streams. */
  readonly answer: UnreadAnswer;
  readonly streams: number;
  /** A stream is opened, or closed. */
  begin(): void;
  end(): void;
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
  private readonly heads = new RepeatedHeads();
  private repeats: Repeats | undefined;
  private readonly queued = new QueuedRequests();
  private readonly answers: UnreadAnswers;
  private readonly refused: RefusedConnections;
  private readonly halfClosed: HalfClosedConnections;
  private uses = 0;
  /** Found idle, the one that has been so for longest last; `lastUse` tells whether it still is. */
  private idle: { readonly connection: Connection; readonly lastUse: number }[] = [];
  private nextIdleSearch: Instant = -Infinity;

  constructor(options: ClientConnectionsOptions) {
    const { clock } = options;
    this.options = options;
    this.answers = new UnreadAnswers({ clock, close: (socket, reason) => this.reset(socket, reason) });
    this.refused = new RefusedConnections(clock, (socket) => this.reset(socket, "refused"));
    this.halfClosed = new HalfClosedConnections(clock);
  }

  /** A server whose connections these are; of HTTPS where there is `tls`. */
  createServer(options: ServerOptions, answer: RequestListener, tls?: TlsServerOptions): Server {
    const http: ServerOptions = { ...options, ServerResponse: ClientResponse as typeof ServerResponse };
    const secured = { begin: (socket: TLSSocket) => this.secure(socket), beginHttp1: endParserWith };
    const server: Server & { httpAllowHalfOpen?: boolean } =
      tls === undefined
        ? createServer(http, this.inTurn(answer))
        : createTlsServer(http, this.inTurn(answer), secured, tls);
    // Node's own name for it: the end of what a client sends is not the end of what it reads.
    server.httpAllowHalfOpen = true;
    const closeIdle = server.closeIdleConnections.bind(server);
    server.closeIdleConnections = () => this.closeIdle(closeIdle);
    // Node lets the time for idle connections run while an answer that it knows nothing of is being read.
    server.on("timeout", (socket) => {
      if (socket.writableLength > 0) socket.setTimeout(socket.timeout ?? 0);
      else socket.destroy();
    });
    // What is beyond it Node leaves out, in silence: one more than framing lets through, for it to tell.
    server.maxHeadersCount = MOST_FIELDS + 1;
    server.maxConnections = this.options.max + ADMISSION_ROOM;
    server.on("connection", (socket) => this.admit(socket));
    server.on("drop", () => this.options.onDropped?.());
    return server;
  }

  /** `answer`, for each request when those before it on its connection have been answered. */
  inTurn(answer: RequestListener): RequestListener {
    return (request, response) => {
      const connection = (request.socket as ClientSocket)[CONNECTION];
      if (connection !== undefined) {
        connection.lastUse = ++this.uses;
        connection.reader?.parsed(request);
      }
      // Node gives the socket to one response after the other.
      if (response.socket !== null || connection === undefined) answer(request, response);
      else if (!this.queued.add(connection, { request, response, answer })) {
        // The requests that wait are in memory until Node has closed it, and are counted until then.
        this.reset(connection.socket, "pipelined");
        this.answers.weigh(connection.answer);
      }
    };
  }

  /** From now on, what is byte by byte the head of a hit before it need not be parsed. */
  answerRepeats(repeats: Repeats): void {
    this.repeats = repeats;
  }

  /** A request was answered by what is kept, a hit or a refusal at the gate: it may come again. */
  noteAnswered(request: IncomingMessage, response: ServerResponse): void {
    const connection = (request.socket as ClientSocket)[CONNECTION];
    if (connection === undefined || connection.streams !== undefined || !response.shouldKeepAlive) return;
    if (connection.reader !== undefined) rememberHead(request);
    // Not while the parser is at work on what it has read.
    else if (this.repeats !== undefined) setImmediate(() => this.readRepeats(connection));
  }

  /** Calls `next` when none of the requests that were read on a connection waits for its turn any more. */
  afterQueued(socket: Socket, next: () => void): void {
    const connection = (socket as ClientSocket)[CONNECTION];
    if (connection === undefined || connection.queued === 0) next();
    else connection.afterQueued = next;
  }

  /** Closes a connection that got its last answer: when the client does, or after a second. */
  closeSoon(socket: Socket): void {
    this.refused.add(socket);
  }

  /** A connection that speaks HTTP/2 from now on; undefined where it is closed already. */
  streamsOf(socket: TLSSocket): StreamConnection | undefined {
    const connection = (socket as ClientSocket)[CONNECTION];
    if (connection === undefined || socket.destroyed) return undefined;
    let streams = 0;
    connection.streams = 0;
    const { answer } = connection;
    return {
      socket,
      answer,
      get streams() {
        return streams;
      },
      begin: () => {
        connection.lastUse = ++this.uses;
        connection.streams = ++streams;
      },
      end() {
        connection.streams = --streams;
      },
    };
  }

  /** Notes why the gateway closes a connection, and closes it by `close`. */
  cutOff(socket: Socket, reason: ClosingReason, close: () => void): void {
    if (!socket.destroyed) this.options.onClosed?.(reason);
    close();
  }

  /** Closes every connection at once. */
  closeAll(): void {
    for (const { socket } of this.open) socket.destroy();
  }

  /** Closes at once what {@link closeSoon} was to close. */
  closeRefused(): void {
    this.refused.closeAll();
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
      lastUse: ++this.uses,
      queued: 0,
      afterQueued: undefined,
      answer: this.answers.follow(socket),
      reader: undefined,
      streams: undefined,
    };
    socket[CONNECTION] = connection;
    endParserWith(socket);
    this.open.add(connection);
    socket.once("end", () => this.halfClosed.add(socket));
    socket.once("close", () => this.forget(connection));
  }

  /** From here on HTTP is spoken on the TLS over a connection that was admitted. */
  private secure(socket: TLSSocket & ClientSocket): void {
    const connection = (transportOf(socket) as ClientSocket)[CONNECTION];
    if (connection === undefined) return;
    connection.socket = socket;
    connection.answer = this.answers.follow(socket);
    socket[CONNECTION] = connection;
    socket.once("end", () => this.halfClosed.add(socket));
  }

  private readRepeats(connection: Connection): void {
    const { socket } = connection;
    const repeats = this.repeats!;
    if (connection.reader !== undefined || socket.destroyed) return;
    connection.reader = new HeadReader(socket, {
      heads: this.heads,
      isQuiet: () => connection.queued === 0,
      begin: (request) => repeats.begin(request),
      answer: (request) => {
        connection.lastUse = ++this.uses;
        if (!repeats.answer(request)) return false;
        if (socket.writableLength > 0) connection.answer.written();
        return true;
      },
    });
  }

  /** Node takes connections for idle whose answer has ended, and is on its way: these are closed when it is out. */
  private closeIdle(closeIdle: () => void): void {
    for (const { reader } of this.open) reader?.serveWaiting();
    const sending = [...this.open].filter(
      ({ socket, streams }) => streams === undefined && socket.writableLength > 0 && isAnswered(socket),
    );
    const answers = sending.map(({ socket }) => socket._httpMessage);
    for (const { socket } of sending) socket._httpMessage = UNFINISHED;
    closeIdle();
    for (const [i, { socket, queued }] of sending.entries()) {
      socket._httpMessage = answers[i];
      if (queued === 0) socket.destroySoon();
    }
  }

  private forget(connection: Connection): void {
    this.open.delete(connection);
    this.queued.drop(connection);
    connection.answer.drop();
    if (connection.reader !== undefined) this.heads.forget(connection.reader);
  }

  /** False when every connection is in use. */
  private makeRoom(): boolean {
    const refused: ClientSocket | undefined = this.refused.closeFirst();
    if (refused === undefined) return this.closeLongestIdle();
    this.forget(refused[CONNECTION]!);
    return true;
  }

  private closeLongestIdle(): boolean {
    if (this.idle.length === 0) this.findIdle();
    for (let found = this.idle.pop(); found !== undefined; found = this.idle.pop()) {
      const { connection, lastUse } = found;
      connection.reader?.serveWaiting();
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
    transportOf(socket).resetAndDestroy();
    // TLS hears of it later.
    socket.destroy();
  }
}

/** Whether the answer that is being sent, if any, is written whole. */
function isAnswered({ _httpMessage: answer }: ClientSocket): boolean {
  return answer?.finished !== false;
}

/** Whether nothing is under way on a connection, and no part of a first request has come. */
function isIdle({ socket, answer, streams }: Connection): boolean {
  if ((answer.weight > 0 && !answer.isOut) || socket.destroyed) return false;
  if (streams !== undefined) return streams === 0;
  // Node sets this when the last answer is out, and takes it away with the next request.
  return (socket.timeout ?? 0) > 0 || socket.bytesRead === 0;
}
