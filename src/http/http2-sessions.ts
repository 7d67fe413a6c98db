import type { IncomingMessage, RequestListener, ServerResponse } from "node:http";
import {
  constants,
  type IncomingHttpHeaders,
  performServerHandshake,
  type ServerHttp2Session,
  type ServerHttp2Stream,
  type ServerOptions,
} from "node:http2";
import type { TLSSocket } from "node:tls";
import type { CancelTimer, Clock, Duration, Instant } from "../clock.ts";
import { GatewayError } from "../errors.ts";
import type { ClientConnections, StreamConnection } from "./connections.ts";
import { MOST_FIELDS } from "./framing.ts";
import { Http2Request } from "./http2-request.ts";
import { type AnswerSession, Http2Response } from "./http2-response.ts";

/** Requests at once on one connection, and what they may take in memory on all together. */
const MOST_STREAMS = 100;
const MOST_BYTES_IN_ALL = 128 * 1024 * 1024;
/** What one takes, as measured, and each of its fields besides twice its text: for nghttp2, for Node, and for us. */
const STREAM_BYTES = 10 * 1024;
const FIELD_BYTES = 512;

/** While so much waits to be read on a connection, its next requests wait, too. */
const MOST_UNREAD = 16 * 1024 * 1024;

/**
 * Streams that may end before their answer, by whichever side, and frames that need an answer of ours or none: so many at
 * once, and so many a second. Clients that give requests up do it one by one; floods of these (CVE-2023-44487,
 * CVE-2025-8671, CVE-2019-9512, CVE-2019-9515) cost the sender nothing.
 */
const EARLY_ENDS = { burst: 250, perSecond: 33 };
const CONTROL_FRAMES = { burst: 500, perSecond: 50 };

const LEAST_HEADER_LIST = 64 * 1024;

/** A client that was sent away may read why for so long. */
const LINGER: Duration = 1_000;

export interface Http2Options {
  readonly clock: Clock;
  readonly connections: ClientConnections;
  readonly answer: RequestListener;
  readonly refuseExpectation: RequestListener;
  /** Bytes of URL and header fields of one request. */
  readonly maxHeaderSize: number;
  /** Until a connection's first request. */
  readonly headersTimeout: Duration;
  /** Without a request, after the first. */
  readonly keepAliveTimeout: Duration;
  /** For the body of a request. */
  readonly requestTimeout: Duration;
  readonly isDraining: () => boolean;
}

/** HTTP/2 on connections of the public listener: the same requests on their way, within bounds of their own. */
export class Http2Sessions {
  readonly options: Http2Options;
  private readonly sessionOptions: ServerOptions;
  private readonly open = new Set<ClientSession>();
  private bytes = 0;

  constructor(options: Http2Options) {
    this.options = options;
    this.sessionOptions = {
      // A request beyond `maxHeaderSize`, or with too many fields, gets its 431, so a little more has to be read.
      settings: {
        maxConcurrentStreams: MOST_STREAMS,
        maxHeaderListSize: Math.max(LEAST_HEADER_LIST, 2 * options.maxHeaderSize),
      },
      maxHeaderListPairs: 2 * MOST_FIELDS,
      // Registries may repeat what Node holds for single; HTTP/1.1 passes it on, too.
      strictSingleValueFields: false,
      // Else fields with blanks around their values vanish, and with them an admin or a credential: they are refused.
      strictFieldWhitespaceValidation: false,
    };
  }

  /** Serves a connection whose client chose HTTP/2. */
  serve(socket: TLSSocket): void {
    const connection = this.options.connections.streamsOf(socket);
    if (connection === undefined) {
      socket.destroy();
      return;
    }
    const session = new ClientSession(this, connection, performServerHandshake(socket, this.sessionOptions));
    this.open.add(session);
    socket.once("close", () => this.open.delete(session));
  }

  /** Closes every connection when what runs on it is answered. */
  close(): void {
    for (const session of this.open) session.closeAfterAnswers();
  }

  /** False when those that run on all connections take too much. */
  admit(bytes: number): boolean {
    if (this.bytes + bytes > MOST_BYTES_IN_ALL) return false;
    this.bytes += bytes;
    return true;
  }

  leave(bytes: number): void {
    this.bytes -= bytes;
  }
}

/** So many of something at once, and so many a second. */
class Allowance {
  private readonly clock: Clock;
  private readonly rate: { readonly burst: number; readonly perSecond: number };
  private left: number;
  private countedAt: Instant;

  constructor(clock: Clock, rate: Allowance["rate"]) {
    this.clock = clock;
    this.rate = rate;
    this.left = rate.burst;
    this.countedAt = clock.now();
  }

  /** False when there were too many. */
  take(): boolean {
    const now = this.clock.now();
    this.left = Math.min(this.rate.burst, this.left + ((now - this.countedAt) / 1000) * this.rate.perSecond) - 1;
    this.countedAt = now;
    return this.left >= 0;
  }
}

interface StreamRequest {
  readonly request: Http2Request;
  readonly response: Http2Response;
}

/** One client's connection. */
class ClientSession implements AnswerSession {
  private readonly all: Http2Sessions;
  private readonly connection: StreamConnection;
  private readonly session: ServerHttp2Session;
  private readonly earlyEnds: Allowance;
  private readonly controlFrames: Allowance;
  /** Requests that wait until the client has read more. */
  private readonly waiting: StreamRequest[] = [];
  private idleSince: Instant;
  private cancelIdle: CancelTimer = () => {};

