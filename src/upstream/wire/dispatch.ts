import type { Dispatcher } from "undici";
import type { Connections } from "./connections.ts";
import { Opening } from "./connections.ts";
import { ConnectionGone } from "./connection-failure.ts";
import type { Connection } from "./connection.ts";

/** Where the connection for a request comes from and goes to. */
export type ConnectionSource = Pick<Connections, "origin" | "take" | "open" | "release" | "discard">;

/** What undici tells of a request; and, before there is a connection to send it on, that there will be none. */
export interface DispatchHandler extends Dispatcher.DispatchHandler {
  /** No connection: nothing was sent. Called once, instead of everything else. */
  onUnsent(error: unknown): void;
}

/**
 * One request on its way to a node: sent at once where a connection is free, else as soon as one is open that may carry
 * it. A connection that closes before the request could be sent on it is replaced.
 */
export class Dispatch {
  private readonly source: ConnectionSource;
  private readonly request: Dispatcher.DispatchOptions;
  private readonly handler: DispatchHandler;
  private connection: Connection | undefined;
  private opening: Opening | undefined;
  private controller: Dispatcher.DispatchController | undefined;
  private isFresh = false;
  private isAborted = false;

  constructor(source: ConnectionSource, request: Dispatcher.DispatchOptions, handler: DispatchHandler) {
    this.source = source;
    this.request = request;
    this.handler = handler;
  }

  /** Sends it, or begins to open the connection that it is sent on. */
  begin(): void {
    const connection = this.source.take();
    if (connection === undefined) this.open();
    else this.send(connection);
  }

  /** There is a connection, be it that the node is only asked over it which registry it is. */
  get isConnected(): boolean {
    return this.connection !== undefined || this.opening?.isConnected === true;
  }

  /** The request is on its way. */
  get isSent(): boolean {
    return this.controller !== undefined;
  }

  /** To be called when undici says that it sends the request. */
  started(controller: Dispatcher.DispatchController): void {
    this.controller = controller;
  }

  /** To be called when the answer is complete. */
  completed(): void {
    if (this.connection !== undefined) this.source.release(this.connection);
    this.connection = undefined;
  }

  /** To be called when undici says that it failed. Returns true when it was not sent and is tried anew. */
  broke(error: Error): boolean {
    const { connection } = this;
    this.connection = undefined;
    if (connection === undefined) return false;
    this.source.discard(connection);
    if (this.isSent || this.isFresh || this.isAborted || !(error instanceof ConnectionGone)) return false;
    this.begin();
    return true;
  }

  /** Ends it at once, whatever it waits for. */
  abort(reason: Error): void {
    this.isAborted = true;
    this.opening?.cancel();
    if (this.controller !== undefined) {
      // Closes the socket: on HTTP/1.1 an answer cannot be given up in another way.
      this.controller.abort(reason);
    } else if (this.connection !== undefined) {
      const { connection } = this;
      this.connection = undefined;
      this.source.discard(connection);
    }
  }

  private open(): void {
    const opening = new Opening();
    this.opening = opening;
    this.isFresh = true;
    this.source.open(opening).then(
      (connection) => {
        if (this.isAborted) this.source.release(connection);
        else this.send(connection);
      },
      (error: unknown) => {
        if (!this.isAborted) this.handler.onUnsent(error);
      },
    );
  }

  private send(connection: Connection): void {
    this.opening = undefined;
    this.connection = connection;
    connection.dispatcher.dispatch(this.request, this.handler);
  }
}
