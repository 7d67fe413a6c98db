import { parseDictionary, Token } from "structured-headers";
import type { Duration } from "../../clock.ts";
import { DECIDING_FIELDS, type Fields, fieldValue, fieldValues, OWN_TARGETED_FIELD } from "../../fields.ts";

/** RFC 9111 §1.2.2: the largest delta-seconds a cache has to represent; anything above counts as it. */
export const MAX_DELTA_SECONDS = 2 ** 31;

/**
 * The directives of one field by lower-case name, each with its arguments in order; undefined: without argument. What is
 * not of the grammar is kept as an argument no directive accepts, so that it counts as malformed and not as absent.
 */
export type DirectiveMap = ReadonlyMap<string, readonly (string | undefined)[]>;

/**
 * `no-cache` and `private`: false: absent; true: the whole response; a list: these fields of it (RFC 9111 §5.2.2.4,
 * §5.2.2.7).
 */
type FieldScope = boolean | readonly string[];

/** The response directives the gateway knows (RFC 9111 §5.2.2, RFC 5861); durations are in milliseconds. */
export interface ResponseDirectives {
  readonly noStore: boolean;
  readonly noCache: FieldScope;
  readonly private: FieldScope;
  readonly public: boolean;
  readonly mustRevalidate: boolean;
  readonly proxyRevalidate: boolean;
  readonly mustUnderstand: boolean;
  readonly noTransform: boolean;
  readonly maxAge: Duration | undefined;
  readonly sMaxage: Duration | undefined;
  readonly staleWhileRevalidate: Duration | undefined;
  readonly staleIfError: Duration | undefined;
}

const MEMBER = /^([!#$%&'*+.^_`|~0-9A-Za-z-]+)([^]*)$/;
const QUOTED_STRING = /^"((?:[^"\\]|\\[^])*)"$/;
const DIGITS = /^[0-9]+$/;
const DECIMAL = /^-?[0-9]+\./;
const FIELD_NAME = /^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/;

/** Reads the values of all `Cache-Control` lines of a message (RFC 9111 §5.2). */
export function parseDirectives(lines: readonly string[]): DirectiveMap {
  const directives = new Map<string, (string | undefined)[]>();
  for (const member of lines.flatMap(splitList)) {
    const match = MEMBER.exec(member);
    if (match === null) continue;
    const name = match[1]!.toLowerCase();
    const values = directives.get(name);
    const value = argumentOf(match[2]!);
    if (values === undefined) directives.set(name, [value]);
    else values.push(value);
  }
  return directives;
}

/** The known response directives among all that a field has. */
export function responseDirectives(directives: DirectiveMap): ResponseDirectives {
  return {
    noStore: directives.has("no-store"),
    noCache: fieldScope(directives.get("no-cache")),
    private: fieldScope(directives.get("private")),
    public: directives.has("public"),
    mustRevalidate: directives.has("must-revalidate"),
    proxyRevalidate: directives.has("proxy-revalidate"),
    mustUnderstand: directives.has("must-understand"),
    noTransform: directives.has("no-transform"),
    maxAge: shortest(directives.get("max-age")),
    sMaxage: shortest(directives.get("s-maxage")),
    staleWhileRevalidate: shortest(directives.get("stale-while-revalidate")),
    staleIfError: shortest(directives.get("stale-if-error")),
  };
}

/** Delta-seconds as milliseconds, clamped; undefined when it is none (RFC 9111 §1.2.2). */
export function parseDeltaSeconds(text: string): Duration | undefined {
  return DIGITS.test(text) ? Math.min(Number(text), MAX_DELTA_SECONDS) * 1000 : undefined;
}

/**
 * The shortest of the values of a directive; 0 when one is malformed or missing (RFC 9111 §4.2.1: of repeated values the
 * first is used or the response is stale, and invalid freshness is better taken as stale: the shortest is never fresher
 * than either rule allows).
 */
function shortest(values: readonly (string | undefined)[] | undefined): Duration | undefined {
  if (values === undefined) return undefined;
  return Math.min(...values.map((value) => (value === undefined ? 0 : (parseDeltaSeconds(value) ?? 0))));
}

/** Without these nobody could say what the bytes of an answer are. */
const SAYING_WHAT_IT_IS: ReadonlySet<string> = new Set(["content-encoding", "content-range", "content-type"]);

/**
 * The unqualified form, alone or besides qualified ones, is the stricter and wins; so does what names no valid field, or
 * one without which a cache, or its client, could not say what it holds.
 */
