import { elementsAt, isObject, membersAt } from "../json.ts";

/** An instrument as a page lists it: what it is found by, and where its own text stands in the body. */
export interface ListedInstrument {
  readonly id: string;
  /** Empty where it is no text, cut where it is long. */
  readonly name: string;
  readonly symbol: string;
  /** Bytes `start` to `end` of the page's body. */
  readonly start: number;
  readonly end: number;
}

/** A page of a registry's listing, taken apart over its bytes. An instrument that it lists twice counts once. */
export interface ListedPage {
  readonly body: Buffer;
  readonly instruments: readonly ListedInstrument[];
  /** As issued; undefined on the last page. */
  readonly nextPageToken: string | undefined;
}

/** Instruments of a page at most: to take more apart would keep the gateway busy for too long. */
const MOST_LISTED = 50_000;
/** Characters of a page token: longer ones fit into no URL. */
const LONGEST_TOKEN = 4_096;
/** Characters of a name or symbol that are searched. */
const SEARCHED = 1_000;

/**
 * Takes a page apart.
 *
 * @param json `body`, parsed
 * @returns where it is no page, what is wrong with it: `it lists …`
 */
export function readPage(body: Buffer, json: unknown): ListedPage | string {
  if (!isObject(json) || !Array.isArray(json["instruments"])) return "it has no list of instruments";
  const listed = json["instruments"] as readonly unknown[];
  if (listed.length > MOST_LISTED) return `it lists more than ${MOST_LISTED} instruments`;
  const nextPageToken = readToken(json["nextPageToken"]);
  if (typeof nextPageToken === "object") return nextPageToken.problem;
  const text = body.toString("utf8");
  const members = [...membersAt(text, text.startsWith("\ufeff") ? 1 : 0)];
  const ofKey = (key: string) => members.filter((member) => member.key === key);
  const [list, second] = ofKey("instruments");
  // Parsers take the last of two, but what the registry meant cannot be known.
  if (list === undefined || second !== undefined || ofKey("nextPageToken").length > 1) return "it gives a key twice";
  const places = [...elementsAt(text, list.start)];
  const toBytes = byteCounter(text, body);
  const instruments = new Map<string, ListedInstrument>();
  for (const [at, instrument] of listed.entries()) {
    if (!isObject(instrument) || typeof instrument["id"] !== "string") return "it lists an instrument without an id";
    const { id, name, symbol } = instrument as { id: string; [key: string]: unknown };
    if (instruments.has(id)) continue;
    const start = toBytes(places[at]!.start);
    const end = toBytes(places[at]!.end);
    instruments.set(id, { id, name: searched(name), symbol: searched(symbol), start, end });
  }
  return { body, instruments: [...instruments.values()], nextPageToken };
}

/** The registry's own bytes of an instrument: a part of the page's body. */
export function instrumentBytes({ body }: ListedPage, { start, end }: ListedInstrument): Buffer {
  return body.subarray(start, end);
}

function readToken(token: unknown): string | undefined | { readonly problem: string } {
  if (token === undefined || token === null || token === "") return undefined;
  if (typeof token !== "string") return { problem: "its nextPageToken is no string" };
  // Half a surrogate pair cannot be part of a URL.
  if (!token.isWellFormed()) return { problem: "its nextPageToken is no text" };
  return token.length > LONGEST_TOKEN ? { problem: `its nextPageToken has over ${LONGEST_TOKEN} characters` } : token;
}

/** Makes a function of a position in `text` that gives the one in `body`. Positions have to ascend: the text is read once. */
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
