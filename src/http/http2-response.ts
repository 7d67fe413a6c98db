import type { OutgoingHttpHeaders } from "node:http";
import { constants, type ServerHttp2Stream } from "node:http2";
import type { Socket } from "node:net";
import { Writable } from "node:stream";
import type { Http2Request } from "./http2-request.ts";

/**
 * Bytes given to a stream at once, as many as a frame has: so it shows how far a client has read, and a client that reads
 * nothing costs Node no copy of a whole body.
 */
const SLICE = 16 * 1024;

const NOTHING = Buffer.alloc(0);

/** RFC 9113 §8.2.2: fields that speak of a connection of HTTP/1.1. */
const CONNECTION_FIELDS: ReadonlySet<string> = new Set([
  "connection",
  "http2-settings",
  "keep-alive",
  "proxy-connection",
  "te",
  "transfer-encoding",
  "upgrade",
]);

/** What an answer tells the connection that it goes out on. */
export interface AnswerSession {
  /** So many bytes more are for the client to read, or less. */
  addUnread(bytes: number): void;
  /** An answer says that it is the last one of its connection. */
  answerCloses(): void;
}

/** An answer on an HTTP/2 stream, in the form of one of HTTP/1.1. */
export class Http2Response extends Writable {
  readonly req: Http2Request;
  readonly socket: Socket;
  statusCode = 200;
  statusMessage = "";
  headersSent = false;
  private readonly stream: ServerHttp2Stream;
  private readonly session: AnswerSession;
  private readonly fields = new Map<string, string | string[]>();
  /** What is left of the body that came with the end. */
  private last: Buffer | undefined;
  /** The end of the stream is sent by itself, once all of the body is. */
  private isEndedApart = false;
  /** Of what was given to be sent, what the client has not taken. */
  private unread = 0;

  constructor(stream: ServerHttp2Stream, request: Http2Request, session: AnswerSession) {
    super({ decodeStrings: true });
    this.stream = stream;
    this.req = request;
    this.socket = request.socket;
    this.session = session;
    stream.once("close", () => this.destroy());
  }

  /** @param fields names and values in turn, or an object; after them those that were set one by one */
  writeHead(status: number, fields?: readonly string[] | OutgoingHttpHeaders): this {
    this.statusCode = status;
    if (isFlat(fields)) for (let i = 0; i < fields.length; i += 2) this.appendHeader(fields[i]!, fields[i + 1]!);
    else for (const [name, value] of Object.entries(fields ?? {})) if (value !== undefined) this.setHeader(name, value);
    return this;
  }

  setHeader(name: string, value: string | number | readonly string[]): this {
    this.fields.set(name.toLowerCase(), Array.isArray(value) ? [...(value as string[])] : String(value));
    return this;
  }

  appendHeader(name: string, value: string): this {
    const known = this.fields.get(name.toLowerCase());
    const all = known === undefined ? value : Array.isArray(known) ? [...known, value] : [known, value];
    this.fields.set(name.toLowerCase(), all);
    return this;
  }

  getHeader(name: string): string | string[] | undefined {
    return this.fields.get(name.toLowerCase());
  }

  getHeaders(): OutgoingHttpHeaders {
    return Object.fromEntries(this.fields);
  }

  getHeaderNames(): string[] {
    return [...this.fields.keys()];
  }

  hasHeader(name: string): boolean {
    return this.fields.has(name.toLowerCase());
  }

  removeHeader(name: string): void {
    this.fields.delete(name.toLowerCase());
  }

  /** Asks for the body of a request that says `Expect: 100-continue`. */
  writeContinue(): void {
    if (!this.stream.destroyed && !this.stream.closed) this.stream.additionalHeaders({ ":status": 100 });
  }

  flushHeaders(): void {
    this.sendHead(undefined);
  }

  /** A body that comes with the end goes out with it, in one frame where it is small. */
  override end(chunk?: unknown, encoding?: unknown, callback?: unknown): this {
    const isBody = typeof chunk === "string" || Buffer.isBuffer(chunk);
    if (isBody && this.writableLength === 0 && !this.writableEnded) {
      this.last = typeof chunk === "string" ? Buffer.from(chunk, encoding as BufferEncoding) : chunk;
      return super.end(typeof callback === "function" ? (callback as () => void) : undefined);
    }
    return super.end(isBody ? chunk : undefined, (encoding ?? undefined) as BufferEncoding, callback as () => void);
  }

  override _write(chunk: Buffer, _encoding: BufferEncoding, done: (error?: Error | null) => void): void {
    if (this.sendHead(undefined)) this.sendSlices(chunk, false, done);
    else done();
  }

  override _final(done: (error?: Error | null) => void): void {
    const { last, stream } = this;
    this.last = undefined;
    const isOpen = this.sendHead(last === undefined || last.length <= SLICE ? (last ?? NOTHING) : undefined);
    if (this.isEndedApart) {
      stream.once("wantTrailers", () => {
        stream.sendTrailers({});
        done();
      });
      if (last === undefined) stream.end();
      else this.sendSlices(last, true, () => undefined);
    } else if (last !== undefined && isOpen) this.sendSlices(last, true, done);
    // Where the head has ended the stream, there is nothing to end.
    else done();
  }

  override _destroy(_error: Error | null, done: (error?: Error | null) => void): void {
    this.count(-this.unread);
    const isCutOff = !this.writableFinished;
    // RFC 9113 §8.1: after a whole answer, what is left of the request is not wanted.
    if (isCutOff || !this.req.complete) {
      this.stream.close(isCutOff ? constants.NGHTTP2_INTERNAL_ERROR : constants.NGHTTP2_NO_ERROR);
    }
    done();
  }

  /**
   * Sends the head if that was not done. False where there can be no body.
   *
   * @param whole the body, where it is known and goes out at once
   */
  private sendHead(whole: Buffer | undefined): boolean {
    const isBodiless = this.req.method === "HEAD" || this.statusCode === 204 || this.statusCode === 304;
    if (this.headersSent || this.stream.destroyed || this.stream.closed) return !isBodiless;
    this.headersSent = true;
    const fields: OutgoingHttpHeaders = { [constants.HTTP2_HEADER_STATUS]: this.statusCode };
    for (const [name, value] of this.fields) {
      if (!CONNECTION_FIELDS.has(name)) fields[name] = value;
      else if (name === "connection") this.session.answerCloses();
    }
    const endStream = isBodiless || whole?.length === 0;
    // Else Node ends what is cut off as if it were whole, before it resets the stream.
    this.isEndedApart = !endStream && whole === undefined;
    this.stream.respond(fields, { endStream, waitForTrailers: this.isEndedApart });
    return !isBodiless;
  }

  private sendSlices(body: Buffer, isLast: boolean, done: (error?: Error | null) => void): void {
    const { stream } = this;
    this.count(body.length);
    const sendFrom = (start: number): void => {
      const end = Math.min(start + SLICE, body.length);
      const slice = body.subarray(start, end);
      const sent = (error?: Error | null): void => {
        if (this.destroyed) return;
        this.count(-slice.length);
        if (error || end === body.length) done(error);
        else sendFrom(end);
      };
      if (isLast && end === body.length) stream.end(slice, sent);
      else stream.write(slice, sent);
    };
    sendFrom(0);
  }

  private count(bytes: number): void {
    if (bytes === 0) return;
    this.unread += bytes;
    this.session.addUnread(bytes);
  }
}

function isFlat(fields: readonly string[] | OutgoingHttpHeaders | undefined): fields is readonly string[] {
  return Array.isArray(fields);
}
