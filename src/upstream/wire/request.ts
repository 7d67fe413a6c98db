import { Readable } from "node:stream";
import type { Dispatcher } from "undici";
import { type Fields, fieldsFromRaw, fieldValue } from "../../fields.ts";
import { ConnectionGone, OutOfStep, proxyRefused, tooManyInterim } from "./connection-failure.ts";
import type { Connection } from "./connection.ts";
import { type Connections, type ConnectionUse, Opening } from "./connections.ts";
import { Http1Connection } from "./http1-connection.ts";
import { mayBeCut } from "./http2-connection.ts";
import type { Exchange } from "./in-step.ts";

/** What is sent to a node. */
export interface NodeRequest {
  readonly method: "GET" | "POST";
  /** With the node's base path. */
  readonly path: string;
  readonly fields: Fields;
  /** A stream is read as fast as the node takes it. */
  readonly body?: Readable | Buffer | undefined;
  /** Over a connection on which nothing was asked before. */
  readonly wantsUnused?: boolean;
  /** A connection had to be opened, which took its time: rejects where it may not be sent any more. */
  readonly whenOpened?: () => undefined | Promise<void>;
}

/** Where the connection for a request comes from and goes to. */
export type ConnectionSource = Pick<Connections, "origin" | "take" | "open" | "release" | "discard">;

/** Hears what comes of a request: head, body and end of an answer; or, at any point instead of the rest, that it failed. */
export interface AnswerListener {
  onHead(status: number, fields: Fields): void;
  onData(chunk: Buffer): void;
  onComplete(): void;
  /** The connection failed, or none could be opened. */
  onFailure(error: unknown): void;
}

/**
 * After so many chunks of an answer others have their turn, however much of it is here already: a millisecond or two. To
 * rest costs something, since undici puts back what it has not parsed.
 */
const CHUNKS_IN_A_TURN = 2_048;

/** More interim answers to one request are no way to answer it (RFC 9110 §15.2 knows of a handful). */
const MOST_INTERIM = 20;

const ABORTED = new Error("the answer is not needed any more");

/**
 * One request on its way to a node and the answer on its way back: sent at once where a connection is free, else as soon
 * as one is open that may carry it. A connection that closes before the request could be sent on it is replaced.
 */
export class WireRequest implements Dispatcher.DispatchHandler {
  /** What was asked over its connection, where it matters whether the answer is in step; streams have numbers. */
  exchange: Exchange | undefined;
  private readonly source: ConnectionSource;
  private readonly request: NodeRequest;
  private readonly listener: AnswerListener;
  private connection: Connection | undefined;
  /** Of the connection that was opened for it last; undefined where there was one. */
  private opening: Opening | undefined;
  private controller: Dispatcher.DispatchController | undefined;
  private head: { readonly status: number; mayBeCut: boolean } | undefined;
  private wasRefused = false;
  private isPaused = false;
  private isOver = false;
  /** Interim answers, and then chunks of the body. */
  private received = 0;

  constructor(source: ConnectionSource, request: NodeRequest, listener: AnswerListener) {
    this.source = source;
    this.request = request;
    this.listener = listener;
  }

  /** Sends it, or begins to open the connection that it is sent on. */
  send(): void {
    const connection = this.source.take(this.use);
    if (connection === undefined) void this.open();
    else this.sendOver(connection);
  }

  /** There is a connection, even where the node is only asked over it which registry it is. */
  get isConnected(): boolean {
    return this.connection !== undefined || this.opening?.isConnected === true;
  }

  /** The request is on its way. */
  get isSent(): boolean {
    return this.controller !== undefined;
  }

  /** Of the answer; undefined until it has begun. */
  get status(): number | undefined {
    return this.head?.status;
  }

  /** Of an answer that has ended: it may have more that did not come. */
  get mayBeCut(): boolean {
    return this.head?.mayBeCut ?? false;
  }

  /** Reads no more of the answer until {@link resume}. */
  pause(): void {
    this.isPaused = true;
    this.controller?.pause();
  }

  resume(): void {
    this.isPaused = false;
    this.controller?.resume();
  }

  /** Ends it at once, whatever it waits for, unless it is over; the listener hears nothing more. */
  abort(reason: Error = ABORTED): void {
    if (this.isOver) return;
    this.isOver = true;
    this.opening?.abort();
    if (this.controller !== undefined) {
      // Closes the socket: on HTTP/1.1 an answer cannot be given up in another way.
      this.controller.abort(reason);
    } else if (this.connection !== undefined) {
      this.source.discard(this.connection);
      this.connection = undefined;
    }
  }

