import type { IncomingMessage, ServerResponse } from "node:http";
import { ClientResponse } from "./backlog.ts";

/** Where Node keeps the text of a head until the first bytes of the body go out with it. */
interface WithHeadText {
  _header?: string | null;
}

/** Node says so where it keeps the connection; for how long is the same for all of a listener. */
const KEPT_ALIVE = "\r\nConnection: keep-alive\r\n";

/**
 * A small answer as it goes out over HTTP/1.1, to be sent to other requests as well, each with its own id. Node checks
 * and joins all fields of every head, which is a tenth of what a small answer costs.
 */
export class AnswerText {
  /** The head before and behind the id. */
  private readonly start: string;
  private readonly rest: string;
  /** Each byte as one character. */
  private readonly body: string;
  private readonly status: number;
  /** Of the wall clock, the one for which `Date` is right. */
  private readonly second: number;

  private constructor([start, rest]: readonly [string, string], body: Buffer, status: number, second: number) {
    this.start = start;
    this.rest = rest;
    this.body = body.toString("latin1");
    this.status = status;
    this.second = second;
  }

  /**
   * The text of an answer whose head was just made by `writeHead`.
   *
   * @param head its fields, the request's id being the first
   * @param now wall-clock time
   * @returns undefined where other requests of this second would get another text
   */
  static of(response: ServerResponse, head: readonly string[], body: Buffer, now: number): AnswerText | undefined {
    const { statusCode, statusMessage } = response;
    const text = (response as WithHeadText)._header;
    if (!(response instanceof ClientResponse) || typeof text !== "string") return undefined;
    const start = `HTTP/1.1 ${statusCode} ${statusMessage}\r\n${head[0]}: `;
    const rest = text.slice(start.length + head[1]!.length);
    if (text !== start + head[1] + rest || !rest.startsWith("\r\n") || !rest.includes(KEPT_ALIVE)) return undefined;
    // Node's clock may be some milliseconds late.
    if (!rest.includes(`\r\nDate: ${new Date(now).toUTCString()}\r\n`)) return undefined;
    return new AnswerText([start, rest], body, statusCode, Math.floor(now / 1_000));
  }

  /**
   * Sends it with another id, where Node would send the same.
   *
   * @returns whether it was sent
   */
  send(request: IncomingMessage, response: ServerResponse, id: string, now: number): boolean {
    const isSame =
      Math.floor(now / 1_000) === this.second &&
      response instanceof ClientResponse &&
      response.shouldKeepAlive &&
      !response.headersSent &&
      request.headers.expect === undefined;
    if (!isSame) return false;
    response.statusCode = this.status;
    (response as WithHeadText)._header = this.start + id + this.rest;
    if (request.method === "HEAD") response.end();
    else response.end(this.body, "latin1");
    return true;
  }
}
