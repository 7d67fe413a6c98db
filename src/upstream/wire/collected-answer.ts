import { AT_ONCE } from "../../bodies/body-reader.ts";
import type { Clock, Instant } from "../../clock.ts";
import type { Fields } from "../../fields.ts";
import { answerTimeout, removed, tooLarge } from "../failure.ts";
import type { Failure } from "../failure.ts";
import { connectionFailure } from "./connection-failure.ts";
import { WireRequest } from "./request.ts";
import type { AnswerListener, ConnectionSource, NodeRequest } from "./request.ts";

/** A complete answer as it came from the wire. */
export interface RawAnswer {
  readonly status: number;
  readonly fields: Fields;
  readonly body: Buffer;
  readonly requestedAt: Instant;
  readonly receivedAt: Instant;
}

export interface CollectorOptions {
  readonly clock: Clock;
  /** For the texts of errors. */
  readonly upstream: string;
  /** Largest body, bytes. */
  readonly maxBody: number;
  readonly requestedAt: Instant;
}

const NO_BODY = Buffer.alloc(0);

/** Large answers that are complete; no more than there are calls at once. */
const complete: (() => void)[] = [];

/**
 * Does what there is to do with large answers one in a turn of the event loop: to put one together takes some
 * milliseconds, and twenty may end in the same turn.
 */
function inTurn(finish: () => void): void {
  if (complete.push(finish) === 1) setImmediate(finishNext);
}

function finishNext(): void {
  const finish = complete.shift();
  if (complete.length > 0) setImmediate(finishNext);
  finish?.();
}

/**
 * Keeps an answer as it comes until it is complete, if it does not grow too large. Calls one of the two abstract methods,
 * once, unless it was stopped. Whoever hears of a failure aborts the request.
 */
export abstract class AnswerCollector implements AnswerListener {
  private readonly options: CollectorOptions;
  private status = 0;
  private fields: Fields = [];
  private readonly chunks: Buffer[] = [];
  private size = 0;
  private isOver = false;

  constructor(options: CollectorOptions) {
    this.options = options;
  }

  protected abstract collected(raw: RawAnswer): void;
  protected abstract failed(failure: Failure): void;

  /** Nothing is wanted of it any more. */
  stop(): void {
    this.isOver = true;
  }

  onHead(status: number, fields: Fields): void {
    this.status = status;
    this.fields = fields;
    const length = fields.indexOf("content-length");
    if (length !== -1 && Number(fields[length + 1]) > this.options.maxBody) this.refuseSize();
  }

  onData(chunk: Buffer): void {
    if (this.isOver) return;
    this.size += chunk.length;
    if (this.size > this.options.maxBody) this.refuseSize();
    else this.chunks.push(chunk);
  }

  onComplete(): void {
    const receivedAt = this.options.clock.now();
    if (this.size > AT_ONCE) inTurn(() => this.finish(receivedAt));
    else this.finish(receivedAt);
  }

  onFailure(error: unknown): void {
    this.fail(connectionFailure(this.options.upstream, error, this.status !== 0));
  }

  private finish(receivedAt: Instant): void {
    if (this.isOver) return;
    this.isOver = true;
    const { status, fields } = this;
    this.collected({ status, fields, body: this.body(), requestedAt: this.options.requestedAt, receivedAt });
  }

  private body(): Buffer {
    if (this.chunks.length === 1) return this.chunks[0]!;
    return this.chunks.length === 0 ? NO_BODY : Buffer.concat(this.chunks, this.size);
  }

  private refuseSize(): void {
    this.fail(tooLarge(this.options.upstream, this.options.maxBody));
  }

  private fail(failure: Failure): void {
    if (this.isOver) return;
    this.isOver = true;
    this.failed(failure);
  }
}

class AwaitedAnswer extends AnswerCollector {
  private readonly settle: (outcome: RawAnswer | Failure) => void;

  constructor(options: CollectorOptions, settle: (outcome: RawAnswer | Failure) => void) {
    super(options);
    this.settle = settle;
  }

  protected collected(raw: RawAnswer): void {
    this.settle(raw);
  }

  protected failed(failure: Failure): void {
    this.settle(failure);
  }
}

export interface FetchOptions extends Omit<CollectorOptions, "requestedAt"> {
  readonly deadline: Instant;
  /** Aborts when the upstream is closed. */
  readonly signal?: AbortSignal | undefined;
}

/** The answer to one request that is no call: a check of a node, a token. Never rejects. */
export function fetchAnswer(
  source: ConnectionSource,
  request: NodeRequest,
  options: FetchOptions,
): Promise<RawAnswer | Failure> {
  const { clock, upstream, deadline, signal } = options;
  return new Promise((resolve) => {
    const requestedAt = clock.now();
    const settle = (outcome: RawAnswer | Failure): void => {
      cancelTimer();
      signal?.removeEventListener("abort", onAbort);
      wire.abort();
      resolve(outcome);
    };
    const onAbort = (): void => settle({ reason: "unproved", error: removed(upstream) });
    const cancelTimer = clock.after(deadline - requestedAt, () => settle(answerTimeout(upstream)));
    signal?.addEventListener("abort", onAbort);
    const wire = new WireRequest(source, request, new AwaitedAnswer({ ...options, requestedAt }, settle));
    wire.send();
  });
}
