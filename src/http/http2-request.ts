import type { IncomingHttpHeaders, IncomingMessage } from "node:http";
import { constants, type IncomingHttpHeaders as Http2Headers, type ServerHttp2Stream } from "node:http2";
import type { Socket } from "node:net";
import { Readable } from "node:stream";
import { GatewayError } from "../errors.ts";

/** The head of a request as Node read it. */
export interface Http2Head {
  readonly headers: Http2Headers;
  /** Names and values in turn, pseudo-fields first. */
  readonly rawHeaders: readonly string[];
}

/**
 * A request of an HTTP/2 stream in the form of one of HTTP/1.1, which the whole way of a request knows: `:authority` is its
 * `Host`, a body of unknown length is `chunked`, and there are no pseudo-fields. Its stream keeps to RFC 9113 §8: Node
 * refuses connection-specific fields, names in upper case, and a body of another length than `content-length` says.
 */
export class Http2Request extends Readable {
  readonly httpVersion = "2.0";
  readonly httpVersionMajor = 2;
  readonly httpVersionMinor = 0;
  readonly method: string;
  readonly url: string;
  readonly headers: IncomingHttpHeaders;
  readonly rawHeaders: readonly string[];
  readonly socket: Socket;
  /** Why it is refused before its URL is looked at. */
  readonly problem: GatewayError | undefined;
  /** There is no body. */
  readonly isEmpty: boolean;
  /** All of it has come. */
  complete: boolean;
  private readonly stream: ServerHttp2Stream;
  private isReading = false;

  constructor(stream: ServerHttp2Stream, socket: Socket, head: Http2Head, maxHead: number) {
    super();
    const { headers } = head;
    this.stream = stream;
    this.socket = socket;
    this.method = headers[":method"]!;
    // CONNECT has none.
    this.url = headers[":path"] ?? "/";
    this.isEmpty = stream.endAfterHeaders;
    this.complete = this.isEmpty;
    this.rawHeaders = rawFieldsOf(head);
    this.headers = fieldsOf(headers, this.isEmpty);
    this.problem = this.method === "CONNECT" ? noTunnels() : problemOf(head, maxHead);
    if (this.isEmpty) this.push(null);
    stream.once("close", () => this.endWith(undefined));
  }

  /** Gives the body up where it has not come whole; who reads it is told why. */
  endWith(error: GatewayError | undefined): void {
    if (!this.complete) this.destroy(error ?? Object.assign(new Error("aborted"), { code: "ECONNRESET" }));
  }

  override _read(): void {
    if (this.isReading) {
      this.stream.resume();
      return;
    }
    this.isReading = true;
    this.stream
      .on("data", (chunk: Buffer) => {
        if (!this.push(chunk)) this.stream.pause();
      })
      .once("end", () => {
        // A stream that is cut off ends, too.
        if (this.stream.aborted || this.stream.rstCode !== constants.NGHTTP2_NO_ERROR) return;
        this.complete = true;
        this.push(null);
      });
  }

  override _destroy(error: Error | null, done: (error?: Error | null) => void): void {
    // As with Node's own: an error that is not listened to would end the process.
    done(this.listenerCount("error") === 0 ? null : error);
  }
}

/** The request of an HTTP/2 stream that `request` is; undefined for one of HTTP/1.1. */
export function http2RequestOf(request: IncomingMessage): Http2Request | undefined {
  const any: object = request;
  return any instanceof Http2Request ? any : undefined;
}

function noTunnels(): GatewayError {
  return new GatewayError("method_not_allowed", "the gateway opens no tunnels", { allow: "GET, HEAD, POST, OPTIONS" });
}

/** RFC 9113 §8.2.1: such a request is malformed. */
const BLANK_AROUND = /^[ \t]|[ \t]$/;

/** RFC 9113 §8.3.1: `Host` is not needed, and must name the same authority. */
function problemOf({ headers, rawHeaders }: Http2Head, maxHead: number): GatewayError | undefined {
  let size = 0;
  let hosts = 0;
  let hasBlanks = false;
  for (let i = 0; i < rawHeaders.length; i += 2) {
    size += rawHeaders[i]!.length + rawHeaders[i + 1]!.length + 4;
    if (rawHeaders[i] === "host") hosts++;
    if (BLANK_AROUND.test(rawHeaders[i + 1]!)) hasBlanks = true;
  }
  if (size > maxHead) return new GatewayError("headers_too_large", "the request's header fields are too large");
  if (hasBlanks) return new GatewayError("malformed_request", "a header field begins or ends with a blank");
  const authority = headers[":authority"];
  const { host } = headers;
  if (authority === undefined && hosts === 0) {
    return new GatewayError("malformed_request", "the request has neither :authority nor the header host");
  }
  if (hosts > 1) return new GatewayError("malformed_request", "the header host is there twice");
  if (authority !== undefined && host !== undefined && authority.toLowerCase() !== host.toLowerCase()) {
    return new GatewayError("malformed_request", "the header host names another host than :authority");
  }
  return undefined;
}

function rawFieldsOf({ headers, rawHeaders }: Http2Head): string[] {
  const fields: string[] = [];
  const authority = headers[":authority"];
  if (authority !== undefined && headers.host === undefined) fields.push("host", authority);
  for (let i = 0; i < rawHeaders.length; i += 2) {
    if (!rawHeaders[i]!.startsWith(":")) fields.push(rawHeaders[i]!, rawHeaders[i + 1]!);
  }
  return fields;
}

function fieldsOf(headers: Http2Headers, isEmpty: boolean): IncomingHttpHeaders {
  const fields: IncomingHttpHeaders = {};
  for (const name of Object.keys(headers)) {
    const value = headers[name];
    if (!name.startsWith(":") && value !== undefined) fields[name] = value;
  }
  const authority = headers[":authority"];
  if (authority !== undefined) fields.host = authority;
  // What reads bodies asks for their framing; a stream frames them itself.
  if (!isEmpty && fields["content-length"] === undefined) fields["transfer-encoding"] = "chunked";
  return fields;
}
