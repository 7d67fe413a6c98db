import type { Dispatcher } from "undici";
import type { Clock, Instant } from "../clock.ts";
import { fieldsFromRaw } from "../fields.ts";
import type { Fields } from "../fields.ts";
import type { Connections } from "./connections.ts";
import { connectionFailure, tooLarge } from "./failure.ts";
import type { Failure } from "./failure.ts";
import type { Link } from "./link.ts";

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
  readonly connections: Connections;
  readonly clock: Clock;
  /** For the texts of errors. */
  readonly upstream: string;
  /** Largest body, bytes. */
  readonly maxBody: number;
  readonly listener: ExchangeListener;
}

const NO_BODY = Buffer.alloc(0);
const ABORTED = new Error("the gateway needs the answer no more");

/** One request to one node with its bodies in memory, over undici's dispatch. */
export class Exchange implements Dispatcher.DispatchHandler {
  private readonly options: ExchangeOptions;
  private readonly requestedAt: Instant;
  private link: Link | undefined;
  private controller: Dispatcher.DispatchController | undefined;
  private isSettled = false;
  private status = 0;
  private fields: Fields = [];
  private readonly chunks: Buffer[] = [];
  private size = 0;

  /** Sends `request`. */
  constructor(request: NodeRequest, options: ExchangeOptions) {
    this.options = options;
    this.requestedAt = options.clock.now();
    this.link = options.connections.take();
    this.link.dispatcher.dispatch(
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
  }

  /** The connection is there and the request is on its way. */
  get isSent(): boolean {
    return this.controller !== undefined;
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
    this.stop();
  }

  onRequestStart(controller: Dispatcher.DispatchController): void {
    this.controller = controller;
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
    this.releaseLink();
    if (this.isSettled) return;
    this.isSettled = true;
    this.options.listener.answered({
      status: this.status,
      fields: this.fields,
      body: this.readBody(),
      requestedAt: this.requestedAt,
      receivedAt: this.options.clock.now(),
    });
  }

  onResponseError(_controller: Dispatcher.DispatchController, error: Error): void {
    const { link } = this;
    this.link = undefined;
    if (link !== undefined) this.options.connections.releaseAfterError(link);
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
    this.stop();
    this.options.listener.failed(tooLarge(this.options.upstream, this.options.maxBody));
  }

  private stop(): void {
    if (this.controller !== undefined) {
      // Closes the socket: on HTTP/1.1 an answer cannot be given up in another way.
      this.controller.abort(ABORTED);
    } else if (this.link !== undefined) {
      const link = this.link;
      this.link = undefined;
      this.options.connections.discard(link);
    }
  }

  private releaseLink(): void {
    if (this.link === undefined) return;
    const link = this.link;
    this.link = undefined;
    this.options.connections.release(link);
  }
}
