import {
  type ClientHttp2Session,
  type ClientHttp2Stream,
  connect,
  constants,
  type IncomingHttpHeaders,
} from "node:http2";
import type { Socket } from "node:net";
import { Readable } from "node:stream";
import type { Dispatcher } from "undici";
import type { CancelTimer, Clock, Duration } from "../../clock.ts";
import { brokenOff, ConnectionGone, ConnectTimeout } from "./connection-failure.ts";
import { Connection } from "./connection.ts";
import type { ConnectionTarget } from "./socket.ts";

/** Streams on one connection at once, however many the node allows. */
const MOST_STREAMS = 100;
/** Of each stream and, eight times that, of all: what a node may send before it is read. */
const WINDOW = 256 * 1024;

/** So long after its last stream an ended connection is left to the node to end, too: Node would wait for that for ever. */
const MOST_LINGER: Duration = 1_000;

const OPTIONS = {
  peerMaxConcurrentStreams: MOST_STREAMS,
  maxHeaderListPairs: 256,
  settings: { enablePush: false, initialWindowSize: WINDOW, maxHeaderListSize: 32 * 1024 },
} as const;

const { NGHTTP2_CANCEL, NGHTTP2_REFUSED_STREAM, NGHTTP2_NO_ERROR } = constants;

/** Carries many requests at a time, each a stream with a number: no answer can be another's. */
export class Http2Connection extends Connection {
  readonly protocol = "h2";
  private readonly session: ClientHttp2Session;
  private readonly target: ConnectionTarget;
  private readonly clock: Clock;
  /** An answer did not come: whether the node is still there is being asked. */
  private cancelPing: CancelTimer | undefined;
  /** Streams whose end somebody waits for. */
  private streams = 0;
  /** It takes no more requests, and has no stream. */
  private cancelLinger: CancelTimer | undefined;

  private constructor(
    socket: Socket,
    target: ConnectionTarget,
    clock: Clock,
    onClose: (connection: Connection) => void,
  ) {
    super(socket, clock.now(), onClose);
    this.target = target;
    this.clock = clock;
    this.session = connect(target.origin, { ...OPTIONS, createConnection: () => socket });
    this.session
      .on("error", ignore)
      // It takes no more requests; those that the node has accepted go on.
      .on("goaway", () => this.end())
      .on("close", () => this.end());
    this.session.unref();
  }

  /** One on which the node has said how many streams it takes. */
  static async open(
    socket: Socket,
    target: ConnectionTarget,
    clock: Clock,
    onClose: (connection: Connection) => void,
  ): Promise<Http2Connection> {
    const connection = new Http2Connection(socket, target, clock, onClose);
    const { session } = connection;
    let cancelTimer: CancelTimer | undefined;
    try {
      await new Promise<void>((resolve, reject) => {
        cancelTimer = clock.after(target.connectTimeout, () => reject(new ConnectTimeout()));
        session.once("remoteSettings", () => {
          session.setLocalWindowSize(8 * WINDOW);
          resolve();
        });
        session.once("error", reject).once("close", () => reject(new ConnectionGone()));
      });
      return connection;
    } catch (error) {
      connection.destroy();
      throw error;
    } finally {
      cancelTimer?.();
    }
  }

  get room(): number {
    if (!this.isOpen || this.session.closed || this.session.destroyed || this.cancelPing !== undefined) return 0;
    const most = Math.min(MOST_STREAMS, this.session.remoteSettings.maxConcurrentStreams ?? MOST_STREAMS);
    return Math.max(0, most - this.inFlight);
  }

  dispatch(request: Dispatcher.DispatchOptions, handler: Dispatcher.DispatchHandler): void {
    let stream: ClientHttp2Stream;
    try {
      const headers = headersOf(request, new URL(this.target.origin));
      stream = this.session.request(headers, { endStream: request.body === null });
    } catch {
      return handler.onResponseError?.(NO_CONTROL, new ConnectionGone());
    }
    this.streams += 1;
    const listener = { silent: () => this.doubt(), over: () => this.streamOver() };
    new StreamExchange(stream, handler, listener).begin(request.body as Readable | Buffer | null);
  }

  destroy(): void {
    this.end();
    this.cancelPing?.();
    // Without an error Node ends running streams as if their answers were complete.
    this.session.destroy(brokenOff());
    this.socket.destroy();
  }

  close(): void {
    this.end();
    this.session.close();
  }

  protected override end(): void {
    super.end();
    this.linger();
  }

  private streamOver(): void {
    this.streams -= 1;
    if (!this.isOpen) this.linger();
  }

  private linger(): void {
    if (this.socket.destroyed) this.cancelLinger?.();
    else if (this.streams === 0) this.cancelLinger ??= this.clock.after(MOST_LINGER, () => this.destroy());
  }

  /** An answer was given up before it began: the connection gets no request before the node shows that it is there. */
  private doubt(): void {
    // One that is being closed gets none anyway, and Node sends no PING on it.
    if (!this.isOpen || this.cancelPing !== undefined) return;
    this.cancelPing = this.clock.after(this.target.connectTimeout, () => this.destroy());
    const onPing = (error: Error | null): void => {
      this.cancelPing?.();
      this.cancelPing = undefined;
      if (error !== null) this.destroy();
    };
    if (!this.session.ping(onPing)) onPing(new ConnectionGone());
  }
}

