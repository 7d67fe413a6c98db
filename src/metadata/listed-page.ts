import { LRUCache } from "lru-cache";
import { elementSpans, memberSpans } from "../spec/json-scan.ts";

/** A page of a registry's listing, taken apart. */
export interface ListedPage {
  readonly ids: readonly string[];
  /** The upstream's own text of each instrument. */
  readonly texts: readonly string[];
  /** As issued; undefined on the last page. */
  readonly nextPageToken: string | undefined;
}

/** Bytes of page bodies whose parts are kept at hand: hot pages are merged many times. */
const KEPT_BYTES = 16 * 1024 * 1024;

/** Characters of a page token: longer ones fit into no URL, and are kept in too many places. */
const MAX_TOKEN = 4_096;

const kept = new LRUCache<Buffer, ListedPage>({
  maxSize: KEPT_BYTES,
  sizeCalculation: (_page, body) => body.length + 1,
});

/**
 * Takes the body of a page apart, byte for byte. An instrument that a page lists twice counts once: its id names it.
 *
 * @returns what is wrong with the body, where it is no page
 */
export function readListedPage(body: Buffer): ListedPage | string {
  const known = kept.get(body);
  if (known !== undefined) return known;
  const page = takeApart(body.toString("utf8"));
  if (typeof page !== "string") kept.set(body, page);
  return page;
}

function takeApart(text: string): ListedPage | string {
  const json = parse(text);
  if (!isObject(json) || !Array.isArray(json.instruments)) return "it has no list of instruments";
  const listed = memberSpans(text, 0, "instruments");
  const tokens = memberSpans(text, 0, "nextPageToken");
  // Parsers take the last of two, but what the registry meant is anybody's guess.
  if (listed.length !== 1 || tokens.length > 1) return "it gives a key twice";
  const { nextPageToken } = json;
  if (nextPageToken !== undefined && nextPageToken !== null && typeof nextPageToken !== "string") {
    return "its nextPageToken is no string";
  }
  // Half a surrogate pair cannot be part of a URL.
  if (nextPageToken?.isWellFormed() === false) return "its nextPageToken is no text";
  const spans = elementSpans(text, listed[0]!.start);
  const texts = new Map<string, string>();
  for (const [at, instrument] of (json.instruments as unknown[]).entries()) {
    if (!isObject(instrument) || typeof instrument.id !== "string") return "it lists an instrument without an id";
    const { start, end } = spans[at]!;
    if (!texts.has(instrument.id)) texts.set(instrument.id, text.slice(start, end));
  }
  if (nextPageToken !== undefined && nextPageToken !== null && nextPageToken.length > MAX_TOKEN) {
    return `its nextPageToken is longer than ${MAX_TOKEN} characters`;
  }
  return {
    ids: [...texts.keys()],
    texts: ownTexts([...texts.values()], text.length),
    nextPageToken: nextPageToken || undefined,
  };
}

/** A part of a text keeps all of it in memory: where there is little else in it, that costs nothing. */
function ownTexts(texts: readonly string[], whole: number): readonly string[] {
  const listed = texts.reduce((sum, { length }) => sum + length, 0);
  return listed * 2 > whole ? texts : texts.map((text) => Buffer.from(text).toString());
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
