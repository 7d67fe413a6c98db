import { type IncomingMessage, type RequestListener, ServerResponse } from "node:http";
import type { Duration } from "../clock.ts";
import { hasUnreadBody } from "./framing.ts";
import { mayBeRead } from "./refused-connections.ts";

/**
 * What may wait behind other requests on one connection: much while little waits on all, and little while much does. A
 * request counts for one, with a head beyond 2 KiB for more: Node makes some 5 KiB of each, however short, and of all that
 * it reads at once; and ending a connection takes time for each.
 */
const MOST = 256;
const MOST_WHEN_CROWDED = 16;
const CROWDED = 4 * 1024;
const MOST_IN_ALL = 16 * 1024;

const HEAD_OF_ONE = 2 * 1024;
/** Bytes of its body that are here before anybody reads it: then Node pauses the connection. */
export const MOST_OF_A_BODY = 8 * 1024;

/** Bytes of a name or a value besides its characters. */
const BYTES_OF_A_STRING = 32;

export interface ReceivedRequest {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  readonly answer: RequestListener;
}

interface QueuedRequest extends ReceivedRequest {
  readonly weight: number;
}

/** Those that wait on one connection, the first first. */
export interface RequestQueue {
  readonly requests: QueuedRequest[];
  weight: number;
}

/** Requests that clients sent ahead, each in the queue of its connection; bounded on one connection and on all. */
export class QueuedRequests {
  private total = 0;

  /** False when there are too many, on this connection or on all: then it has to be closed. */
  add(queue: RequestQueue, received: ReceivedRequest): boolean {
    const weight = weightOf(received.request);
    const most = this.total < CROWDED ? MOST : MOST_WHEN_CROWDED;
    if (queue.weight + weight > most || this.total + weight > MOST_IN_ALL) return false;
    queue.requests.push({ ...received, weight });
    this.count(queue, weight);
    return true;
  }

  /** The next one to be answered; undefined where none waits. */
  take(queue: RequestQueue): ReceivedRequest | undefined {
    const next = queue.requests.shift();
    if (next !== undefined) this.count(queue, -next.weight);
    return next;
  }

  /** Takes out the one that came last. */
  takeLast(queue: RequestQueue): ReceivedRequest | undefined {
    const last = queue.requests.pop();
    if (last !== undefined) this.count(queue, -last.weight);
    return last;
  }

  /** Forgets those of a connection that has ended. */
  drop(queue: RequestQueue): void {
    queue.requests.length = 0;
    this.count(queue, -queue.weight);
  }

  private count(queue: RequestQueue, weight: number): void {
    queue.weight += weight;
    this.total += weight;
  }
}

function weightOf({ url, rawHeaders, headers }: IncomingMessage): number {
  let bytes = url!.length + Math.min(Number(headers["content-length"] ?? 0), MOST_OF_A_BODY);
  for (const text of rawHeaders) bytes += text.length + BYTES_OF_A_STRING;
  return 1 + Math.floor(bytes / HEAD_OF_ONE);
}

/** What may be unread on all connections of a listener. */
const MAX_WAITING_BYTES = 128 * 1024 * 1024;

export interface ResponseOptions {
  /** Called when there is more of an answer than its client takes. */
  readonly onUnread: (response: ServerResponse) => void;
  /** Ends a refusal that is written while the body of its request is still coming. */
  readonly endAfterBody: (response: ServerResponse) => void;
}

/** The class of responses to clients. */
export function clientResponses({ onUnread, endAfterBody }: ResponseOptions): typeof ServerResponse {
  class ClientResponse extends ServerResponse {
    override write(chunk: unknown, encoding?: unknown, callback?: unknown): boolean {
      const isTaken = super.write(chunk, encoding as BufferEncoding, callback as () => void);
      if (!isTaken) onUnread(this);
      return isTaken;
    }

    override end(chunk?: unknown, encoding?: unknown, callback?: unknown): this {
      if (this.statusCode >= 400 && isText(chunk) && hasUnreadBody(this.req) && mayBeRead(this.req)) {
        // Whole for the client, which knows its length by a field.
        this.write(chunk, encoding);
        endAfterBody(this);
        return this;
      }
      super.end(chunk, encoding as BufferEncoding, callback as () => void);
      if (this.writableLength > 0) onUnread(this);
      return this;
    }
  }
  return ClientResponse as typeof ServerResponse;
}

function isText(chunk: unknown): boolean {
  return typeof chunk === "string" || Buffer.isBuffer(chunk);
}

export interface UnreadAnswersOptions {
  /** A client that has taken not a byte of its answer for so long reads no more. */
  readonly timeout: Duration;
  /** Closes the connection of a client that reads no more, or too slowly while others wait. */
  readonly close: (response: ServerResponse, reason: "unread" | "crowded") => void;
}

/** Answers that clients are slow to read: bounded in all, and in the time that a client may read nothing. */
export class UnreadAnswers {
  private readonly options: UnreadAnswersOptions;
  /** Bytes that are not taken, by response; what has waited longest first. */
  private readonly waiting = new Map<ServerResponse, number>();
  private readonly followed = new WeakSet<ServerResponse>();
  private readonly idle: (() => void)[] = [];
  private bytes = 0;

  constructor(options: UnreadAnswersOptions) {
    this.options = options;
  }

  /** Counts what of an answer its client has not taken yet. */
  readonly note = (response: ServerResponse): void => {
    if (response.closed || response.destroyed) return;
    this.follow(response);
    this.count(response, response.writableLength);
    // One answer alone may have all of it.
    while (this.bytes > MAX_WAITING_BYTES && this.waiting.size > 1) {
      const [longest] = this.waiting.keys();
      this.drop(longest!);
      this.options.close(longest!, "crowded");
    }
  };

  get size(): number {
    return this.waiting.size;
  }

  /** Resolves when no answer waits for its client. */
  settled(): Promise<void> {
    if (this.waiting.size === 0) return Promise.resolve();
    return new Promise((resolve) => this.idle.push(resolve));
  }

  private follow(response: ServerResponse): void {
    if (!this.waiting.has(response)) {
      // Node starts it anew whenever the client takes or sends a byte.
      response.setTimeout(this.options.timeout);
      // What it sends ahead is no progress. Not at once: Node reads on at the end of a request.
      setImmediate(() => {
        if (this.waiting.has(response)) response.req.socket.pause();
      });
    }
    if (this.followed.has(response)) return;
    this.followed.add(response);
    response.on("timeout", () => this.options.close(response, "unread"));
    response.on("drain", () => {
      // A stream whose next bytes are still to come.
      response.setTimeout(0);
      this.drop(response);
    });
    response.once("close", () => this.drop(response));
  }

  private count(response: ServerResponse, bytes: number): void {
    this.bytes += bytes - (this.waiting.get(response) ?? 0);
    this.waiting.set(response, bytes);
  }

  private drop(response: ServerResponse): void {
    if (!this.waiting.has(response)) return;
    this.count(response, 0);
    this.waiting.delete(response);
    response.req.socket.resume();
    if (this.waiting.size > 0) return;
    for (const resolve of this.idle.splice(0)) resolve();
  }
}
