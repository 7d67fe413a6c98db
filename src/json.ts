/**
 * Text of others: where things stand in JSON, and how it may stand in a message. Positions are in text that `JSON.parse` has
 * already accepted, and needed where the parsed value has lost what matters: a key given twice, or the exact text of a value.
 * Finding them looks at each character once.
 */

/** Place of a value in its text: `text.slice(start, end)`. */
interface Span {
  readonly start: number;
  readonly end: number;
}

/** A member of an object: its decoded key, and where its value stands. */
export interface Member extends Span {
  readonly key: string;
}

/** The members of the object that begins at `start`, in order; none where there is no object. */
export function* membersAt(text: string, start: number): Generator<Member> {
  let i = skipSpace(text, start);
  if (text[i] !== "{") return;
  i = skipSpace(text, i + 1);
  while (text[i] === '"') {
    const keyEnd = skipString(text, i);
    const valueStart = skipSpace(text, skipSpace(text, keyEnd) + 1);
    const valueEnd = skipValue(text, valueStart);
    yield { key: keyOf(text.slice(i, keyEnd)), start: valueStart, end: valueEnd };
    i = skipSpace(text, valueEnd);
    if (text[i] !== ",") return;
    i = skipSpace(text, i + 1);
  }
}

/** Decodes a key. Most are what stands between their quotes. */
function keyOf(quoted: string): string {
  return quoted.includes("\\") ? (JSON.parse(quoted) as string) : quoted.slice(1, -1);
}

/** The elements of the array that begins at `start`, in order; none where there is no array. */
export function* elementsAt(text: string, start: number): Generator<Span> {
  let i = skipSpace(text, start);
  if (text[i] !== "[") return;
  i = skipSpace(text, i + 1);
  while (i < text.length && text[i] !== "]") {
    const end = skipValue(text, i);
    yield { start: i, end };
    i = skipSpace(text, end);
    if (text[i] === ",") i = skipSpace(text, i + 1);
  }
}

/** The index of the first character from `start` on that is no whitespace of JSON (RFC 8259 §2). */
function skipSpace(text: string, start: number): number {
  let i = start;
  while (text[i] === " " || text[i] === "\n" || text[i] === "\r" || text[i] === "\t") i += 1;
  return i;
}

function skipValue(text: string, start: number): number {
  const first = text[start];
  if (first === '"') return skipString(text, start);
  if (first === "{" || first === "[") return skipNested(text, start);
  let i = start;
  while (i < text.length && !",]} \n\r\t".includes(text[i]!)) i += 1;
  return i;
}

function skipNested(text: string, start: number): number {
  let depth = 0;
  for (let i = start; i < text.length; i += 1) {
    const character = text[i];
    if (character === '"') i = skipString(text, i) - 1;
    else if (character === "{" || character === "[") depth += 1;
    else if (character === "}" || character === "]") {
      depth -= 1;
      if (depth === 0) return i + 1;
    }
  }
  return text.length;
}

/** The index after the closing quote. */
function skipString(text: string, start: number): number {
  for (let close = text.indexOf('"', start + 1); close !== -1; close = text.indexOf('"', close + 1)) {
    let before = close - 1;
    while (text[before] === "\\") before -= 1;
    if ((close - before) % 2 === 1) return close + 1;
  }
  return text.length;
}

/** The value that `text` stands for as JSON; undefined where it is not JSON. */
export function parseJson(text: string): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch {
    return undefined;
  }
}

/** Whether a parsed value is a JSON object. */
export function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

const MAX_QUOTED = 200;

/** Characters that act on a terminal or turn the direction of text (Unicode categories Cc, Cf and line separators). */
// oxlint-disable-next-line no-control-regex
const UNSAFE = /[\u0000-\u001f\u007f-\u009f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]/g;

/** A text of others for a message or a log line: cut first, then without what could act on a terminal. */
export function printable(text: string, most = MAX_QUOTED): string {
  const cut = text.length > most ? `${text.slice(0, most)}…` : text;
  return cut.replaceAll(UNSAFE, (unsafe) => `\\u${unsafe.charCodeAt(0).toString(16).padStart(4, "0")}`);
}

/** A name of others for a message: {@link printable}, in quotes. */
export function quote(name: string): string {
  return `"${printable(name).replaceAll('"', "'")}"`;
}
