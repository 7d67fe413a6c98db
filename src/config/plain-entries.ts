import { TIER_NAME } from "./clients-schema.ts";
import { forms } from "./forms.ts";

/** One item of a YAML list whose items begin with `- ` at the start of a line. */
export interface Entry {
  readonly text: string;
  /** Where it begins, counted from 1. */
  readonly line: number;
}

/** Where the values of a key stand. */
export interface KeyLines {
  readonly name: number;
  readonly tier: number;
  readonly digest: number;
}

interface PlainKey {
  readonly name: string;
  readonly tier: string;
  readonly digest: string;
  readonly expires?: number | undefined;
  readonly lines: KeyLines;
}

/** What may stand before the list: comments, and the mark of the one document. */
const PREAMBLE = /^(?:[ ]*(?:#.*)?|---[ ]*)\r?$/;

/**
 * The items of the list, each with what follows it up to the next; undefined for a list in another form. In such a list
 * no item can hold a line that begins with `- ` in the first column: whatever belongs to it is further in.
 */
export function listEntries(text: string, most: number): readonly Entry[] | undefined {
  const entries: Entry[] = [];
  let start = 0;
  let line = 1;
  for (; !text.startsWith("- ", start); line++) {
    const end = text.indexOf("\n", start);
    if (end === -1 || !PREAMBLE.test(text.slice(start, end))) return undefined;
    start = end + 1;
  }
  while (start < text.length && entries.length < most) {
    const next = text.indexOf("\n- ", start);
    const end = next === -1 ? text.length : next + 1;
    const entry = text.slice(start, end);
    entries.push({ text: entry, line });
    line += entry.split("\n").length - 1;
    start = end;
  }
  return entries;
}

/** `key: value` where the value can only be text, whatever YAML makes of other words; or nothing but a comment. */
const LINE =
  /^(?:(- | {2})(name|tier|digest|expires): (?:"([^"\\]+)"|([A-Za-z][\w./@+-]*(?::[\w./@+-]+)*)|(\d{4}-[\dT:.Z+-]+))[ ]*(?: #.*)?|[ ]*(?:#.*)?)\r?$/;

const NAME = /^[!-~]([ -~]{0,126}[!-~])?$/;

const TIER = new RegExp(TIER_NAME);

const WORDS = /^(?:true|false|null|off)$/i;

/**
 * The key of an item in the form that `clients new` prints, in any order and with comments; undefined where it is in
 * another form, or anything is wrong with it. Reading a hundred thousand keys as YAML would stop the process for ten
 * seconds.
 */
export function readPlainEntry({ text, line }: Entry): PlainKey | undefined {
  const values: Record<string, string> = {};
  const lines: Record<string, number> = {};
  for (const [index, each] of text.split("\n").entries()) {
    const match = LINE.exec(each);
    if (match === null) return undefined;
    const [, begin, key, quoted, word, time] = match;
    if (key === undefined) continue;
    const value = quoted ?? word ?? time ?? "";
    const isFirst = index === 0;
    if ((begin === "- ") !== isFirst || key in values || (quoted === undefined && WORDS.test(value))) return undefined;
    values[key] = value;
    lines[key] = line + index;
  }
  const { name, tier, digest, expires } = values;
  if (name === undefined || tier === undefined || digest === undefined) return undefined;
  if (!NAME.test(name) || !TIER.test(tier) || forms.digest.findFault(digest) !== undefined) return undefined;
  if (expires !== undefined && forms.time.findFault(expires) !== undefined) return undefined;
  return {
    name,
    tier,
    digest: forms.digest.parse(digest),
    ...(expires === undefined ? {} : { expires: forms.time.parse(expires) }),
    lines: { name: lines.name!, tier: lines.tier!, digest: lines.digest! },
  };
}
