import { once } from "node:events";
import {
  type ClientHttp2Session,
  type ClientHttp2Stream,
  connect,
  constants,
  type IncomingHttpHeaders,
  type OutgoingHttpHeaders,
  type SecureClientSessionOptions,
} from "node:http2";
import { connect as connectTls, type TLSSocket } from "node:tls";
import { onTestFinished } from "vitest";
import { pem } from "./sample.ts";

/** What came back on a stream. */
export interface Http2Answer {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly text: string;
  /** How the stream ended. */
  readonly code: number;
}

/** A connection of HTTP/2 that ends with the test. */
export async function openHttp2(
  url: string,
  options: Pick<SecureClientSessionOptions, "cert" | "key" | "settings"> = {},
): Promise<ClientHttp2Session> {
  const session = connect(url, { ca: pem("ca-and-successor"), ...options });
  session.on("error", () => undefined);
  onTestFinished(() => session.destroy());
  await once(session, "connect");
  return session;
}

export interface Http2Sent {
  readonly method?: string;
  readonly path: string;
  readonly headers?: OutgoingHttpHeaders;
  readonly body?: string | Buffer | undefined;
}

/** Sends a request on a stream of its own; never rejects. */
export function ask(
  session: ClientHttp2Session,
  { method, path, headers = {}, body }: Http2Sent,
): Promise<Http2Answer> {
  const stream = session.request(
    {
      ":method": method ?? (body === undefined ? "GET" : "POST"),
      ":path": path,
      ...(body === undefined ? {} : { "content-type": "application/json" }),
      ...headers,
    },
    { endStream: body === undefined },
  );
  if (body !== undefined) stream.end(body);
  return answerOf(stream);
}

export function answerOf(stream: ClientHttp2Stream): Promise<Http2Answer> {
  return new Promise((resolve) => {
    let headers: IncomingHttpHeaders = {};
    const chunks: Buffer[] = [];
    stream.on("response", (received) => (headers = received));
    stream.on("data", (chunk: Buffer) => chunks.push(chunk));
    stream.on("error", () => undefined);
    stream.on("close", () => {
      const text = Buffer.concat(chunks).toString();
      resolve({ status: Number(headers[":status"] ?? 0), headers, text, code: stream.rstCode });
    });
  });
}

/** Types of frames (RFC 9113 §6). */
export const FRAME = {
  data: 0,
  headers: 1,
  priority: 2,
  reset: 3,
  settings: 4,
  push: 5,
  ping: 6,
  goaway: 7,
  windowUpdate: 8,
  continuation: 9,
} as const;

export const FLAG = { ack: 1, endStream: 1, endHeaders: 4, padded: 8, priority: 32 } as const;

export interface Frame {
  readonly type: number;
  readonly flags: number;
  readonly stream: number;
  readonly payload: Buffer;
}

export function frame(type: number, flags: number, stream: number, payload: Buffer = Buffer.alloc(0)): Buffer {
  const head = Buffer.alloc(9);
  head.writeUIntBE(payload.length, 0, 3);
  head[3] = type;
  head[4] = flags;
  head.writeUInt32BE(stream, 5);
  return Buffer.concat([head, payload]);
}

/** A header block without compression: every field a literal that is not indexed (RFC 7541 §6.2.2). */
export function headerBlock(fields: readonly (readonly [name: string, value: string])[]): Buffer {
  const text = (value: string) => {
    const bytes = Buffer.from(value, "latin1");
    return Buffer.concat([lengthOf(bytes.length), bytes]);
  };
  return Buffer.concat(fields.flatMap(([name, value]) => [Buffer.of(0), text(name), text(value)]));
}

/** An integer with a prefix of seven bits (RFC 7541 §5.1). */
function lengthOf(value: number): Buffer {
  if (value < 127) return Buffer.of(value);
  const bytes = [127];
  let rest = value - 127;
  for (; rest >= 128; rest = Math.floor(rest / 128)) bytes.push((rest % 128) + 128);
  bytes.push(rest);
  return Buffer.from(bytes);
}

