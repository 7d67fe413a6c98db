import type { IncomingMessage } from "node:http";
import type { Socket } from "node:net";
import { LRUCache } from "lru-cache";
import type { CacheAnswer } from "../cache/resource.ts";
import type { Standing } from "../clients/client.ts";
import { isFramedSafely } from "./framing.ts";

/** What a request without a body says, and where it came from. */
export interface RequestHead extends Pick<IncomingMessage, "headers" | "rawHeaders"> {
  readonly method?: string | undefined;
  readonly url?: string | undefined;
  readonly socket: Socket;
}

/** What Node's parser made of the bytes of a head: it makes the same of the same bytes. */
interface ParsedHead extends Pick<RequestHead, "method" | "url" | "headers" | "rawHeaders"> {
  readonly showsCredential: boolean;
}

/** Heads that are remembered, and bytes and fields of one: clients choose all three, and a field takes 100 bytes of its own. */
const MOST_HEADS = 2_000;
const LONGEST_HEAD = 2_048;
const MOST_FIELDS = 40;
/** Those of one connection that show a credential, and connections that have some. */
const MOST_OWN = 4;
const MOST_OWNERS = 1_000;
/** After so many unknown heads in a row only every sixteenth is looked up: there are clients that send none twice. */
const PATIENCE = 32;
const LOOK_AGAIN = 16;

/** Heads of hits, for all connections of a listener: what came before, byte by byte, need not be parsed again. */
export class RepeatedHeads {
  private readonly shared = new LRUCache<string, ParsedHead>({ max: MOST_HEADS });
  /** Those with a credential, which is to be nowhere but with its connection. */
  private readonly own = new LRUCache<HeadReader, Map<string, ParsedHead>>({
    max: MOST_OWNERS,
    dispose: (_heads, owner) => owner.disown(),
  });

  find(text: string, owner: HeadReader): ParsedHead | undefined {
    return this.shared.get(text) ?? this.own.get(owner)?.get(text);
  }

  remember(text: string, head: ParsedHead, owner: HeadReader): void {
    if (!head.showsCredential) {
      this.shared.set(text, head);
      return;
    }
    let heads = this.own.get(owner);
    if (heads === undefined) this.own.set(owner, (heads = new Map()));
    if (heads.size < MOST_OWN) heads.set(text, head);
  }

  /** Its connection is closed. */
  forget(owner: HeadReader): void {
    this.own.delete(owner);
  }
}

/** A request that Node's parser has not seen, for its head is one that it saw before. */
export interface RepeatedRequest extends RequestHead {
  /** What its client's limits said of it, and what the cache has for it, once they were asked: they count it then. */
  standing: Standing | Promise<Standing> | undefined;
  hit: CacheAnswer | undefined;
  /** Answers it, or gives it to Node's parser; once. */
  readonly serve: () => void;
}

/** A head on its way through Node's parser. */
interface PassedHead {
  /** Undefined where it is known already. */
  readonly text: string | undefined;
  /** What was repeated, but not answered. */
  readonly repeated: RepeatedRequest | undefined;
  /** It is the whole of what was read, and began where a request begins. */
  isWhole: boolean;
  /** What is to be remembered of it; undefined before it turns out to be a hit. */
  parsed: ParsedHead | undefined;
}

const PASSED = Symbol("passed head");

interface Passed {
  readonly head: PassedHead;
  readonly reader: HeadReader;
  /** As they came: what names a client is taken out of the request's own. */
  readonly headers: RequestHead["headers"];
}

type PassedRequest = RequestHead & { [PASSED]?: Passed };

export interface HeadReaderOptions {
  readonly heads: RepeatedHeads;
  /** Whether no request waits for its turn on the connection. */
  readonly isQuiet: () => boolean;
  /** Calls `request.serve`, now or at the end of the turn. */
  readonly begin: (request: RepeatedRequest) => void;
  /** Answers a request, or says false, having done nothing. */
  readonly answer: (request: RepeatedRequest) => boolean;
}

/**
 * Reads a connection before Node's parser does. What is byte by byte a head that came before, between two requests, is
 * answered without it, where it can be; everything else goes on to the parser as it came.
 */
export class HeadReader {
  private readonly socket: Socket;
  private readonly options: HeadReaderOptions;
  /** All that the parser was given was whole requests. Not known of what it read before. */
  private isBetweenRequests = false;
  /** The one that was repeated last: to compare bytes is quicker than to look their text up. */
  private latest: { readonly bytes: Buffer; readonly head: ParsedHead } | undefined;
  private unknown = 0;
  /** To be served at the end of this turn. */
  private waiting: RepeatedRequest | undefined;
  /** What ends as heads end and is with the parser just now: what is remembered of it, and the requests made of it so far. */
  private passing: PassedHead | undefined;
  private requests: IncomingMessage[] | undefined;

  /** @param socket HTTP/1.1 is spoken on it, and Node's parser listens to it */
  constructor(socket: Socket, options: HeadReaderOptions) {
    this.socket = socket;
    this.options = options;
    // Else Node's parser reads past the stream.
    socket.on("data", () => undefined);
    socket.push = (chunk: Buffer | null) => this.read(chunk);
  }

  /** Serves what waits for the end of this turn: Node takes the connection for idle, and may be about to close it. */
  serveWaiting(): void {
    this.waiting?.serve();
  }

  /** Notes what the parser made of what it was given. */
  parsed(request: IncomingMessage): void {
    this.requests?.push(request);
    if (this.passing === undefined) return;
    const headers = showsCredential(request) ? { ...request.headers } : request.headers;
    (request as PassedRequest)[PASSED] = { head: this.passing, reader: this, headers };
  }

