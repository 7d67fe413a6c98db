import { type IncomingMessage, type RequestListener, ServerResponse } from "node:http";
import type { Socket } from "node:net";
import type { CancelTimer, Clock, Duration, Instant } from "../clock.ts";

/**
 * Requests that may wait behind others on one connection: many while few wait on all, and few while many do. Node makes
 * some 5 KiB of each, however short, and of all that it reads at once; and ending a connection takes time for each.
 */
const MOST = 256;
const MOST_WHEN_CROWDED = 16;
const CROWDED = 4 * 1024;
const MOST_IN_ALL = 16 * 1024;

/** What is known of a connection's queue. */
export interface RequestQueue {
  readonly socket: Socket;
  /** Requests behind one whose answer is not out. */
  queued: number;
  /** Called when there are none of these any more. */
  afterQueued: (() => void) | undefined;
}

interface QueuedRequest {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  readonly answer: RequestListener;
}

/** Requests that clients sent ahead: each is served when the answer before it has left the process. */
export class QueuedRequests {
  private total = 0;

  /** False when there are too many, on this connection or on all: then it has to be closed. */
  add(queue: RequestQueue, { request, response, answer }: QueuedRequest): boolean {
    const { socket } = queue;
    if (socket.destroyed) return true;
    const most = this.total < CROWDED ? MOST : MOST_WHEN_CROWDED;
    if (queue.queued >= most || this.total === MOST_IN_ALL) return false;
    queue.queued += 1;
    this.total += 1;
    const serve = () => {
      if (socket.destroyed) return;
      queue.queued -= 1;
      this.total -= 1;
      answer(request, response);
      if (queue.queued === 0) queue.afterQueued?.();
    };
    // In another turn: what is read meanwhile, on other connections too, has its turn between two of these.
    response.once("socket", () => setImmediate(serve));
    return true;
  }