function fieldScope(values: readonly (string | undefined)[] | undefined): FieldScope {
  if (values === undefined) return false;
  const names: string[] = [];
  for (const value of values) {
    const listed = value?.split(",").map((name) => name.trim().toLowerCase()) ?? [];
    if (listed.length === 0 || !listed.every((name) => FIELD_NAME.test(name))) return true;
    if (listed.some((name) => DECIDING_FIELDS.has(name) || SAYING_WHAT_IT_IS.has(name))) return true;
    names.push(...listed);
  }
  return names;
}

function argumentOf(rest: string): string | undefined {
  if (rest === "") return undefined;
  if (!rest.startsWith("=")) return rest;
  const argument = rest.slice(1);
  const quoted = QUOTED_STRING.exec(argument);
  return quoted === null ? argument : quoted[1]!.replaceAll(/\\([^])/g, "$1");
}

/**
 * Members of a comma-separated list (RFC 9110 §5.6.1); commas in quoted strings do not separate. A quote that never
 * closes is an ordinary character, so that it cannot hide a `no-store` behind it.
 */
export function splitList(line: string): string[] {
  const members: string[] = [];
  let start = 0;
  let mayClose = true;
  for (let i = 0; i <= line.length; i += 1) {
    if (i === line.length || line[i] === ",") {
      const member = line.slice(start, i).trim();
      if (member !== "") members.push(member);
      start = i + 1;
    } else if (mayClose && line[i] === '"') {
      const end = closingQuote(line, i);
      // Where one does not close, none behind it does.
      mayClose = end !== undefined;
      i = end ?? i;
    }
  }
  return members;
}

function closingQuote(line: string, open: number): number | undefined {
  for (let i = open + 1; i < line.length; i += 1) {
    if (line[i] === "\\") i += 1;
    else if (line[i] === '"') return i;
  }
  return undefined;
}

/** RFC 9213 §2.2: the fields that address this cache, the most specific first. */
const TARGET_LIST = [OWN_TARGETED_FIELD, "cdn-cache-control"];

/** Directives whose argument has to be an Integer in a structured field. */
const DELTA_DIRECTIVES = new Set(["max-age", "s-maxage", "stale-while-revalidate", "stale-if-error"]);

/** The directives that govern a response. */
export interface Governing {
  /** The field they are from, lower case; `cache-control` also when the response has no such field. */
  readonly field: string;
  readonly directives: ResponseDirectives;
}

/**
 * The directives that count for this cache: those of the first targeted field that is valid and not empty, else those
 * of `Cache-Control`. When a targeted field governs, `Cache-Control` and `Expires` mean nothing (RFC 9213 §2.1, §2.2).
 */
export function governingDirectives(fields: Fields): Governing {
  for (const field of TARGET_LIST) {
    const value = fieldValue(fields, field);
    const directives = value === undefined ? undefined : parseTargeted(value);
    if (directives !== undefined) return { field, directives: responseDirectives(directives) };
  }
  return {
    field: "cache-control",
    directives: responseDirectives(parseDirectives(fieldValues(fields, "cache-control"))),
  };
}

/**
 * The directives of a targeted field, or undefined when it is to be ignored: empty, not a structured Dictionary, or with
 * a duration that is no Integer (RFC 9213 §2.1 asks not to coerce; to guess would make caches differ).
 */
function parseTargeted(value: string): DirectiveMap | undefined {
  const dictionary = readDictionary(value);
  if (dictionary === undefined || dictionary.size === 0) return undefined;
  const directives = new Map<string, readonly (string | undefined)[]>();
  for (const [name, member] of dictionary) {
    const [item] = member;
    if (DELTA_DIRECTIVES.has(name) && (typeof item !== "number" || isDecimal(name, value))) return undefined;
    if (item !== false) directives.set(name, [argumentOfItem(item)]);
  }
  return directives;
}

function readDictionary(value: string): ReturnType<typeof parseDictionary> | undefined {
  try {
    return parseDictionary(value);
  } catch {
    return undefined;
  }
}

/** Whether the number of this name is a Decimal (RFC 9651 §3.3.2): of `10.0` the parser makes what it makes of `10`. */
function isDecimal(name: string, value: string): boolean {
  const member = splitList(value).findLast((text) => text.startsWith(`${name}=`));
  return member !== undefined && DECIMAL.test(member.slice(name.length + 1));
}

/** A directive without argument is the Boolean true (RFC 9213 §2.1); one with an inner list is taken for such a one. */
function argumentOfItem(item: unknown): string | undefined {
  if (typeof item === "string" || typeof item === "number") return String(item);
  return item instanceof Token ? item.toString() : undefined;
}
