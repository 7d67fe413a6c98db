import type { ServerResponse } from "node:http";
import { ClientResponse } from "./backlog.ts";

/** Where Node keeps the text of a head until the first bytes of the body go out with it. */
interface WithHeadText {
  _header?: string | null;
}

/** What Node adds to a head of HTTP/1.1 where it keeps the connection; the second part is the same for all of a listener. */
const ADDED = /^(Date: [^\r]*\r\n)?(Connection: keep-alive\r\n(?:Keep-Alive: [^\r]*\r\n)?\r\n)$/;

/**
 * Which entries of a head's list, names and values in turns, may be other ones in the next: so many first and last ones.
 * The very first field is another one in each.
 */
export interface Varying {
  readonly first: number;
  readonly last: number;
}

interface Parts {
  readonly status: number;
  /** The status line, and the name of the first field. */
  readonly start: string;
  readonly varying: Varying;
  /** Of the fields between. */
  readonly middle: string;
  /** Node adds the date: the list has none. */
  readonly isDated: boolean;
  readonly added: string;
}

/**
 * A head as it goes out over HTTP/1.1, to be sent under other answers as well. Node checks and joins all fields of every
 * head, which is a tenth and more of what a small answer costs.
 */
export class HeadText {
  private readonly parts: Parts;
  /** Of the first fields but the very first one; undefined where they have changed. */
  private front: string | undefined;
  /** The last fields, and what Node adds; undefined where they have changed. */
  private end: string | undefined;
  /** Of the wall clock, the one for which its date is right. */
  private second = Number.NaN;

  private constructor(parts: Parts) {
    this.parts = parts;
  }

  /**
   * The text of a head that was just made by `writeHead`.
   *
   * @param varying has to be made of fields of our own, fit to be sent as they are
   * @returns undefined where Node made something else of it than it does as a rule
   */
  static of(response: ServerResponse, head: readonly string[], varying: Varying): HeadText | undefined {
    const { statusCode: status, statusMessage } = response;
    const text = (response as WithHeadText)._header;
    if (!(response instanceof ClientResponse) || typeof text !== "string") return undefined;
    const start = `HTTP/1.1 ${status} ${statusMessage}\r\n${head[0]}: `;
    const end = head.length - varying.last;
    const middle = linesOf(head, varying.first, end);
    const own = `${start}${head[1]}\r\n${linesOf(head, 2, varying.first)}${middle}${linesOf(head, end, head.length)}`;
    const match = text.startsWith(own) ? ADDED.exec(text.slice(own.length)) : null;
    if (match === null) return undefined;
    const [, date, added] = match;
    return new HeadText({
      status,
      start,
      varying,
      middle: onePiece(middle),
      isDated: date !== undefined,
      added: added!,
    });
  }

  firstChanged(): void {
    this.front = undefined;
  }

  lastChanged(): void {
    this.end = undefined;
  }

  /**
   * Makes it the head of a response, with what varies taken from `head`, where Node would make the same of that list.
   *
   * @param now wall-clock time
   * @returns whether it did
   */
  writeTo(response: ServerResponse, head: readonly string[], now: number): boolean {
    const { httpVersion, headers } = response.req;
    const isSame =
      response instanceof ClientResponse &&
      response.shouldKeepAlive &&
      !response.headersSent &&
      // Of HTTP/1.0, Node closes connections whose answers have no length.
      httpVersion === "1.1" &&
      headers.expect === undefined;
    if (!isSame) return false;
    response.statusCode = this.parts.status;
    (response as WithHeadText)._header = this.text(head, now);
    return true;
  }

  /** The head with what varies taken from `head`, of an answer whose connection stays open. */
  text(head: readonly string[], now: number): string {
    const { start, varying, middle } = this.parts;
    this.front ??= `\r\n${linesOf(head, 2, varying.first)}`;
    return start + head[1]! + this.front + middle + this.endAt(head, now);
  }

  private endAt(head: readonly string[], now: number): string {
    const { varying, isDated, added } = this.parts;
    const second = isDated ? Math.floor(now / 1_000) : 0;
    if (this.end !== undefined && second === this.second) return this.end;
    this.second = second;
    // RFC 9110 §6.6.1: when the answer was made.
    const date = isDated ? `Date: ${new Date(now).toUTCString()}\r\n` : "";
    this.end = onePiece(linesOf(head, head.length - varying.last, head.length) + date + added);
    return this.end;
  }
}

function linesOf(head: readonly string[], from: number, to: number): string {
  let text = "";
  for (let i = from; i < to; i += 2) text += `${head[i]}: ${head[i + 1]}\r\n`;
  return text;
}

/** Text that was looked into is in one piece; else it would be read piece by piece each time. */
function onePiece(text: string): string {
  text.charCodeAt(0);
  return text;
}
