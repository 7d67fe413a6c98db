import type { MaybePromise } from "../clock.ts";
import { LRUCache } from "lru-cache";
import { digestOf } from "../digest.ts";
import { elementSpans, isObject, memberSpans, parseJson } from "../json.ts";
import { AT_ONCE, type BodyReader, TooCostly } from "./body-reader.ts";

/** What a page says, so that it can be handed from thread to thread. An instrument it lists twice counts once. */
export interface PageParts {
  readonly ids: readonly string[];
  /** What instruments are searched by besides their ids; empty where it is no text, cut where it is long. */
  readonly names: readonly string[];
  readonly symbols: readonly string[];
  /** Which of them say that they are paused (metadata 1.2). */
  readonly paused: readonly boolean[];
  /** Where each instrument begins and ends in the body: two bytes' positions each. */
  readonly spans: Uint32Array<ArrayBuffer>;
  /** As issued; undefined on the last page. */
  readonly nextPageToken: string | undefined;
  /** Stands for which instruments it lists, and their order. */
  readonly digest: string;
}

/** A page of a registry's listing: what it says, over its bytes. */
export class ListedPage {
  readonly body: Buffer;
  readonly parts: PageParts;

  constructor(body: Buffer, parts: PageParts) {
    this.body = body;
    this.parts = parts;
  }

  get ids(): readonly string[] {
    return this.parts.ids;
  }

  get nextPageToken(): string | undefined {
    return this.parts.nextPageToken;
  }

  /** The upstream's own text of the instrument `at`. */
  text(at: number): string {
    return this.bytes(at).toString("utf8");
  }

  /** The same as bytes: a part of the body. */
  bytes(at: number): Buffer {
    const { spans } = this.parts;
    return this.body.subarray(spans[2 * at], spans[2 * at + 1]);
  }

  /** The same page over nothing but its instruments, where they are less than half of its body. */
  compact(): ListedPage {
    const { spans } = this.parts;
    let size = 0;
    for (let i = 0; i < spans.length; i += 2) size += spans[i + 1]! - spans[i]!;
    if (size * 2 > this.body.length) return this;
    const body = Buffer.allocUnsafeSlow(size);
    const moved = new Uint32Array(spans.length);
    let end = 0;
    for (let i = 0; i < spans.length; i += 2) {
      moved[i] = end;
      end += this.body.copy(body, end, spans[i], spans[i + 1]);
      moved[i + 1] = end;
    }
    return new ListedPage(body, { ...this.parts, spans: moved });
  }

  /** The same page over an equal body. */
  over(body: Buffer): ListedPage {
    return body === this.body ? this : new ListedPage(body, this.parts);
  }
}

/** More on one page is no page: a gateway that had to keep the ids of all would be kept busy by one answer. */
const MAX_LISTED = 50_000;

/** Characters of a page token: longer ones fit into no URL, and are kept in too many places. */
const MAX_TOKEN = 4_096;

/** Characters of a name or symbol that are searched. */
const SEARCHED = 1_000;

/** What the body of a page says, or why it is none. */
export function readPage(body: Buffer): PageParts | string {
  const json = parseJson(body.toString("utf8"));
  return json === undefined ? "it is not JSON" : takeApart(body, json);
}

/**
 * Takes a page apart, byte for byte.
 *
 * @param json what `body` says
 * @returns what is wrong with it, where it is no page
 */
