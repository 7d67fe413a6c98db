import { Readable } from "node:stream";
import type { Dispatcher } from "undici";
import { fieldsFromRaw } from "../../fields.ts";
import type { Fields } from "../../fields.ts";
import { Dispatch } from "./dispatch.ts";
import type { DispatchHandler, ConnectionSource } from "./dispatch.ts";

/** What is sent to a node; a stream is read as fast as the node takes it. */
export interface StreamedNodeRequest {
  readonly method: "GET" | "POST";
  readonly path: string;
  readonly fields: Fields;
  readonly body: Readable | Buffer | undefined;
}

/** Hears how a streamed exchange goes. */
export interface StreamedListener {
  /** The head of the answer is here; `body` follows. */
  answered(status: number, fields: Fields, body: Readable): void;
  /** A part of the answer's body came, or whoever reads it has caught up. */
  progressed(): void;
  /** The exchange broke: before the head of an answer, or (`isAnswering`) in its body, which is destroyed by then. */
  failed(error: unknown, isAnswering: boolean): void;
  /** The answer is complete. */
  completed(): void;
}

const ABORTED = new Error("the exchange was given up");

/** One request to one node whose answer is streamed, with back pressure. */
export class StreamedExchange implements DispatchHandler {
  /** The node may have more of its answer, and whoever reads it is behind. */
  isHeldUp = false;
  private readonly listener: StreamedListener;
  private readonly dispatch: Dispatch;
  private body: Readable | undefined;
  private isOver = false;

  constructor(request: StreamedNodeRequest, connections: ConnectionSource, listener: StreamedListener) {
    this.listener = listener;
    this.dispatch = new Dispatch(
      connections,
      {
        origin: connections.origin,
        method: request.method,
        path: request.path,
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

  /** The request is on its way. */
  get isSent(): boolean {
    return this.dispatch.isSent;
  }

  /** Ends the exchange at once; the listener hears nothing, the body is destroyed with `reason`. */
  abort(reason: Error): void {
    if (this.isOver) return;
    this.isOver = true;
    this.body?.destroy(reason);
    this.dispatch.abort(reason);
  }

  onRequestStart(controller: Dispatcher.DispatchController): void {
    this.dispatch.started(controller);
    if (this.isOver) controller.abort(ABORTED);
  }

  onResponseStart(controller: Dispatcher.DispatchController, status: number): void {
    if (status < 200 || this.isOver) return;
    this.body = new Readable({
      read: () => {
        if (this.isHeldUp) this.listener.progressed();
        this.isHeldUp = false;
        controller.resume();
      },
      destroy: (error, callback) => {
        // Whoever reads went away.
        this.abort(error ?? ABORTED);
        callback(error);
      },
    });
    // Whoever reads hears of errors too; when nobody reads yet, they must not end the process.
    this.body.on("error", () => undefined);
    const fields = fieldsFromRaw((controller.rawHeaders ?? []) as readonly Buffer[]);
    this.listener.answered(status, fields, this.body);
  }

  onResponseData(controller: Dispatcher.DispatchController, chunk: Buffer): void {
    if (this.isOver || this.body === undefined) return;
    this.listener.progressed();
    if (this.body.push(chunk)) return;
    this.isHeldUp = true;
    controller.pause();
  }

  onResponseEnd(): void {
    this.dispatch.completed();
    if (this.isOver) return;
    this.isOver = true;
    this.body?.push(null);
    this.listener.completed();
  }

  onResponseError(_controller: Dispatcher.DispatchController, error: Error): void {
    if (this.dispatch.broke(error)) return;
    if (this.isOver) return;
    this.isOver = true;
    this.listener.failed(error, this.body !== undefined);
    this.body?.destroy(error);
  }

  onUnsent(error: unknown): void {
    if (this.isOver) return;
    this.isOver = true;
    this.listener.failed(error, false);
  }
}
