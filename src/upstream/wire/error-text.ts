import { isIP } from "node:net";
import { toPrintable } from "../../words/printable.ts";

/** Longest text taken over from an upstream's error, in characters. */
const MAX_TEXT = 300;

/** So much of a body is looked at: what comes later would be cut off anyway. */
const MAX_LOOKED_AT = 8 * 1024;

/** Whether a body is a page for browsers and not an answer of a registry. */
export function isHtml(contentType: string | undefined, body: Buffer): boolean {
  if (contentType !== undefined && /html/i.test(contentType)) return true;
  return /^\s*<(!doctype|html|head|body)/i.test(body.toString("latin1", 0, 64));
}

const PRIVATE_MARK = "<address>";

/** Between words, be they of a sentence, of JSON or of `name=value`. */
const BETWEEN_WORDS = /([\s"'`{}()<>|=,;]+)/;

/** A name before a value (`host:10.0.0.1`), and the dot at the end of a sentence. */
const WORD = /^((?:[a-z_]+:(?=\S*[.:]))?)(.*?)[.:!?]*$/i;

/** What is clearly a host, with a port or without, or a place in a file of code. */
const PRIVATE_FORMS: readonly RegExp[] = [
  /^[a-z][a-z0-9+.-]*:\/\//i,
  /^(?=.*[a-z])[a-z0-9.-]+:\d{2,5}$/i,
  /^[a-z0-9-]+(?:\.[a-z0-9-]+)+\.[a-z]{2,}$/,
  /^[a-z0-9-]+\.(?:com|net|org|io|dev|cloud|network|internal|local|lan)$/,
  /^[^:]*[/\\][^:]*(?::\d+){1,2}$/,
  /\.(?:java|kt|scala|py|go|rs|[cm]?[jt]s)(?::\d+){1,2}$/,
];

/**
 * The readable text of an error body: without markup, on one line, each piece
 * once, shortened; empty when there is none. Where a registry
 * runs is nobody's business: addresses are left out. Keys (`transfer.instrumentId`) and party ids stay.
 */
export function readErrorText(body: Buffer): string {
  const pieces = body
    .toString("utf8", 0, MAX_LOOKED_AT)
    .replace(/<(script|style)\b[\s\S]*?(<\/\1\s*>|$)/gi, " ")
    .split(/<[^>]*>?/)
    .map((piece) => piece.replace(/\s+/g, " ").trim())
    .filter((piece) => piece !== "");
  // A page says in its title what it says again below.
  const text = toPrintable([...new Set(pieces)].join(" "));
  const short = text.length <= MAX_TEXT ? text : `${text.slice(0, MAX_TEXT).trimEnd()}…`;
  return short.split(BETWEEN_WORDS).map(withoutAddress).join("");
}

function withoutAddress(word: string): string {
  const bare = WORD.exec(word)?.[2] ?? word;
  for (const each of new Set([word, bare])) {
    if (isAddress(each) || PRIVATE_FORMS.some((form) => form.test(each))) return word.replace(each, PRIVATE_MARK);
  }
  return word;
}

/** An IP address, with a port or without. */
function isAddress(word: string): boolean {
  const host = /^\[?([0-9a-f:.]*?)\]?(?::\d{1,5})?$/i.exec(word)?.[1] ?? "";
  return isIP(host) !== 0 || isIP(word) !== 0;
}
