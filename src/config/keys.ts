import { type TProperties, type TSchema, type TUnsafe, Type } from "typebox";
import type { Duration } from "../clock.ts";
import { DURATION_PATTERN, formatDuration, formatSize, parseDuration, parseSize, SIZE_PATTERN } from "../units.ts";

/** Notes of the schema about a key, beyond JSON Schema's own keywords: reader, printer, diff and generators work from it. */
export interface Notes {
  /** Default as it is written in the file. */
  readonly default?: unknown;
  /** Says what a value must be, as the end of `must be …`. */
  readonly expected?: string;
  /** The value that `off` and `false` stand for. Without one, an optional key is absent then. */
  readonly off?: unknown;
  /** Never repeated. `login`: a URL of which user and password are not. */
  readonly secret?: true | "login";
  /** A path, absolute once read; says what is wrong with the text of the file. */
  readonly file?: (text: string) => string | undefined;
  /** Keys that are absent stay so: they are taken from elsewhere. */
  readonly inherits?: true;
  /** The value of a text that passed, and the text of a value; without them, both are the same. */
  readonly parse?: (text: string) => unknown;
  readonly write?: (value: never) => string;
}

/** A schema seen as data. */
export interface Schema extends Notes {
  readonly description?: string;
  readonly type?: string;
  readonly properties?: Readonly<Record<string, Schema>>;
  readonly patternProperties?: Readonly<Record<string, Schema>>;
  readonly items?: Schema;
  readonly enum?: readonly string[];
  readonly minItems?: number;
  readonly maxItems?: number;
}

/** Requests in any window of `per`. Written `120/1m`. */
export interface Rate {
  readonly requests: number;
  readonly per: Duration;
}

export function text(description: string, notes: Notes & { readonly pattern?: string } = {}) {
  return Type.String({ minLength: 1, maxLength: 1_000, expected: "text", description, ...notes });
}

/** Text of which something may be wrong that no pattern can say: `findFault` gives the rest of a sentence about it. */
export function checked(findFault: (text: string) => string | undefined, description: string, notes: Notes = {}) {
  return Type.Refine(
    text(description, notes),
    (value) => typeof value !== "string" || findFault(value) === undefined,
    (value) => findFault(value) ?? "",
  );
}

/** The name of a header field, in lower case once read. */
export function fieldName(description: string, notes: Notes = {}) {
  const form = { pattern: "^[A-Za-z0-9_!#$%&'*+.^`|~-]+$", expected: "the name of a header field" };
  return text(description, { ...form, parse: (name) => name.toLowerCase(), ...notes });
}

/** A secret for a header field, where other characters than these break the request or are mangled (RFC 9110 §5.5). */
export function secret(description: string, least = 1) {
  const expected = `one line of ASCII text${least === 1 ? "" : ` of ${least} characters at least`}`;
  return Type.String({ pattern: "^[ -~]+$", minLength: least, expected, description, secret: true });
}

export function password(description: string) {
  return text(description, { pattern: String.raw`^[^\x00-\x1f\x7f]+$`, expected: "one line of text", secret: true });
}

/** The path of a file; `findFault` gives the rest of a sentence about it from its text. */
export function file(description: string, findFault = (_text: string): string | undefined => undefined) {
  return text(description, { file: findFault, expected: "the path of a file" });
}

export function flag(byDefault: boolean, description: string) {
  return Type.Boolean({ default: byDefault, expected: "true or false", description });
}

export function count(
  byDefault: number | undefined,
  [minimum = 0, maximum = 0]: readonly number[],
  description: string,
) {
  const expected = `a whole number from ${minimum} to ${maximum}`;
  return Type.Integer({ default: byDefault, minimum, maximum, expected, description });
}

/** A number from 0 to 1. */
export function share(description: string) {
  return Type.Number({ default: 0, minimum: 0, maximum: 1, expected: "a number from 0 to 1", description });
}

/** One of a few words; the first is the default unless `notes` say otherwise. */
export function choice<const Words extends readonly string[]>(words: Words, description: string, notes: Notes = {}) {
  const expected = words.join(" or ");
  return Type.Unsafe<Words[number]>({ enum: words, default: words[0], expected, description, ...notes });
}

interface Notation<Value> {
  readonly pattern: string;
  readonly expected: string;
  /** Undefined: the text is none, or out of range. */
  readonly parse: (text: string) => Value | undefined;
  readonly write: (value: Value) => string;
}

function notation<Value>(form: Notation<Value>, description: string, byDefault: string | undefined) {
  const findFault = (value: string) => (form.parse(value) === undefined ? `must be ${form.expected}` : undefined);
  return checked(findFault, description, { ...form, default: byDefault }) as unknown as TUnsafe<Value>;
}

function atLeast(least: number, value: number | undefined): number | undefined {
  return value !== undefined && value >= least ? value : undefined;
}

export function duration(byDefault: string, description: string, least = 0) {
  const expected = `a duration such as 250ms, 30s or 10m${least === 0 ? "" : `, at least ${formatDuration(least)}`}`;
  const parse = (text: string) => atLeast(least, parseDuration(text));
  return notation({ pattern: DURATION_PATTERN, expected, parse, write: formatDuration }, description, byDefault);
}

/** Bytes, one at least. */
export function size(byDefault: string, description: string) {
  const expected = "a size such as 64KiB or 1MiB, at least 1B";
  const parse = (text: string) => atLeast(1, parseSize(text));
  return notation({ pattern: SIZE_PATTERN, expected, parse, write: formatSize }, description, byDefault);
}

const DAY: Duration = 86_400_000;
const RATE = new RegExp(`^([0-9]{1,9})/(${DURATION_PATTERN.slice(1, -1)})$`);

export function rate(description: string, byDefault?: string) {
  const expected = "a rate such as 120/1m: at least one, in a window of 1ms to 24h";
  const parse = (text: string): Rate | undefined => {
    const [, requests = "", window = ""] = RATE.exec(text) ?? [];
    const per = parseDuration(window) ?? 0;
    return Number(requests) > 0 && per > 0 && per <= DAY ? { requests: Number(requests), per } : undefined;
  };
  const write = ({ requests, per }: Rate) => `${requests}/${formatDuration(per)}`;
  return notation({ pattern: RATE.source, expected, parse, write }, description, byDefault);
}

/** A list that may be empty, and is so by default; `what` is in it. */
export function list<Item extends TSchema>(what: string, item: Item, description: string, notes: Notes = {}) {
  return Type.Array(item, { default: [], maxItems: 200, expected: `a list of ${what}`, description, ...notes });
}

/** A list that is not empty. */
export function some<Item extends TSchema>(what: string, item: Item, description: string, maxItems = 200) {
  return Type.Array(item, { minItems: 1, maxItems, expected: `a list of ${what}`, description });
}

/** A group of keys. */
export function group<Keys extends TProperties>(description: string, keys: Keys, notes: Notes = {}) {
  return Type.Object(keys, { additionalProperties: false, expected: "a group of keys", description, ...notes });
}

/** A key that takes `off`, and is off unless it has a default. */
export const off = Type.Optional;