interface StreamListener {
  /** It was given up before its answer began. */
  silent(): void;
  /** Its answer has ended, or was given up; once. */
  over(): void;
}

/** One request as a stream, for a handler of undici's kind. */
class StreamExchange implements Dispatcher.DispatchController {
  rawHeaders: Buffer[] = [];
  readonly rawTrailers = null;
  readonly reason = null;
  /**
   * Of an answer that has ended: Node ends one that the node broke off with NO_ERROR as one that is whole, and this one had no
   * length, nor was its end read before its stream was closed.
   */
  mayBeCut = false;
  private readonly stream: ClientHttp2Stream;
  private readonly handler: Dispatcher.DispatchHandler;
  private readonly listener: StreamListener;
  private error: Error | undefined;
  private hasBegun = false;
  /** The node said that it ended: nothing that comes later takes that back. */
  private isEnded = false;
  private isAborted = false;
  /** Bytes of the body that are still to come, where the head said how many there are. */
  private due: number | undefined;

  constructor(stream: ClientHttp2Stream, handler: Dispatcher.DispatchHandler, listener: StreamListener) {
    this.stream = stream;
    this.handler = handler;
    this.listener = listener;
  }

  get aborted(): boolean {
    return this.stream.aborted;
  }

  get paused(): boolean {
    return this.stream.isPaused();
  }

  begin(body: Readable | Buffer | null): void {
    const { stream, handler } = this;
    stream
      .on("headers", (headers: IncomingHttpHeaders) => this.head(headers))
      .on("response", (headers: IncomingHttpHeaders, _flags: number, raw: string[]) => this.head(headers, raw))
      .on("data", (chunk: Buffer) => {
        if (this.due !== undefined) this.due -= chunk.length;
        if (!this.isAborted) handler.onResponseData?.(this, chunk);
      })
      .on("error", (error) => {
        this.error = error;
      })
      .once("end", () => this.ended())
      .once("close", () => this.closed());
    handler.onRequestStart?.(this, undefined);
    if (body instanceof Readable) body.on("error", (error) => this.abort(error)).pipe(stream);
    else if (body !== null) stream.end(body);
  }

  pause(): void {
    this.stream.pause();
  }

  resume(): void {
    this.stream.resume();
  }

  abort(reason: Error): void {
    const { stream } = this;
    if (this.isAborted || stream.destroyed) return;
    this.isAborted = true;
    this.error = reason;
    stream.close(NGHTTP2_CANCEL);
    if (!this.hasBegun) this.listener.silent();
    this.listener.over();
  }

  private head(headers: IncomingHttpHeaders, raw?: string[]): void {
    if (this.isAborted) return;
    const status = Number(headers[":status"]);
    if (raw !== undefined) {
      this.hasBegun = true;
      this.rawHeaders = raw.flatMap((each, at) =>
        raw[at - (at % 2)]!.startsWith(":") ? [] : [Buffer.from(each, "latin1")],
      );
      const length = status === 304 || status === 204 ? 0 : headers["content-length"];
      if (length !== undefined) this.due = Number(length);
    }
    this.handler.onResponseStart?.(this, status, headers, undefined);
  }

  private ended(): void {
    const { stream } = this;
    // A stream that breaks off is closed first, and then ends.
    this.isEnded = !stream.closed;
    if (stream.writableFinished) return;
    // The node wants no more of the request (RFC 9113 §8.1), and Node would wait for it to take the rest.
    if (this.isEnded) stream.close(NGHTTP2_CANCEL);
    else stream.destroy();
  }

  private closed(): void {
    const { stream, handler } = this;
    if (!this.isAborted) this.listener.over();
    const isClean = stream.rstCode === NGHTTP2_NO_ERROR && this.error === undefined;
    const isWhole = this.hasBegun && (this.isEnded || isClean) && !this.due;
    this.mayBeCut = !this.isEnded && this.due === undefined;
    if (isWhole && !this.isAborted) return handler.onResponseEnd?.(this, {});
    if (stream.rstCode === NGHTTP2_REFUSED_STREAM && !this.hasBegun) this.error = new ConnectionGone();
    handler.onResponseError?.(this, this.error ?? brokenOff());
  }
}

/** Whether an answer that has ended may not be all of it. */
export function mayBeCut(controller: Dispatcher.DispatchController): boolean {
  return controller instanceof StreamExchange && controller.mayBeCut;
}

const NO_CONTROL: Dispatcher.DispatchController = {
  rawHeaders: [],
  rawTrailers: null,
  aborted: true,
  paused: false,
  reason: null,
  pause: ignore,
  resume: ignore,
  abort: ignore,
};

function headersOf(
  { method, path, headers }: Dispatcher.DispatchOptions,
  { host, protocol }: URL,
): Record<string, string> {
  // Of no prototype: clients may name a field `constructor`.
  const sent: Record<string, string> = Object.assign(Object.create(null), {
    ":method": method,
    ":scheme": protocol.slice(0, -1),
    ":authority": host,
    ":path": path,
  });
  const fields = headers as readonly string[];
  for (let i = 0; i < fields.length; i += 2) {
    const name = fields[i]!;
    sent[name] = sent[name] === undefined ? fields[i + 1]! : `${sent[name]}, ${fields[i + 1]!}`;
  }
  return sent;
}

function ignore(): void {
  // Whatever it is, streams and the close of the session show it.
}
