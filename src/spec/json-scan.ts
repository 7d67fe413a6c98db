/**
 * Reads positions out of JSON text that `JSON.parse` has already accepted. Needed where the parsed value has lost what
 * matters: a key given twice, or the exact text of a value.
 */

/** Where a value stands in its text: `text.slice(start, end)`. */
export interface Span {
  readonly start: number;
  readonly end: number;
}

/** Spans of all values that the object starting at `start` gives under `key`; empty where there is no object. */
export function memberSpans(text: string, start: number, key: string): Span[] {
  const spans: Span[] = [];
  let i = skipSpace(text, start);
  if (text[i] !== "{") return spans;
  i = skipSpace(text, i + 1);
  while (text[i] === '"') {
    const keyEnd = skipString(text, i);
    const valueStart = skipSpace(text, skipSpace(text, keyEnd) + 1);
    const valueEnd = skipValue(text, valueStart);
    if (isKey(text.slice(i, keyEnd), key)) spans.push({ start: valueStart, end: valueEnd });
    i = skipSpace(text, valueEnd);
    if (text[i] !== ",") break;
    i = skipSpace(text, i + 1);
  }
  return spans;
}

/** Spans of the elements of the array starting at `start`; empty where there is no array. */
export function elementSpans(text: string, start: number): Span[] {
  const spans: Span[] = [];
  let i = skipSpace(text, start);
  if (text[i] !== "[") return spans;
  i = skipSpace(text, i + 1);
  while (i < text.length && text[i] !== "]") {
    const end = skipValue(text, i);
    spans.push({ start: i, end });
    i = skipSpace(text, end);
    if (text[i] === ",") i = skipSpace(text, i + 1);
  }
  return spans;
}

/** The first key along `path` (from the object at the beginning of `text`) that occurs twice, or undefined. */
export function repeatedKey(text: string, path: readonly string[]): string | undefined {
  let start = 0;
  for (const key of path) {
    const spans = memberSpans(text, start, key);
    if (spans.length > 1) return key;
    if (spans.length === 0) return undefined;
    start = spans[0]!.start;
  }
  return undefined;
}

/** `{"a":1,"\u0061":2}` gives the key `a` twice: compare what the text means, not how it is written. */
function isKey(quoted: string, key: string): boolean {
  if (!quoted.includes("\\")) return quoted.length === key.length + 2 && quoted.startsWith(key, 1);
  return JSON.parse(quoted) === key;
}

function skipSpace(text: string, start: number): number {
  let i = start;
  for (; i < text.length; i++) {
    const code = text.charCodeAt(i);
    if (code !== 0x20 && code !== 0x0a && code !== 0x0d && code !== 0x09) break;
  }
  return i;
}

function skipValue(text: string, start: number): number {
  const first = text[start];
  if (first === '"') return skipString(text, start);
  if (first === "{" || first === "[") return skipNested(text, start);
  let i = start;
  while (i < text.length && !",]} \n\r\t".includes(text[i]!)) i++;
  return i;
}

function skipNested(text: string, start: number): number {
  let depth = 0;
  let i = start;
  while (i < text.length) {
    const code = text.charCodeAt(i);
    if (code === QUOTE) {
      i = skipString(text, i);
      continue;
    }
    i++;
    if (code === OPEN_BRACE || code === OPEN_BRACKET) depth++;
    else if ((code === CLOSE_BRACE || code === CLOSE_BRACKET) && --depth === 0) break;
  }
  return i;
}

/** The index after the closing quote. Jumps from quote to quote: contract ids and blobs are long. */
function skipString(text: string, start: number): number {
  let close = text.indexOf('"', start + 1);
  while (close !== -1 && isEscaped(text, close)) close = text.indexOf('"', close + 1);
  return close === -1 ? text.length : close + 1;
}

function isEscaped(text: string, at: number): boolean {
  let backslashes = 0;
  while (text.charCodeAt(at - 1 - backslashes) === BACKSLASH) backslashes++;
  return backslashes % 2 === 1;
}

const QUOTE = 0x22;
const BACKSLASH = 0x5c;
const OPEN_BRACE = 0x7b;
const CLOSE_BRACE = 0x7d;
const OPEN_BRACKET = 0x5b;
const CLOSE_BRACKET = 0x5d;
