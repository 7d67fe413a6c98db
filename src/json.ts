/**
 * Reads positions out of JSON text that `JSON.parse` has already accepted. Needed where the parsed value has lost what
 * matters: a key given twice, or the exact text of a value.
 */

/** Where a value stands in its text: `text.slice(start, end)`. */
export interface Span {
  readonly start: number;
  readonly end: number;
}

/** Where a member's value stands, and its key. */
export interface MemberSpan extends Span {
  readonly keyStart: number;
}

/** Spans of all values that the object starting at `start` gives under `key`; empty where there is no object. */
export function memberSpans(text: string, start: number, key: string): MemberSpan[] {
  const spans: MemberSpan[] = [];
  let i = skipSpace(text, start);
  if (text[i] !== "{") return spans;
  i = skipSpace(text, i + 1);
  while (text[i] === '"') {
    const keyEnd = skipString(text, i);
    const valueStart = skipSpace(text, skipSpace(text, keyEnd) + 1);
    const valueEnd = skipValue(text, valueStart);
    if (isKey(text, i, keyEnd, key)) spans.push({ keyStart: i, start: valueStart, end: valueEnd });
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

/** Keys to look at, each with those to look at within its value where that is an object. */
export type KeyTree = ReadonlyMap<string, KeyTree>;

/** The keys along all `paths`. */
export function keyTree(paths: readonly (readonly string[])[]): KeyTree {
  type Tree = Map<string, Tree>;
  const root: Tree = new Map();
  for (const path of paths) {
    let tree = root;
    for (const key of path) {
      const known = tree.get(key) ?? new Map();
      tree.set(key, known);
      tree = known;
    }
  }
  return root;
}

/**
 * The way to the first key of `tree` that an object gives twice, from the object at the beginning of `text`; undefined
 * when none is. Looks at each character once, whatever stands in the text.
 */
export function repeatedKey(text: string, tree: KeyTree): readonly string[] | undefined {
  const way: string[] = [];
  const start = skipSpace(text, 0);
  return text.charCodeAt(start) === OPEN_BRACE && skipUnrepeated(text, start, tree, way) === -1 ? way : undefined;
}

/** The index after the object at `start`, or -1 where a key of `tree` occurs twice, to which `way` then leads. */
function skipUnrepeated(text: string, start: number, tree: KeyTree, way: string[]): number {
  const seen = new Set<string>();
  let i = skipSpace(text, start + 1);
  while (text.charCodeAt(i) === QUOTE) {
    const keyEnd = skipString(text, i);
    const valueStart = skipSpace(text, skipSpace(text, keyEnd) + 1);
    const key = findKey(text, i, keyEnd, tree);
    const within = key === undefined ? undefined : tree.get(key);
    let valueEnd: number;
    if (key === undefined || within === undefined) valueEnd = skipValue(text, valueStart);
    else {
      way.push(key);
      if (seen.has(key)) return -1;
      seen.add(key);
      const isOnTheWay = within.size > 0 && text.charCodeAt(valueStart) === OPEN_BRACE;
      valueEnd = isOnTheWay ? skipUnrepeated(text, valueStart, within, way) : skipValue(text, valueStart);
      if (valueEnd === -1) return -1;
      way.pop();
    }
    i = skipSpace(text, valueEnd);
    if (text.charCodeAt(i) !== COMMA) break;
    i = skipSpace(text, i + 1);
  }
  return i + 1;
}

function findKey(text: string, start: number, end: number, tree: KeyTree): string | undefined {
  for (const key of tree.keys()) if (isKey(text, start, end, key)) return key;
  return undefined;
}

/**
 * Whether the string from `start` to `end`, quotes included, means `key`. `{"a":1,"\u0061":2}` gives the key `a` twice:
 * what counts is what the text means, not how it is written.
 */
function isKey(text: string, start: number, end: number, key: string): boolean {
  const length = end - start - 2;
  // Escaped, a character takes six.
  if (length < key.length || length > 6 * key.length) return false;
  let at = start + 1;
  for (let k = 0; k < key.length; k++) {
    const code = text.charCodeAt(at);
    if (code !== BACKSLASH) {
      if (code !== key.charCodeAt(k)) return false;
      at += 1;
    } else if (text.charCodeAt(at + 1) === LOWER_U) {
      if (Number.parseInt(text.slice(at + 2, at + 6), 16) !== key.charCodeAt(k)) return false;
      at += 6;
    } else {
      if (SHORT_ESCAPES[text[at + 1]!] !== key[k]) return false;
      at += 2;
    }
  }
  return at === end - 1;
}

/** The index of the first character from `start` on that is no space of JSON. */
export function skipSpace(text: string, start: number): number {
  let i = start;
  while (isWhitespace(text.charCodeAt(i))) i++;
  return i;
}

/** Whether a character or byte is whitespace of JSON (RFC 8259 §2). */
function isWhitespace(code: number | undefined): boolean {
  return code === 0x20 || code === 0x0a || code === 0x0d || code === 0x09;
}

function skipValue(text: string, start: number): number {
  const first = text[start];
  if (first === '"') return skipString(text, start);
  if (first === "{" || first === "[") return skipNested(text, start);
  let i = start;
  for (; i < text.length; i++) {
    const code = text.charCodeAt(i);
    if (code === COMMA || code === CLOSE_BRACKET || code === CLOSE_BRACE || code <= 0x20) break;
  }
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

/** Characters of a string that are looked at one by one: most are short. */
const SHORT = 24;

/** The index after the closing quote. From quote to quote where it is long: contract ids and blobs are. */
function skipString(text: string, start: number): number {
  let i = start + 1;
  for (;;) {
    for (const near = i + SHORT; i < near;) {
      const code = text.charCodeAt(i);
      if (code === QUOTE) return i + 1;
      i += code === BACKSLASH ? 2 : 1;
    }
    // Here `i` is behind whole characters, so backslashes before it escape nothing that follows.
    const close = text.indexOf('"', i);
    if (close === -1) return text.length;
    if (!isEscaped(text, close, i)) return close + 1;
    i = close + 1;
  }
}

function isEscaped(text: string, at: number, from: number): boolean {
  let before = at - 1;
  while (before >= from && text.charCodeAt(before) === BACKSLASH) before--;
  return (at - before) % 2 === 0;
}

const SHORT_ESCAPES: Readonly<Record<string, string>> = {
  '"': '"',
  "\\": "\\",
  "/": "/",
  b: "\b",
  f: "\f",
  n: "\n",
  r: "\r",
  t: "\t",
};

export const QUOTE = 0x22;
export const BACKSLASH = 0x5c;
export const OPEN_BRACE = 0x7b;
const CLOSE_BRACE = 0x7d;
export const OPEN_BRACKET = 0x5b;
const CLOSE_BRACKET = 0x5d;
export const COMMA = 0x2c;
const COLON = 0x3a;
const LOWER_U = 0x75;

/** What a text is as JSON; undefined where it is not JSON. */
export function parseJson(text: string): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch {
    return undefined;
  }
}

// A byte order mark stays in the text, which then is no JSON (RFC 8259 §8.1).
const decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

/** The JSON object that the bytes hold; undefined where they are not UTF-8, or {@link parseUnrepeated} has no object. */
export function readUnrepeatedObject(bytes: Uint8Array): Record<string, unknown> | undefined {
  let text: string;
  try {
    text = decoder.decode(bytes);
  } catch {
    return undefined;
  }
  const value = parseUnrepeated(text);
  return isObject(value) ? value : undefined;
}

type Reviver = (key: string, value: unknown, context: { readonly source?: string }) => unknown;

/**
 * What a text is as JSON; undefined where it is not JSON, where it is nested thousands deep, and where an object in it gives
 * a key twice: two readers could take different values for it (RFC 7515 §4, RFC 7519 §4).
 *
 * @param number what is to stand for a number, of its text
 */
export function parseUnrepeated(text: string, number: (source: string) => unknown = Number): unknown {
  let keys = 0;
  const revive: Reviver = (_key, value, { source }) => {
    if (isObject(value)) keys += Object.keys(value).length;
    return typeof value === "number" ? number(source ?? String(value)) : value;
  };
  try {
    const json: unknown = JSON.parse(text, revive as (key: string, value: unknown) => unknown);
    return countMembers(text) === keys ? json : undefined;
  } catch {
    return undefined;
  }
}

/** Members that all objects give: outside strings there is one colon for each. */
function countMembers(text: string): number {
  let members = 0;
  for (let i = 0; i < text.length; i++) {
    const code = text.charCodeAt(i);
    if (code === COLON) members += 1;
    else if (code === QUOTE) i = skipString(text, i) - 1;
  }
  return members;
}

/** Whether a parsed value is a JSON object. */
export function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

const LONGEST_QUOTED = 200;

/** A name that came from outside, for a message: shortened, and without what could break out of it or act on a terminal. */
export function quote(name: string): string {
  return JSON.stringify(name.length > LONGEST_QUOTED ? `${name.slice(0, LONGEST_QUOTED)}…` : name);
}
