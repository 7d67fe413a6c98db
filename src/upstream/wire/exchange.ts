import type { Dispatcher } from "undici";
import { AT_ONCE } from "../../bodies/body-reader.ts";
import type { Clock, Instant } from "../../clock.ts";
import { fieldsFromRaw } from "../../fields.ts";
import type { Fields } from "../../fields.ts";
import { Dispatch } from "./dispatch.ts";
import type { DispatchHandler, ConnectionSource } from "./dispatch.ts";
import { connectionFailure } from "./connection-failure.ts";
import { tooLarge } from "../failure.ts";
import type { Failure } from "../failure.ts";

/** What is sent to a node. */
export interface NodeRequest {
  readonly method: "GET" | "POST";
  /** With the node's base path. */
  readonly path: string;
  readonly fields: Fields;
  readonly body?: Buffer | undefined;
}

/** A complete answer as it came from the wire. */
export interface RawAnswer {
  readonly status: number;
  readonly fields: Fields;
  readonly body: Buffer;
  readonly requestedAt: Instant;
  readonly receivedAt: Instant;
}

/** Hears how an exchange ended: exactly one of the two is called, once, and neither after {@link Exchange.abort}. */
export interface ExchangeListener {
  answered(answer: RawAnswer): void;
  failed(failure: Failure): void;
}

interface ExchangeOptions {
  readonly connections: ConnectionSource;
  readonly clock: Clock;
  /** For the texts of errors. */
  readonly upstream: string;
  /** Largest body, bytes. */
  readonly maxBody: number;
  readonly listener: ExchangeListener;
}

const NO_BODY = Buffer.alloc(0);
const ABORTED = new Error("the gateway needs the answer no more");

/** Large answers that are complete; no more than there are calls at once. */
const complete: (() => void)[] = [];

/**
 * Does what there is to do with large answers one in a turn of the event loop: to put one together takes some
 * milliseconds, and twenty may end in the same turn.
 */
function inTurn(answer: () => void): void {
  if (complete.push(answer) === 1) setImmediate(answerNext);
}

function answerNext(): void {
  const answer = complete.shift();
  if (complete.length > 0) setImmediate(answerNext);
  answer?.();
}

/** One request to one node with its bodies in memory, over undici's dispatch. */
export class Exchange implements DispatchHandler {
  private readonly options: ExchangeOptions;
  private readonly requestedAt: Instant;
  private readonly dispatch: Dispatch;
  private isSettled = false;
  /** All of the answer is here. */
  private isComplete = false;
  private status = 0;
  private fields: Fields = [];
  private readonly chunks: Buffer[] = [];
  private size = 0;

  /** Sends `request`. */
  constructor(request: NodeRequest, options: ExchangeOptions) {
    this.options = options;
    this.requestedAt = options.clock.now();
    this.dispatch = new Dispatch(
      options.connections,
      {
        origin: options.connections.origin,
        method: request.method,
        path: request.path,
        // undici takes the flat list as it is and does not change it.
        headers: request.fields as string[],
        body: request.body ?? null,
      },
      this,
    );
    this.dispatch.begin();
  }

  /** A connection is there: nothing is waited for but the node. */
  get isConnected(): boolean {
    return this.dispatch.isConnected;
  }

  /** An answer has begun. */
  get isAnswering(): boolean {
    return this.status !== 0;
  }

  get answeredStatus(): number | undefined {
    return this.status === 0 ? undefined : this.status;
  }

  /** Ends the exchange at once, whatever it waits for; the listener hears nothing. */
  abort(): void {
    if (this.isSettled) return;
    this.isSettled = true;
    // The connection of an answer that waits for its turn may carry another one.
    if (!this.isComplete) this.dispatch.abort(ABORTED);
  }

  onRequestStart(controller: Dispatcher.DispatchController): void {
    this.dispatch.started(controller);
    if (this.isSettled) controller.abort(ABORTED);
  }

  onResponseStart(controller: Dispatcher.DispatchController, status: number): void {
    // Interim responses say nothing that a client could use (RFC 9110 §15.2).
    if (status < 200 || this.isSettled) return;
    this.status = status;
    this.fields = fieldsFromRaw((controller.rawHeaders ?? []) as readonly Buffer[]);
    const length = this.fields.indexOf("content-length");
    if (length !== -1 && Number(this.fields[length + 1]) > this.options.maxBody) this.refuseSize();
  }

  onResponseData(_controller: Dispatcher.DispatchController, chunk: Buffer): void {
    if (this.isSettled) return;
    this.size += chunk.length;
    if (this.size > this.options.maxBody) this.refuseSize();
    else this.chunks.push(chunk);
  }

  onResponseEnd(): void {
    this.dispatch.completed();
    this.isComplete = true;
    const receivedAt = this.options.clock.now();
    if (this.size > AT_ONCE) inTurn(() => this.answer(receivedAt));
    else this.answer(receivedAt);
  }

  private answer(receivedAt: Instant): void {
    if (this.isSettled) return;
    this.isSettled = true;
    this.options.listener.answered({
      status: this.status,
      fields: this.fields,
      body: this.readBody(),
      requestedAt: this.requestedAt,
      receivedAt,
    });
  }

  onResponseError(_controller: Dispatcher.DispatchController, error: Error): void {
    if (!this.dispatch.broke(error)) this.fail(error);
  }

  onUnsent(error: unknown): void {
    this.fail(error);
  }

  private fail(error: unknown): void {
    if (this.isSettled) return;
    this.isSettled = true;
    this.options.listener.failed(connectionFailure(this.options.upstream, error, this.isAnswering));
  }

  private readBody(): Buffer {
    if (this.chunks.length === 1) return this.chunks[0]!;
    return this.chunks.length === 0 ? NO_BODY : Buffer.concat(this.chunks, this.size);
  }

  private refuseSize(): void {
    this.isSettled = true;
    this.dispatch.abort(ABORTED);
    this.options.listener.failed(tooLarge(this.options.upstream, this.options.maxBody));
  }
}
