import type { ServerResponse } from "node:http";
import { ClientResponse } from "./backlog.ts";

/** Where Node keeps the text of a head until the first bytes of the body go out with it. */
interface WithHeadText {
  _header?: string | null;
}

/** Node says so where it keeps the connection; for how long is the same for all of a listener. */
const KEPT_ALIVE = "\r\nConnection: keep-alive\r\n";

const DATE = /\r\nDate: ([^\r]*)/;

interface Parts {
  readonly status: number;
  readonly statusLine: string;
  /** How many of the first entries of the list are written anew each time. */
  readonly varying: number;
  /** What follows them. */
  readonly rest: string;
  /** Of the wall clock, the one for which `Date` is right. */
  readonly second: number;
}

/**
 * A head as it goes out over HTTP/1.1, to be sent under other answers of its second as well. Node checks and joins all
 * fields of every head, which is a tenth of what a small answer costs.
 */
export class HeadText {
  private readonly parts: Parts;

  private constructor(parts: Parts) {
    this.parts = parts;
  }

  /**
   * The text of a head that was just made by `writeHead`.
   *
   * @param head names and values in turns
   * @param varying how many of the first entries may differ in other answers: fields of our own, fit to be sent as they
   *   are
   * @param now wall-clock time
   * @returns undefined where other answers of this second would get another text
   */
  static of(response: ServerResponse, head: readonly string[], varying: number, now: number): HeadText | undefined {
    const { statusCode, statusMessage } = response;
    const text = (response as WithHeadText)._header;
    if (!(response instanceof ClientResponse) || typeof text !== "string") return undefined;
    const statusLine = `HTTP/1.1 ${statusCode} ${statusMessage}\r\n`;
    const begin = beginOf(statusLine, head, varying);
    if (!text.startsWith(begin)) return undefined;
    const rest = text.slice(begin.length);
    // Node's own; its clock may be some milliseconds late. A registry's date is in the list, in small letters.
    const date = DATE.exec(rest)?.[1];
    const isRight = date === undefined || date === new Date(now).toUTCString();
    if (!isRight || !rest.includes(KEPT_ALIVE)) return undefined;
    return new HeadText({ status: statusCode, statusLine, varying, rest, second: Math.floor(now / 1_000) });
  }

  /**
   * Makes it the head of a response, with the varying entries of `head`, where Node would make the same of that list.
   *
   * @param now wall-clock time
   * @returns whether it did
   */
  writeTo(response: ServerResponse, head: readonly string[], now: number): boolean {
    const { status, statusLine, varying, rest, second } = this.parts;
    const { httpVersion, headers } = response.req;
    const isSame =
      Math.floor(now / 1_000) === second &&
      response instanceof ClientResponse &&
      response.shouldKeepAlive &&
      !response.headersSent &&
      // Of HTTP/1.0, Node closes connections whose answers have no length.
      httpVersion === "1.1" &&
      headers.expect === undefined;
    if (!isSame) return false;
    response.statusCode = status;
    (response as WithHeadText)._header = beginOf(statusLine, head, varying) + rest;
    return true;
  }
}

function beginOf(statusLine: string, head: readonly string[], varying: number): string {
  let text = statusLine;
  for (let i = 0; i < varying; i += 2) text += `${head[i]}: ${head[i + 1]}\r\n`;
  return text;
}