export const REQUEST = [
  [":method", "GET"],
  [":scheme", "https"],
  [":authority", "localhost"],
  [":path", "/"],
] as const;

export function uint32(value: number): Buffer {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32BE(value);
  return bytes;
}

/** A peer that speaks frames, as they are. */
export class FrameClient {
  readonly socket: TLSSocket;
  readonly frames: Frame[] = [];
  isClosed = false;
  private rest: Buffer = Buffer.alloc(0);
  private readonly waiting = new Set<() => void>();

  private constructor(socket: TLSSocket) {
    this.socket = socket;
    socket.on("data", (chunk: Buffer) => this.take(chunk));
    socket.on("error", () => undefined);
    for (const event of ["end", "close"]) {
      socket.on(event, () => {
        this.isClosed = true;
        this.tell();
      });
    }
  }

  /** Connects, sends the preface and settings, and acknowledges nothing. */
  static async open(url: string, settings: Buffer = Buffer.alloc(0)): Promise<FrameClient> {
    const client = await FrameClient.connect(url);
    client.send(Buffer.from("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"), frame(FRAME.settings, 0, 0, settings));
    return client;
  }

  static async connect(url: string): Promise<FrameClient> {
    const { hostname, port } = new URL(url);
    const socket = connectTls({
      host: hostname,
      port: Number(port),
      ca: pem("ca-and-successor"),
      ALPNProtocols: ["h2"],
    });
    socket.setNoDelay();
    onTestFinished(() => void socket.destroy());
    const client = new FrameClient(socket);
    await once(socket, "secureConnect");
    return client;
  }

  send(...frames: readonly Buffer[]): void {
    if (!this.socket.destroyed) this.socket.write(Buffer.concat(frames));
  }

  /** The first frame, past or to come, that `matches`; undefined when the connection closed without. */
  async find(matches: (frame: Frame) => boolean): Promise<Frame | undefined> {
    for (;;) {
      const found = this.frames.find(matches);
      if (found !== undefined || this.isClosed) return found;
      await new Promise<void>((resolve) => this.waiting.add(resolve));
    }
  }

  /** Resolves when the other side has closed the connection. */
  async closed(): Promise<void> {
    while (!this.isClosed) await new Promise<void>((resolve) => this.waiting.add(resolve));
  }

  /** What the connection was closed with; undefined without a GOAWAY. */
  async goaway(): Promise<number | undefined> {
    return (await this.find(({ type }) => type === FRAME.goaway))?.payload.readUInt32BE(4);
  }

  /** What a stream was reset with, or `open` when it was answered whole. */
  async endOf(stream: number): Promise<number | "answered" | undefined> {
    const found = await this.find(
      (each) =>
        each.stream === stream &&
        (each.type === FRAME.reset || (each.type <= FRAME.headers && (each.flags & FLAG.endStream) !== 0)),
    );
    if (found === undefined) return undefined;
    return found.type === FRAME.reset ? found.payload.readUInt32BE(0) : "answered";
  }

  private take(chunk: Buffer): void {
    this.rest = Buffer.concat([this.rest, chunk]);
    for (;;) {
      const length = this.rest.length < 9 ? Infinity : 9 + this.rest.readUIntBE(0, 3);
      if (this.rest.length < length) break;
      const stream = this.rest.readUInt32BE(5) & 0x7fffffff;
      const payload = this.rest.subarray(9, length);
      this.frames.push({ type: this.rest[3]!, flags: this.rest[4]!, stream, payload });
      this.rest = this.rest.subarray(length);
    }
    this.tell();
  }

  private tell(): void {
    for (const resolve of this.waiting) resolve();
    this.waiting.clear();
  }
}

export const CODE = {
  none: constants.NGHTTP2_NO_ERROR,
  protocol: constants.NGHTTP2_PROTOCOL_ERROR,
  refused: constants.NGHTTP2_REFUSED_STREAM,
  cancel: constants.NGHTTP2_CANCEL,
  compression: constants.NGHTTP2_COMPRESSION_ERROR,
  calm: constants.NGHTTP2_ENHANCE_YOUR_CALM,
} as const;