export function takeApart(body: Buffer, json: unknown): PageParts | string {
  if (!isObject(json) || !Array.isArray(json.instruments)) return "it has no list of instruments";
  const instruments = json.instruments as readonly unknown[];
  if (instruments.length > MAX_LISTED) return `it lists more than ${MAX_LISTED} instruments`;
  const text = body.toString("utf8");
  const listed = memberSpans(text, 0, "instruments");
  // Parsers take the last of two, but what the registry meant cannot be known.
  if (listed.length !== 1 || memberSpans(text, 0, "nextPageToken").length > 1) return "it gives a key twice";
  const { nextPageToken } = json;
  if (nextPageToken !== undefined && nextPageToken !== null && typeof nextPageToken !== "string") {
    return "its nextPageToken is no string";
  }
  // Half a surrogate pair cannot be part of a URL.
  if (nextPageToken?.isWellFormed() === false) return "its nextPageToken is no text";
  if ((nextPageToken?.length ?? 0) > MAX_TOKEN) return `its nextPageToken is longer than ${MAX_TOKEN} characters`;
  const places = elementSpans(text, listed[0]!.start);
  const toBytes = byteCounter(text, body);
  const found = new Map<string, { readonly name: string; readonly symbol: string; readonly isPaused: boolean }>();
  const spans: number[] = [];
  for (const [at, instrument] of instruments.entries()) {
    if (!isObject(instrument) || typeof instrument.id !== "string") return "it lists an instrument without an id";
    const { id, name, symbol } = instrument;
    if (found.has(id)) continue;
    found.set(id, { name: searched(name), symbol: searched(symbol), isPaused: instrument["paused"] === true });
    spans.push(toBytes(places[at]!.start), toBytes(places[at]!.end));
  }
  const ids = [...found.keys()];
  return {
    ids,
    names: Array.from(found.values(), ({ name }) => name),
    symbols: Array.from(found.values(), ({ symbol }) => symbol),
    paused: Array.from(found.values(), ({ isPaused }) => isPaused),
    spans: Uint32Array.from(spans),
    nextPageToken: nextPageToken || undefined,
    digest: digestOf(JSON.stringify(ids)),
  };
}

/**
 * Stands for what a page says about the pages after it: which instruments it lists, and where it goes on. Supplies that
 * move leave it as it is.
 *
 * @param epoch of the page itself, so that a change reaches every later page through those between
 */
export function chainDigest(
  { digest, nextPageToken }: Pick<PageParts, "digest" | "nextPageToken">,
  epoch: string,
): string {
  return digestOf(JSON.stringify([epoch, nextPageToken, digest]));
}

/** Positions in `text` as positions in `body`; asked for in ascending order, so that it goes through the text once. */
function byteCounter(text: string, body: Buffer): (position: number) => number {
  if (text.length === body.length) return (position) => position;
  let known = 0;
  let bytes = 0;
  return (position) => {
    bytes += Buffer.byteLength(text.slice(known, position));
    known = position;
    return bytes;
  };
}

function searched(value: unknown): string {
  return typeof value === "string" ? value.slice(0, SEARCHED) : "";
}

/** Bytes of pages, and of what was made of them, that are kept at hand: hot pages are merged many times. */
const KEPT_BYTES = 16 * 1024 * 1024;

/** What an instrument's id, name and symbol take besides their characters. */
const PER_INSTRUMENT = 150;

/** Pages of listings taken apart, each once for all who need it. */
export class ListedPages {
  private readonly reader: BodyReader;
  private readonly kept = new LRUCache<Buffer, ListedPage>({
    maxSize: KEPT_BYTES,
    sizeCalculation: ({ ids }, body) => 2 * body.length + PER_INSTRUMENT * ids.length + 1,
  });

  /** Those that are being taken apart by the thread. */
  private readonly reading = new Map<Buffer, Promise<ListedPage | string>>();

  constructor(reader: BodyReader) {
    this.reader = reader;
  }

  /**
   * The page that `body` is, or what is wrong with it; at once where it is known or small.
   * @param source the upstream whose page it is
   * @throws GatewayError 503 (in the promise) when too many bodies wait to be read
   */
  read(body: Buffer, source: string): MaybePromise<ListedPage | string> {
    const known = this.kept.get(body);
    if (known !== undefined) return known;
    if (body.length <= AT_ONCE) return this.take(body, readPage(body));
    return this.reading.get(body) ?? this.readElsewhere(body, source);
  }

  private readElsewhere(body: Buffer, source: string): Promise<ListedPage | string> {
    const page = this.reader
      .read({ kind: "page" }, body, { source })
      .then(
        (parts) => this.take(body, parts),
        (error: unknown) => {
          if (error instanceof TooCostly) return `it ${error.message}`;
          throw error;
        },
      )
      .finally(() => this.reading.delete(body));
    this.reading.set(body, page);
    return page;
  }

  /** Notes what was found out about `body` when it was received. */
  take(body: Buffer, parts: PageParts | string): ListedPage | string {
    return typeof parts === "string" ? parts : this.keep(new ListedPage(body, parts));
  }

  /** Notes that an equal body stands for the page as well. */
  keep(page: ListedPage): ListedPage {
    this.kept.set(page.body, page);
    return page;
  }
}
