import type { Socket } from "node:net";
import { Client } from "undici";
import type { Dispatcher } from "undici";
import type { Clock, Duration, Instant } from "../../clock.ts";
import { brokenOff, ConnectionGone, OutOfStep } from "./connection-failure.ts";
import { Connection, MOST_IDLE } from "./connection.ts";
import { type Exchange, StepLog, type StepFault, type StepRecord } from "./in-step.ts";
import { type ConnectionTarget, proxyFields, targetPrefix } from "./socket.ts";

/** Where a connection leads, with what is known of the node there. */
export interface KnownTarget extends ConnectionTarget {
  readonly steps: StepRecord;
}

/** Where one connection leads. */
interface ReachedTarget extends KnownTarget {
  /** How long its TCP handshake took; 0 where that is not known. */
  readonly trip: Duration;
}

// undici's own timers are coarse: deadlines are kept by whoever waits.
const CLIENT_OPTIONS = {
  pipelining: 1,
  headersTimeout: 0,
  bodyTimeout: 0,
  maxHeaderSize: 32 * 1024,
  keepAliveTimeout: MOST_IDLE,
  keepAliveMaxTimeout: 60_000,
  keepAliveTimeoutThreshold: 2_000,
  allowH2: false,
} as const;

/** What a server says on a connection on which it waited in vain: it is no answer (RFC 9110 §15.5.9). */
const TIMEOUT_NOTICE = "HTTP/1.1 408 ";

/**
 * Carries one request at a time. A request that finds it closed fails with {@link ConnectionGone}. What comes over it and
 * was not asked for closes it, and what came before and could be another's is forgotten.
 */
export class Http1Connection extends Connection {
  readonly protocol = "http/1.1";
  /** It has carried a call. */
  isUsed = false;
  readonly log = new StepLog(this);
  private readonly client: Client;
  private readonly target: ReachedTarget;
  private readonly clock: Clock;
  /** When the request was sent that is not answered yet; undefined: nothing is asked. */
  private askedAt: Instant | undefined;
  /** It was ended, by whichever side, and not for what came over it. */
  private isEnded = false;

  constructor(socket: Socket, target: ReachedTarget, clock: Clock, onClose: (connection: Connection) => void) {
    super(socket, clock.now(), onClose);
    this.target = target;
    this.clock = clock;
    let isHandedOver = false;
    // Undici asks for a connection whenever it has a request and none: the first time it gets this one, and never another.
    const connect = (_options: unknown, callback: (error: Error | null, socket: Socket | null) => void) => {
      const isFirst = !isHandedOver;
      isHandedOver = true;
      // What has arrived by now is read first: nothing that came unasked is to be taken for the answer.
      setImmediate(() => {
        if (isFirst && this.isOpen) callback(null, socket);
        else callback(new ConnectionGone(), null);
      });
    };
    this.client = new Client(target.origin, { ...CLIENT_OPTIONS, connect: connect as never });
    this.client.on("disconnect", this.onDisconnect);
    socket.once("end", () => {
      this.isEnded = true;
      this.end();
    });
    socket.on("readable", this.onStray);
  }

  get room(): number {
    return this.isOpen && this.inFlight === 0 && !this.log.isFull ? 1 : 0;
  }

  dispatch(request: Dispatcher.DispatchOptions, handler: Dispatcher.DispatchHandler): void {
    const prefix = targetPrefix(this.target);
    if (prefix === "") return void this.client.dispatch(request, handler);
    const headers = [...(request.headers as readonly string[]), ...proxyFields(this.target)];
    this.client.dispatch({ ...request, path: prefix + request.path, headers }, handler);
  }

  override asked(method: string, path: string): Exchange {
    this.askedAt = this.clock.now();
    this.socket.off("readable", this.onStray);
    return this.log.begin(method, path);
  }

  /** What is behind the answer in the same read is looked at first: the answer could be the one behind it. */
  override answered(done: (error: Error | undefined) => void): void {
    this.askedAt = undefined;
    // Undici takes a reset for the end of an answer that has no length.
    const { errored } = this.socket;
    // Before undici's own listener, which reads it.
    this.socket.prependListener("readable", this.onStray);
    setImmediate(() => {
      // Undici could not read what is behind it; that it closes the connection is heard later.
      this.noteUnreadable(this.socket.errored);
      done(this.log.isOutOfStep ? new OutOfStep("unasked") : errored === null ? undefined : brokenOff());
    });
  }

  /** An answer begins sooner than one could be here. */
  get isTooEarly(): boolean {
    const { steps, trip } = this.target;
    return this.askedAt !== undefined && this.clock.now() - this.askedAt < steps.leastAnswerTime(trip);
  }

  override get isInDoubt(): boolean {
    return this.isUsed;
  }

  override confirm(): void {
    this.log.confirmLatest();
  }

  /** A forwarding proxy is asked, which may refuse by itself. */
  get isForwarded(): boolean {
    return targetPrefix(this.target) !== "";
  }

  /** It was not in step: it is closed, and what came over it since it was surely in step is forgotten. */
  override leaveStep(fault: StepFault): void {
    if (this.log.isOutOfStep) return;
    this.log.forgetAll();
    this.destroySoon();
    this.target.steps.note(fault);
  }

  destroy(): void {
    // Undici, which closes it for what it cannot read, says so a moment later.
    if (!this.socket.destroyed) this.isEnded = true;
    this.end();
    void this.client.destroy(new ConnectionGone());
    this.socket.destroy();
  }

  close(): void {
    this.destroySoon();
  }

  /** When undici, which may be in the middle of reporting a failure, is done with it. */
  private destroySoon(): void {
    queueMicrotask(() => this.destroy());
  }

  private readonly onStray = (): void => {
    const stray = this.socket.read() as Buffer | null;
    if (stray === null) return;
    const isNotice = stray.toString("latin1", 0, TIMEOUT_NOTICE.length) === TIMEOUT_NOTICE;
    if (isNotice) this.destroy();
    else this.leaveStep("unasked");
  };

  private readonly onDisconnect = (_origin: URL, _clients: readonly unknown[], error: Error): void =>
    this.noteUnreadable(error);

  /** Bytes behind an answer, in the same read, are seen by undici's parser alone, which closes the connection for this reason. */
  private noteUnreadable(error: Error | null): void {
    if (error === null || this.askedAt !== undefined || this.isEnded) return;
    if (isParserError(error)) this.leaveStep("unasked");
  }
}

/** Whether undici could not read what came: it was no answer, or nobody had asked. */
function isParserError(error: Error): boolean {
  return error.name === "HTTPParserError" || ("code" in error && error.code === "UND_ERR_SOCKET");
}
