import { once } from "node:events";
import { connect, type Socket } from "node:net";
import type { Expected } from "./load-plan.ts";

interface LoadConnectionOptions {
  readonly port: number;
  readonly expected: Expected;
  /** Called when an answer is not as expected, or the connection ends. */
  readonly fail: (why: string) => void;
}

const HEAD_END = "\r\n\r\n";
const LAST_CHUNK = "\r\n0\r\n\r\n";

/** One keep-alive connection that reads answers as cheaply as they can be read without believing them. */
export class LoadConnection {
  readonly connected: Promise<unknown>;
  /** Answers so far whose head held what was expected. */
  holding = 0;
  private readonly socket: Socket;
  private readonly expected: Expected;
  private readonly fail: (why: string) => void;
  private onAnswer: (() => void) | undefined;
  /** What came of a head that is not complete yet. */
  private partialHead = "";
  /** Bytes of the body still to come; undefined between answers, NaN when the answer is chunked. */
  private missing: number | undefined;
  private tail = "";
  private received = 0;
  private isClosed = false;

  constructor({ port, expected, fail }: LoadConnectionOptions) {
    this.expected = expected;
    this.fail = (why) => {
      if (!this.isClosed) fail(why);
    };
    const buffer = Buffer.allocUnsafe(64 * 1024);
    this.socket = connect({
      port,
      host: "127.0.0.1",
      noDelay: true,
      onread: {
        buffer,
        callback: (length) => {
          this.read(buffer.subarray(0, length));
          return true;
        },
      },
    });
    this.socket.on("error", (error) => this.fail(`connection: ${error.message}`));
    this.socket.on("close", () => this.fail("connection closed"));
    this.connected = once(this.socket, "connect");
  }

  /** Sends a request; `onAnswer` is called at the end of its answer. */
  ask(request: string, onAnswer: () => void): void {
    this.onAnswer = onAnswer;
    this.socket.write(request, "latin1");
  }

  close(): void {
    this.isClosed = true;
    this.socket.destroy();
  }

  private read(chunk: Buffer): void {
    if (this.missing !== undefined) return this.readBody(chunk);
    const end = chunk.indexOf(HEAD_END);
    if (end === -1 || this.partialHead !== "") {
      this.partialHead += chunk.toString("latin1");
      const at = this.partialHead.indexOf(HEAD_END);
      if (at === -1) return;
      const rest = Buffer.from(this.partialHead.slice(at + HEAD_END.length), "latin1");
      const head = this.partialHead.slice(0, at + 2);
      this.partialHead = "";
      return this.readHead(head, rest);
    }
    this.readHead(chunk.toString("latin1", 0, end + 2), chunk.subarray(end + HEAD_END.length));
  }

  private readHead(head: string, rest: Buffer): void {
    const { status, bodyLength, headHolds } = this.expected;
    if (!head.startsWith(`HTTP/1.1 ${status} `)) return this.fail(`unexpected answer: ${head}${rest.toString()}`);
    if (headHolds === undefined || head.includes(headHolds)) this.holding += 1;
    this.received = 0;
    if (bodyLength === 0) return this.end();
    const text = /\r\ncontent-length: ([0-9]+)/i.exec(head)?.[1];
    if (text === undefined && bodyLength === undefined) return this.fail(`no length: ${head}`);
    const length = Number(text);
    if (text !== undefined && length !== (bodyLength ?? length)) return this.fail(`body of another length: ${head}`);
    this.missing = length;
    this.tail = "";
    if (rest.length > 0) this.readBody(rest);
  }

  private readBody(chunk: Buffer): void {
    if (Number.isNaN(this.missing)) return this.readChunked(chunk);
    this.missing! -= chunk.length;
    if (this.missing! < 0) this.fail("more bytes than the body has");
    else if (this.missing === 0) this.end();
  }

  /** JSON never holds what a last chunk looks like. */
  private readChunked(chunk: Buffer): void {
    this.received += chunk.length;
    this.tail = (this.tail + chunk.toString("latin1")).slice(-LAST_CHUNK.length);
    if (this.tail !== LAST_CHUNK) return;
    if (this.received < this.expected.bodyLength!) this.fail("fewer bytes than the body has");
    else this.end();
  }

  private end(): void {
    this.missing = undefined;
    const { onAnswer } = this;
    this.onAnswer = undefined;
    if (onAnswer === undefined) this.fail("an answer nobody asked for");
    else onAnswer();
  }
}