  /** Forgets those of a connection that has ended. */
  drop(queue: RequestQueue): void {
    this.total -= queue.queued;
    queue.queued = 0;
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
export function endParserWith(socket: Socket): void {
  const { parser } = socket as { parser?: RequestParser | null };
  if (parser === undefined || parser === null) return;
  const { onIncoming } = parser;
  parser.onIncoming = (request, keepAlive) => (socket.destroyed ? PARSER_STOP : onIncoming(request, keepAlive));
}

/** What a connection's bytes go through: the socket itself, or the one below its TLS, which Node alone knows. */
export function transportOf(socket: Socket): Socket {
  return (socket as { _parent?: Socket | null })._parent ?? socket;
}

/** A client that has taken not a byte of its answer for so long reads no more. */
const UNREAD_TIMEOUT: Duration = 30_000;

/** How often it is looked how far the clients are that answers wait for. */
const LOOK_EVERY: Duration = 1_000;

/** What may be unread on all connections of a listener. */
const MAX_WAITING_BYTES = 128 * 1024 * 1024;

/** What a client has not read yet of an answer. */
export class UnreadAnswer {
  readonly socket: Socket;
  isWatched = false;
  /** It is of all streams of a connection of HTTP/2. */
  hasStreams = false;
  /** Bytes of the answer that the client has not taken. */
  unread = 0;
  /** What of them is counted in all. */
  weight = 0;
  /** Bytes that the client, or the kernel for it, had not taken when it was last looked. */
  unsent = 0;
  /** When the client last took something. */
  progressAt: Instant = 0;
  private readonly all: UnreadAnswers;

  constructor(socket: Socket, all: UnreadAnswers) {
    this.socket = socket;
    this.all = all;
  }

  /** Notes how much of an answer its client has not taken; called by the answer itself. */
  watch(response: ServerResponse): void {
    if (response.closed || response.destroyed) return;
    this.unread = response.writableLength;
    if (!this.isWatched) {
      this.isWatched = true;
      response.once("close", () => {
        this.isWatched = false;
        this.drop();
      });
    }
    this.all.weigh(this);
  }

  /** Notes how much of what was written past any response its client has not taken. */
  written(): void {
    // What was written before is out: else nothing would have been written past a response.
    this.drop();
    this.unread = this.socket.writableLength;
    this.all.weigh(this);
  }

  /** Counts what is written, or was taken, on one of several streams; 16 KiB of a stream are taken at once. */
  add(bytes: number): void {
    this.hasStreams = true;
    this.unread = Math.max(0, this.unread + bytes);
    this.all.weigh(this);
  }

  /** Bytes that are still here; it changes when the client reads. */
  stillUnsent(): number {
    return this.hasStreams ? this.unread : unsentBytes(this.socket);
  }

  /** Whether all that was written past any response has left the process: nothing tells of it. */
  get isOut(): boolean {
    return !this.isWatched && !this.hasStreams && this.socket.writableLength === 0;
  }

  /** The client waits for no byte any more. */
  drop(): void {
    this.unread = 0;
    this.all.weigh(this);
  }
}

const UNREAD = Symbol("unread answer");

type WatchedSocket = Socket & { [UNREAD]?: UnreadAnswer };

/** Tells its connection when there is more than the client takes. */
export class ClientResponse extends ServerResponse {
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
  (response.req.socket as WatchedSocket)[UNREAD]?.watch(response);
}

export interface UnreadAnswersOptions {
  readonly clock: Clock;
  /** Closes the connection of a client that reads no more, or too slowly while others wait. */
  readonly close: (socket: Socket, reason: "unread" | "crowded") => void;
}

/** Answers that clients are slow to read: bounded in all, and in the time that a client may read nothing. */
export class UnreadAnswers {
  private readonly options: UnreadAnswersOptions;
  /** Those on which something waits, the longest without progress first. */
  private readonly waiting = new Set<UnreadAnswer>();
  private waitingBytes = 0;
  private cancelLook: CancelTimer | undefined;

  constructor(options: UnreadAnswersOptions) {
    this.options = options;
  }

  /** Follows the answers on a connection. */
  follow(socket: Socket): UnreadAnswer {
    const answer = new UnreadAnswer(socket, this);
    (socket as WatchedSocket)[UNREAD] = answer;
    return answer;
  }

  /** Counts what is unread on a connection, and closes those that wait longest where it is too much in all. */
  weigh(answer: UnreadAnswer): void {
    const { socket, unread } = answer;
    const weight = socket.destroyed ? 0 : unread;
    this.waitingBytes += weight - answer.weight;
    answer.weight = weight;
    if (weight === 0) {
      this.waiting.delete(answer);
      return;
    }
    if (!this.waiting.has(answer)) {
      this.waiting.add(answer);
      answer.progressAt = this.options.clock.now();
      answer.unsent = answer.stillUnsent();
      this.cancelLook ??= this.options.clock.after(LOOK_EVERY, this.look);
    }
    // One answer alone may have all of it.
    while (this.waitingBytes > MAX_WAITING_BYTES && (this.waiting.size > 1 || answer.hasStreams)) {
      const [longest] = this.waiting;
      if (longest !== answer && longest!.isOut) longest!.drop();
      else this.close(longest!, "crowded");
    }
  }

  private readonly look = (): void => {
    const now = this.options.clock.now();
    this.cancelLook = undefined;
    // What made progress goes to the end, and is not to be met there again.
    const waiting = [...this.waiting];
    for (const answer of waiting) {
      const unsent = answer.stillUnsent();
      // A stream whose next bytes are still to come.
      if (unsent === 0) answer.drop();
      else if (unsent !== answer.unsent) {
        answer.unsent = unsent;
        answer.progressAt = now;
        this.waiting.delete(answer);
        this.waiting.add(answer);
      } else if (now - answer.progressAt >= UNREAD_TIMEOUT) {
        this.close(answer, "unread");
      }
    }
    if (this.waiting.size > 0) this.cancelLook = this.options.clock.after(LOOK_EVERY, this.look);
  };

  private close(answer: UnreadAnswer, reason: "unread" | "crowded"): void {
    this.options.close(answer.socket, reason);
    this.weigh(answer);
  }
}

interface WriteQueue {
  readonly writeQueueSize?: number;
  readonly _parent?: WriteQueue | null;
}

/** Nothing public tells how far a large write has come; Node's own timeouts look here. */
function unsentBytes(socket: Socket): number {
  const { _handle: handle } = socket as { _handle?: WriteQueue | null };
  // Of TLS, what is encrypted and what the kernel has yet to take.
  return (handle?.writeQueueSize ?? 0) + (handle?._parent?.writeQueueSize ?? 0);
}

/** Whether an answer has begun on the connection and is not complete; only Node knows whose turn it is. */
export function isAnswering(socket: Socket): boolean {
  const response = (socket as { _httpMessage?: ServerResponse | null })._httpMessage;
  return response?.headersSent === true && !response.writableEnded;
}