  constructor(all: Http2Sessions, connection: StreamConnection, session: ServerHttp2Session) {
    const { clock, headersTimeout } = all.options;
    this.all = all;
    this.connection = connection;
    this.session = session;
    this.earlyEnds = new Allowance(clock, EARLY_ENDS);
    this.controlFrames = new Allowance(clock, CONTROL_FRAMES);
    this.idleSince = clock.now();
    session.on("stream", (...[stream, headers, , rawHeaders]) => this.receive(stream, headers, rawHeaders));
    // The connection closes, and that is all there is to say.
    session.on("error", () => undefined);
    session.on("ping", this.countControlFrame);
    session.on("remoteSettings", this.countControlFrame);
    session.once("close", () => this.cancelIdle());
    // With HTTP/2 a client that sends no more cannot read on either: it could open no window.
    connection.socket.once("end", () => session.destroy());
    this.watchIdle(headersTimeout);
  }

  addUnread(bytes: number): void {
    this.connection.answer.add(bytes);
    if (bytes < 0 && this.waiting.length > 0) setImmediate(() => this.serveWaiting());
  }

  answerCloses(): void {
    // Of HTTP/1.1, a request whose body is not read takes its connection along; a stream goes alone.
    if (this.all.options.isDraining()) this.closeAfterAnswers();
  }

  /**
   * Says which streams are answered: the client sends the others again, elsewhere (RFC 9113 §6.8). A notice ahead would
   * lose none, but Node drops streams in silence after any GOAWAY.
   */
  closeAfterAnswers(): void {
    if (!this.session.closed && !this.session.destroyed) this.session.close();
  }

  private readonly countControlFrame = (): void => {
    if (!this.controlFrames.take()) this.sendAway();
  };

  private receive(stream: ServerHttp2Stream, headers: IncomingHttpHeaders, rawHeaders: readonly string[]): void {
    const { maxHeaderSize } = this.all.options;
    stream.on("error", () => undefined);
    const bytes = bytesOf(rawHeaders);
    if (!this.all.admit(bytes)) {
      stream.close(constants.NGHTTP2_REFUSED_STREAM);
      if (!this.earlyEnds.take()) this.sendAway();
      return;
    }
    this.connection.begin();
    const request = new Http2Request(stream, this.connection.socket, { headers, rawHeaders }, maxHeaderSize);
    const response = new Http2Response(stream, request, this);
    const cancelBody = this.limitBody(request);
    stream.once("close", () => {
      cancelBody();
      this.all.leave(bytes);
      this.end(response);
    });
    if (this.waiting.length > 0 || this.isSlow) this.waiting.push({ request, response });
    else this.serve({ request, response });
  }

  private get isSlow(): boolean {
    return this.connection.answer.unread > MOST_UNREAD;
  }

  private serveWaiting(): void {
    while (this.waiting.length > 0 && !this.isSlow) this.serve(this.waiting.shift()!);
  }

  /** The way of a request takes the two for those of HTTP/1.1; they have all that it uses of these. */
  private serve({ request, response }: StreamRequest): void {
    if (response.destroyed) return;
    const { answer, refuseExpectation } = this.all.options;
    const message = request as object as IncomingMessage;
    const reply = response as object as ServerResponse;
    const { expect } = request.headers;
    if (expect === undefined) answer(message, reply);
    else if (expect.toLowerCase() === "100-continue") {
      if (!request.isEmpty) response.writeContinue();
      answer(message, reply);
    } else refuseExpectation(message, reply);
  }

  private end(response: Http2Response): void {
    const { clock, keepAliveTimeout } = this.all.options;
    this.connection.end();
    this.idleSince = clock.now();
    if (this.connection.streams === 0) this.watchIdle(keepAliveTimeout);
    if (!response.writableFinished && !this.earlyEnds.take()) this.sendAway();
  }

  private limitBody(request: Http2Request): CancelTimer {
    const { clock, requestTimeout } = this.all.options;
    if (request.complete) return () => {};
    return clock.after(requestTimeout, () => {
      request.endWith(new GatewayError("request_timeout", "the request took too long to arrive"));
    });
  }

  private watchIdle(timeout: Duration): void {
    const { clock } = this.all.options;
    this.cancelIdle();
    if (this.session.destroyed) return;
    this.cancelIdle = clock.after(this.idleSince + timeout - clock.now(), () => {
      if (this.connection.streams === 0) this.closeAfterAnswers();
    });
  }

  /** Ends a connection that is used for a flood. */
  private sendAway(): void {
    if (this.session.destroyed) return;
    const { clock, connections } = this.all.options;
    const { socket } = this.connection;
    connections.cutOff(socket, "flood", () => this.session.destroy(undefined, constants.NGHTTP2_ENHANCE_YOUR_CALM));
    clock.after(LINGER, () => socket.destroy());
  }
}

function bytesOf(rawHeaders: readonly string[]): number {
  let bytes = STREAM_BYTES + (rawHeaders.length / 2) * FIELD_BYTES;
  for (const text of rawHeaders) bytes += 2 * text.length;
  return bytes;
}