  onRequestStart(controller: Dispatcher.DispatchController): void {
    this.controller = controller;
    this.exchange = this.connection?.asked(this.request.method, this.request.path);
    if (this.isOver) controller.abort(ABORTED);
  }

  onResponseStart(controller: Dispatcher.DispatchController, status: number): void {
    if (this.isOver) return;
    const refusal = refusalOf(this.connection, status);
    if (refusal !== undefined) return this.refuse(controller, refusal);
    // Interim responses say nothing that a client could use (RFC 9110 §15.2).
    if (status < 200) {
      this.received += 1;
      if (this.received > MOST_INTERIM) this.refuse(controller, tooManyInterim());
      return;
    }
    this.received = 0;
    const fields = fieldsFromRaw((controller.rawHeaders ?? []) as readonly Buffer[]);
    const mayBeCut = this.connection?.protocol === "http/1.1" && isEndedByClose(status, fields);
    this.head = { status, mayBeCut };
    this.listener.onHead(status, fields);
  }

  onResponseData(controller: Dispatcher.DispatchController, chunk: Buffer): void {
    if (this.isOver) return;
    this.listener.onData(chunk);
    this.received += 1;
    if (this.received % CHUNKS_IN_A_TURN !== 0 || this.isOver) return;
    controller.pause();
    setImmediate(() => {
      if (!this.isPaused) controller.resume();
    });
  }

  onResponseEnd(controller: Dispatcher.DispatchController): void {
    if (this.head !== undefined && mayBeCut(controller)) this.head.mayBeCut = true;
    const connection = this.connection!;
    this.connection = undefined;
    this.controller = undefined;
    connection.answered((error) => {
      this.source.release(connection);
      if (this.isOver) return;
      if (error !== undefined) return this.fail(error);
      this.isOver = true;
      this.listener.onComplete();
    });
  }

  onResponseError(_controller: Dispatcher.DispatchController, error: Error): void {
    const { connection } = this;
    this.connection = undefined;
    if (connection !== undefined) this.source.discard(connection);
    if (this.isOver) return;
    if (this.mayGoElsewhere(connection, error)) this.send();
    else this.fail(error);
  }

  /**
   * It was never sent, over a connection that others had used before; or its stream was refused, for the first time. An answer
   * that has begun is the listener's already.
   */
  private mayGoElsewhere(connection: Connection | undefined, error: Error): boolean {
    if (!(error instanceof ConnectionGone) || connection === undefined) return false;
    if (!this.isSent) return this.opening === undefined;
    if (this.head !== undefined || this.wasRefused || this.request.body instanceof Readable) return false;
    this.wasRefused = true;
    this.controller = undefined;
    return true;
  }

  /** What it wants of a connection. */
  private get use(): ConnectionUse {
    return this.request.wantsUnused === true ? "unused" : this.request.method;
  }

  /** Ends it because of what has come of the answer. */
  private refuse(controller: Dispatcher.DispatchController, error: Error): void {
    if (error instanceof OutOfStep) this.exchange?.leaveStep(error.fault);
    this.fail(error);
    controller.abort(error);
  }

  private async open(): Promise<void> {
    const opening = new Opening();
    this.opening = opening;
    let opened: Connection | undefined;
    try {
      opened = await this.source.open(opening, this.use);
      if (!this.isOver) await this.request.whenOpened?.();
    } catch (error) {
      if (!this.isOver) this.fail(error);
    }
    if (opened === undefined) return;
    if (this.isOver) this.source.release(opened);
    else this.sendOver(opened);
  }

  private sendOver(connection: Connection): void {
    this.connection = connection;
    const { method, path, fields, body = null } = this.request;
    // undici takes the flat list as it is and does not change it.
    connection.dispatch({ origin: this.source.origin, method, path, headers: fields as string[], body }, this);
  }

  private fail(error: unknown): void {
    this.isOver = true;
    this.listener.onFailure(error);
  }
}

/** Whether nothing but the close of its connection ends an answer over HTTP/1.1 (RFC 9112 §6.3). */
function isEndedByClose(status: number, fields: Fields): boolean {
  if (status === 204 || status === 304 || fieldValue(fields, "content-length") !== undefined) return false;
  return !/chunked$/i.test(fieldValue(fields, "transfer-encoding") ?? "");
}

/** Why an answer that begins with this status is none of the node's. */
function refusalOf(connection: Connection | undefined, status: number): Error | undefined {
  if (!(connection instanceof Http1Connection)) return undefined;
  if (connection.isTooEarly) return new OutOfStep("early");
  return status === 407 && connection.isForwarded ? proxyRefused() : undefined;
}
