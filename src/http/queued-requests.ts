import type { IncomingMessage, RequestListener, ServerResponse } from "node:http";
import type { Socket } from "node:net";

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
