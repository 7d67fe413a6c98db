import { ServerResponse } from "node:http";
import type { Socket } from "node:net";
import type { CancelTimer, Clock, Duration, Instant } from "../clock.ts";

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
  /** Bytes of the answer that the client has not taken. */
  unread = 0;
  /** What of them is counted in all. */
  weight = 0;
  /** Bytes that the kernel had not taken when it was last looked. */
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
      answer.unsent = unsentBytes(socket);
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
    for (const answer of waiting) {
      const unsent = unsentBytes(answer.socket);
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

/** Nothing public tells how far a large write has come; Node's own timeouts look here. */
function unsentBytes(socket: Socket): number {
  return (socket as { _handle?: { writeQueueSize?: number } | null })._handle?.writeQueueSize ?? 0;
}

/** Whether an answer has begun on the connection and is not complete; only Node knows whose turn it is. */
export function isAnswering(socket: Socket): boolean {
  const response = (socket as { _httpMessage?: ServerResponse | null })._httpMessage;
  return response?.headersSent === true && !response.writableEnded;
}
