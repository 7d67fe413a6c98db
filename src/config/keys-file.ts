import { isObject, parseJson, printable } from "../json.ts";
import type { ClientKey } from "./loaded.ts";
import { suggest } from "./problem.ts";

/** A fault in one line of a keys file. Repeats no value: it may be a key or a digest. */
interface KeyProblem {
  readonly line: number;
  readonly message: string;
}

/** Bytes of the largest file whose path a configuration gives: a keys file. */
export const MAX_KEYS_FILE = 16 * 2 ** 20;
const MAX_LINE = 4 * 2 ** 10;
/** A file with more is no keys file. */
const MAX_PROBLEMS = 100;

const NAME = /^[^\p{C}\p{Z}](?:[^\p{C}\p{Zl}\p{Zp}]{0,126}[^\p{C}\p{Z}])?$/u;
const TIME = /^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(?:\.\d{1,9})?(?:Z|[+-]\d{2}:\d{2})$/;
const FORMS = {
  name: { pattern: NAME, expected: "1 to 128 characters without spaces at its ends" },
  tier: { pattern: /^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$/, expected: "the name of a tier" },
  digest: { pattern: /^[A-Za-z0-9_-]{43}$/, expected: "the 43 characters that clients new prints" },
  expires: { pattern: TIME, expected: "a time such as 2027-01-31T00:00:00Z" },
};

type Member = keyof typeof FORMS;
const MEMBERS = Object.keys(FORMS) as Member[];

/**
 * The keys of a file with one JSON object a line: `{"name", "tier", "digest", "expires"?}`. None where there is a problem.
 *
 * @param tiers the tiers that there are; undefined: any
 */
export function parseKeys(content: string, tiers?: readonly string[]) {
  // As it is while it is written, or after a disk was full: that must not withdraw every key.
  if (content === "") return { keys: [], problems: [{ line: 1, message: "is empty: end it with a line break" }] };
  const keys: ClientKey[] = [];
  const problems: KeyProblem[] = [];
  const lineOf = new Map<string, number>();
  for (const [index, text] of content.split("\n").entries()) {
    if (text.trim() === "" || problems.length === MAX_PROBLEMS) continue;
    const key = parseLine(text.trim(), tiers);
    const line = index + 1;
    if (typeof key === "string") {
      problems.push({ line, message: key });
      continue;
    }
    const same = lineOf.get(key.digest);
    if (same !== undefined) problems.push({ line, message: `the same key is on line ${same}` });
    lineOf.set(key.digest, line);
    keys.push(key);
  }
  return { keys: problems.length === 0 ? keys : [], problems };
}

/** A key, or what is wrong with its line. */
function parseLine(line: string, tiers: readonly string[] | undefined): ClientKey | string {
  if (line.length > MAX_LINE) return "is longer than 4 KiB";
  const value = parseJson(line);
  if (!isObject(value)) return "must be one JSON object, as clients new prints it";
  const unknown = Object.keys(value).find((name) => !Object.hasOwn(FORMS, name));
  if (unknown !== undefined) return `unknown member ${printable(unknown, 40)}${suggest(unknown, MEMBERS)}`;
  for (const member of MEMBERS) {
    const { pattern, expected } = FORMS[member];
    const given = value[member];
    if (member === "expires" && given === undefined) continue;
    if (typeof given !== "string" || !pattern.test(given)) return `${member} must be ${expected}`;
  }
  const { name, tier, digest, expires } = value as Record<Exclude<Member, "expires">, string> & { expires?: string };
  if (name.includes("rgk_")) return "name holds an API key: names stand in logs and metrics";
  if (tiers !== undefined && !tiers.includes(tier)) {
    return `there is no such tier: clients.tiers has ${tiers.join(", ")}${suggest(tier, tiers)}`;
  }
  if (expires === undefined) return { name, tier, digest };
  const end = Date.parse(expires);
  return Number.isNaN(end) ? "expires is no time that there is" : { name, tier, digest, expires: end };
}