  private read(chunk: Buffer | null): boolean {
    this.serveWaiting();
    if (chunk === null) return this.pass(chunk);
    if (!endsHead(chunk)) {
      this.isBetweenRequests = false;
      return this.pass(chunk);
    }
    if (!this.isIdle() || chunk.length > LONGEST_HEAD) return this.passHeads(chunk, undefined);
    const { latest } = this;
    if (latest !== undefined && chunk.equals(latest.bytes)) {
      this.unknown = 0;
      this.repeat(chunk, latest.head);
      return true;
    }
    if (!this.isWorthALook()) return this.passHeads(chunk, undefined);
    const text = chunk.toString("latin1");
    const head = this.options.heads.find(text, this);
    if (head === undefined) {
      this.unknown += 1;
      return this.passHeads(chunk, text);
    }
    this.unknown = 0;
    this.latest = { bytes: chunk, head };
    this.repeat(chunk, head);
    return true;
  }

  private repeat(chunk: Buffer, { method, url, headers, rawHeaders, showsCredential }: ParsedHead): void {
    const request: RepeatedRequest = {
      method,
      url,
      // Credentials are taken out of them.
      headers: showsCredential ? { ...headers } : headers,
      rawHeaders,
      socket: this.socket,
      standing: undefined,
      hit: undefined,
      serve: () => {
        if (this.waiting !== request) return;
        this.waiting = undefined;
        if (this.socket.writable && !this.options.answer(request)) this.passHeads(chunk, undefined, request);
      },
    };
    this.waiting = request;
    this.options.begin(request);
  }

  /** Gives the parser what ends as heads end. */
  private passHeads(chunk: Buffer, text: string | undefined, repeated?: RepeatedRequest): boolean {
    const isNoted = text !== undefined || repeated !== undefined;
    const head = isNoted ? { text, repeated, isWhole: false, parsed: undefined } : undefined;
    const requests: IncomingMessage[] = [];
    this.passing = head;
    this.requests = requests;
    const result = this.pass(chunk);
    this.passing = undefined;
    this.requests = undefined;
    const [request, another] = requests;
    // A request that is complete with the last byte: the next byte is the first of another one. Behind a first end, what
    // the parser makes no request of may be anything.
    this.isBetweenRequests = request?.complete === true && another === undefined && endsOnce(chunk);
    if (head !== undefined && this.isBetweenRequests) {
      head.isWhole = true;
      this.remember(head);
    }
    return result;
  }

  /** Remembers a head once it is known to be one, and to be worth it, whichever comes first. */
  remember({ text, isWhole, parsed }: PassedHead): void {
    if (!isWhole || parsed === undefined || text === undefined || this.socket.destroyed) return;
    this.options.heads.remember(text, parsed, this);
  }

  /** Lets go of what shows a credential. */
  disown(): void {
    if (this.latest?.head.showsCredential === true) this.latest = undefined;
  }

  private pass(chunk: Buffer | null): boolean {
    const { socket } = this;
    return (Object.getPrototypeOf(socket) as Socket).push.call(socket, chunk);
  }

  /** Nothing that came before is unanswered, unread or unsent. */
  private isIdle(): boolean {
    const { socket } = this;
    return (
      this.isBetweenRequests &&
      // Node's, of the answer that is being sent; of idle connections it bounds the time.
      (socket as { _httpMessage?: unknown })._httpMessage === null &&
      (socket.timeout ?? 0) > 0 &&
      socket.readableFlowing === true &&
      socket.readableLength === 0 &&
      socket.writable &&
      socket.writableLength === 0 &&
      this.options.isQuiet()
    );
  }

  private isWorthALook(): boolean {
    if (this.unknown < PATIENCE) return true;
    this.unknown += 1;
    return this.unknown % LOOK_AGAIN === 0;
  }
}

/** Remembers the head of a request that was a hit, and whose connection stays open. */
export function rememberHead(request: IncomingMessage): void {
  const passed = (request as PassedRequest)[PASSED];
  if (passed === undefined || !mayRepeat(request)) return;
  const { head, reader, headers } = passed;
  const { method, url, rawHeaders } = request;
  head.parsed = { method, url, headers, rawHeaders, showsCredential: showsCredential({ headers }) };
  reader.remember(head);
}

/** The same request, where it was repeated before Node's parser had to see it after all: what is counted is with that. */
export function repeatedOf(request: RequestHead): RepeatedRequest | undefined {
  return (request as PassedRequest)[PASSED]?.head.repeated;
}

const CR = 13;
const LF = 10;

function endsHead(chunk: Buffer): boolean {
  const { length } = chunk;
  return (
    length > 4 &&
    chunk[length - 1] === LF &&
    chunk[length - 2] === CR &&
    chunk[length - 3] === LF &&
    chunk[length - 4] === CR
  );
}

const END = Buffer.from("\r\n\r\n");

/** Of what ends as heads end. */
function endsOnce(chunk: Buffer): boolean {
  return chunk.indexOf(END) === chunk.length - END.length;
}

/** Whether the same bytes are the same request, and may come again: an id of a request or trace comes once. */
function mayRepeat(request: IncomingMessage): boolean {
  const { method, headers, rawHeaders, httpVersion } = request;
  return (
    httpVersion === "1.1" &&
    // Of others, limits count more than a request.
    (method === "GET" || method === "HEAD") &&
    rawHeaders.length <= 2 * MOST_FIELDS &&
    headers.expect === undefined &&
    headers.upgrade === undefined &&
    headers["x-request-id"] === undefined &&
    headers.traceparent === undefined &&
    isFramedSafely(request)
  );
}

function showsCredential({ headers }: Pick<RequestHead, "headers">): boolean {
  return (
    headers.authorization !== undefined ||
    headers["x-api-key"] !== undefined ||
    headers["proxy-authorization"] !== undefined ||
    headers.cookie !== undefined
  );
}
