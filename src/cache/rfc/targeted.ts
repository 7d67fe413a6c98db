import { isInnerList, parseDictionary, Token } from "structured-headers";
import { type Fields, fieldValue, fieldValues, OWN_TARGETED_FIELD } from "../../fields.ts";
import { type DirectiveMap, parseDirectives, responseDirectives, type ResponseDirectives } from "./cache-control.ts";

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
    if (DELTA_DIRECTIVES.has(name) && !(typeof member[0] === "number" && Number.isInteger(member[0]))) return undefined;
    if (isInnerList(member) || member[0] === false) continue;
    directives.set(name, [argumentOf(member[0])]);
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

/** A directive without argument is the Boolean true (RFC 9213 §2.1). */
function argumentOf(item: unknown): string | undefined {
  if (typeof item === "string" || typeof item === "number") return String(item);
  return item instanceof Token ? item.toString() : undefined;
}
