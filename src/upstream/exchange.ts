import type { Dispatcher } from "undici";
import { Collector, overloaded } from "../bodies/collect.ts";
import type { Clock, Instant } from "../clock.ts";
import { clientGone, type GatewayError } from "../errors.ts";
import { type Fields, fieldsFromRaw, fieldValue } from "../fields.ts";
import type { Size } from "../units.ts";
import type { Connection } from "./connection.ts";
import { type FailureReason, reasonOf } from "./failure.ts";

/** Interim answers (1xx) beyond these are a failure. */
const MOST_INTERIM = 20;

/** Chunks of a body that are taken in one turn of the loop: what a socket has buffered may be 350,000 chunks of a byte. */
const MOST_IN_A_TURN = 10_000;

/** An answer as it came, complete. */
export interface Received {
  readonly kind: "answer";
  readonly status: number;
  readonly fields: Fields;
  readonly body: Buffer;
  readonly receivedAt: Instant;
}

/** Why no complete answer came. */
export interface Fault {
  readonly kind: "fault";
  readonly reason: FailureReason;
  readonly cause?: unknown;
  /** False: nothing of the request has left, so that it may be sent again for free. */
  readonly isSent: boolean;
}

/** A way to end an attempt from outside: the client is gone, or another node was quicker. */
export class Leash {
  isCut = false;
  /** It waits for a limit of ours: it is not the node that is late. */
  isLimited = false;
  /** Called when it is cut. */
  onCut: (() => void) | undefined;

  cut(): void {
    this.isCut = true;
    this.onCut?.();
  }
}

export interface ExchangeOptions {
  readonly clock: Clock;
  readonly deadline: Instant;
  /** Bytes of a body. */
  readonly limit: Size;
  readonly leash?: Leash | undefined;
}

/**
 * Sends one request over a connection, and collects its answer. Unless that came complete, the connection is closed.
 *
 * @throws GatewayError `client_gone` when the leash is cut, `overloaded`
 */
export function exchange(
  connection: Connection,
  request: Dispatcher.DispatchOptions,
  options: ExchangeOptions,
): Promise<Received | Fault> {
  const { clock, deadline, leash } = options;
  return new Promise((resolve, reject) => {
    let isOver = false;
    // Written where it is assigned to a property, a function and all that it holds would be born in V8's old space.
    const settle = (end: Received | Fault | GatewayError): void => {
      if (isOver) return;
      isOver = true;
      cancelTimer();
      if (leash !== undefined) leash.onCut = undefined;
      running.release();
      if ("kind" in end && end.kind === "answer") return resolve(end);
      connection.close();
      if ("kind" in end) resolve(end);
      else reject(end);
    };
    const cut = (): void => settle(clientGone());
    const running = new Exchange(connection, options, settle);
    const cancelTimer = clock.after(deadline - clock.now(), () => running.fail("late"));
    if (leash !== undefined) leash.onCut = cut;
    connection.dispatch(request, running);
  });
}

class Exchange implements Dispatcher.DispatchHandler {
  private readonly connection: Connection;
  private readonly options: ExchangeOptions;
  private readonly end: (end: Received | Fault | GatewayError) => void;
  private collector: Collector | undefined;
  private isSent = false;
  private interim = 0;
  private chunks = 0;
  private status = 0;
  private fields: Fields = [];
  private receivedAt: Instant = 0;

  constructor(connection: Connection, options: ExchangeOptions, end: Exchange["end"]) {
    this.connection = connection;
    this.options = options;
    this.end = end;
  }

  release(): void {
    this.collector?.release();
  }

  onRequestStart(): void {
    this.isSent = true;
  }

  onResponseStart(controller: Dispatcher.DispatchController, status: number): void {
    if (status < 200) {
      this.interim += 1;
      if (this.interim > MOST_INTERIM) this.fail("interim");
      return;
    }
    this.receivedAt = this.options.clock.now();
    this.status = status;
    this.fields = fieldsFromRaw(controller.rawHeaders as readonly Buffer[]);
    const length = fieldValue(this.fields, "content-length");
    const announced = length === undefined ? undefined : Number(length);
    this.collector = new Collector({ limit: this.options.limit, announced });
    if ((announced ?? 0) > this.options.limit) this.fail("too_large");
  }

  onResponseData(controller: Dispatcher.DispatchController, chunk: Buffer): void {
    this.chunks += 1;
    if (this.chunks % MOST_IN_A_TURN === 0) {
      controller.pause();
      setImmediate(() => controller.resume());
    }
    const fault = this.collector?.add(chunk);
    if (fault === "too_large") this.fail("too_large");
    else if (fault === "overloaded") this.end(overloaded());
  }

  onResponseEnd(): void {
    if (this.connection.isReset) return this.fail("broken");
    const { status, fields, receivedAt } = this;
    const body = this.collector?.body() ?? Buffer.alloc(0);
    this.end({ kind: "answer", status, fields, body, receivedAt });
  }

  onResponseError(_controller: Dispatcher.DispatchController, error: Error): void {
    this.fail(reasonOf(error, this.status > 0), error);
  }

  fail(reason: FailureReason, cause?: unknown): void {
    this.end({ kind: "fault", reason, cause, isSent: this.isSent });
  }
}
