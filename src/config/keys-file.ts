import { isObject, keyTree, parseJson, repeatedKey } from "../json.ts";
import { TIER_NAME } from "./clients-schema.ts";
import { notations } from "./notations.ts";
import { ConfigError, type Problem, suggest } from "./problem.ts";
import { withoutKeys } from "./reading.ts";
import { faultOfFile, readTextFile } from "./text-file.ts";

/** One API key of a client, as the keys file has it: one JSON object a line. */
export interface ClientKey {
  readonly name: string;
  readonly tier: string;
  /** SHA-256 of the whole key, in lower-case hex. */
  readonly digest: string;
  /** From when on it is refused, in milliseconds since the Unix epoch. */
  readonly expires?: number | undefined;
}

/** A key and where it stands. */
interface PlacedKey extends ClientKey {
  readonly line: number;
}

export const MAX_KEYS = 100_000;

/** Characters. */
const MAX_LINE = 4 * 2 ** 10;

/** Problems beyond this number are not named: such a file is not a keys file. */
const MAX_PROBLEMS = 1_000;

/** What stands in logs and metrics for those that have no name of their own. */
const TAKEN: ReadonlySet<string> = new Set(["anonymous", "none"]);

const MEMBERS = ["name", "tier", "digest", "expires"];
const MEMBER_TREE = keyTree(MEMBERS.map((name) => [name]));

const NAME = /^[^\p{C}\p{Z}]([^\p{C}\p{Zl}\p{Zp}]{0,126}[^\p{C}\p{Z}])?$/u;
const TIER = new RegExp(TIER_NAME);

/** The beginning of a file of the form before: a list in YAML. */
const YAML_LIST = /^\s*(?:#|---|- |\[)/;

/** What is in a keys file, or everything that is wrong with it. */
export interface ParsedKeys {
  readonly keys: readonly ClientKey[];
  /** In the order of the text. Neither a key nor a digest stands in one. */
  readonly problems: readonly Problem[];
}

class KeysReading {
  readonly keys: PlacedKey[] = [];
  readonly problems: Problem[] = [];

  report(line: number, path: string, message: string): void {
    if (this.problems.length >= MAX_PROBLEMS) return;
    this.problems.push({ line, column: 1, path, message: withoutKeys(message) });
  }

  readLine(text: string, line: number): void {
    if (text.length > MAX_LINE) return this.report(line, "", "is longer than 4 KiB");
    const value = parseJson(text);
    if (!isObject(value)) return this.report(line, "", "must be one JSON object, as clients new prints it");
    const before = this.problems.length;
    const unknown = Object.keys(value).find((name) => !MEMBERS.includes(name));
    if (unknown !== undefined) {
      const shown = JSON.stringify(unknown.slice(0, 100));
      this.report(line, "", `${shown} is unknown: a key has ${MEMBERS.join(", ")}`);
    }
    const repeated = repeatedKey(text, MEMBER_TREE);
    if (repeated !== undefined) this.report(line, repeated.join("."), "is given twice");
    const { name, tier, digest, expires } = value;
    if (typeof name !== "string" || !NAME.test(name)) {
      this.report(line, "name", "must be 1 to 128 characters without spaces at its ends");
    }
    if (typeof tier !== "string" || !TIER.test(tier)) this.report(line, "tier", "must be the name of a tier");
    const fault = typeof digest === "string" ? notations.digest.findFault(digest) : "must be sha256: and 64 hex digits";
    if (fault !== undefined) this.report(line, "digest", fault);
    const end = typeof expires === "string" ? notations.time.findFault(expires) : "must be a time in quotes";
    if (expires !== undefined && end !== undefined) this.report(line, "expires", end);
    if (this.problems.length > before) return;
    this.keys.push({
      name: name as string,
      tier: tier as string,
      digest: notations.digest.parse(digest as string),
      ...(expires === undefined ? {} : { expires: notations.time.parse(expires as string) }),
      line,
    });
  }

  /** What is wrong between keys, each of which is good by itself. */
  checkAll(tiers: readonly string[] | undefined): void {
    const known = new Set(tiers);
    const firstOf = { digest: new Map<string, PlacedKey>(), name: new Map<string, PlacedKey>() };
    for (const key of this.keys) {
      const { name, tier, digest, line } = key;
      const same = firstOf.digest.get(digest);
      if (same !== undefined) this.report(line, "digest", `the same key is given on line ${same.line}`);
      if (tiers !== undefined && !known.has(tier)) {
        const list = `clients.tiers has ${tiers.join(", ")}`;
        this.report(line, "tier", `${JSON.stringify(tier)} is no tier: ${list}${suggest(tier, tiers)}`);
      }
      const other = firstOf.name.get(name);
      if (other !== undefined && other.tier !== tier) {
        this.report(line, "tier", `the keys of one client are of one tier: on line ${other.line} it is ${other.tier}`);
      }
      if (name.includes("rgk_")) {
        this.report(line, "name", "looks like an API key: names stand in logs and metrics");
      }
      if (TAKEN.has(name)) {
        this.report(line, "name", `"${name}" stands for others in logs and metrics: take another name`);
      }
      firstOf.digest.set(digest, same ?? key);
      firstOf.name.set(name, other ?? key);
    }
  }
}

/** The keys in the text of a keys file. Where `tiers` is given, each key's tier must be one of them. */
export function parseKeys(text: string, tiers?: readonly string[]): ParsedKeys {
  const reading = new KeysReading();
  if (text === "") {
    // As it is while it is written, or after a disk was full: that must not withdraw every key.
    reading.report(0, "", "is empty: a file without keys has one blank line");
  } else if (YAML_LIST.test(text)) {
    const way = "registry-gateway clients convert FILE prints it as one JSON object a line";
    reading.report(1, "", `is YAML, as in releases before 0.2: ${way}`);
  } else readLines(reading, text);
  reading.checkAll(tiers);
  const problems = reading.problems.toSorted((a, b) => a.line - b.line);
  return { keys: problems.length === 0 ? reading.keys : [], problems };
}

function readLines(reading: KeysReading, text: string): void {
  let line = 0;
  for (let start = 0; start < text.length && reading.problems.length < MAX_PROBLEMS;) {
    const next = text.indexOf("\n", start);
    const end = next === -1 ? text.length : next;
    line += 1;
    const content = text.slice(start, end).trim();
    if (reading.keys.length === MAX_KEYS && content !== "") {
      return reading.report(line, "", `is beyond ${MAX_KEYS} keys, the most that a file may have`);
    }
    if (content !== "") reading.readLine(content, line);
    start = end + 1;
  }
}

function readText(file: string): string | Problem {
  const problem = (message: string): Problem => ({ line: 0, column: 0, path: "", message });
  try {
    return readTextFile(file);
  } catch (error) {
    const fault = faultOfFile(error);
    return problem(fault === "is not there" ? "there is no such file" : fault);
  }
}

/** What {@link parseKeys} says of a file. */
export function checkKeysFile(file: string, tiers?: readonly string[]): ParsedKeys {
  const content = readText(file);
  return typeof content === "string" ? parseKeys(content, tiers) : { keys: [], problems: [content] };
}

/** Problems in a message or a log line; those beyond are counted. */
const MAX_DESCRIBED = 20;

/** Problems as the rest of sentences that begin with the file. Not as `file:line`, which logs take for an address. */
export function describeProblems(problems: readonly Problem[]): readonly string[] {
  const described = problems.slice(0, MAX_DESCRIBED).map(({ line, path, message }) => {
    const place = [line === 0 ? "" : `line ${line}:`, path === "" ? "" : `${path}:`];
    return [...place, message].filter((part) => part !== "").join(" ");
  });
  const more = problems.length - described.length;
  const rest = `has ${more} more problems: registry-gateway clients check FILE names them all`;
  return more > 0 ? [...described, rest] : described;
}

/**
 * The keys in a file.
 * @throws {ConfigError} with everything that is wrong with it
 */
export function readKeysFile(file: string, tiers: readonly string[]): readonly ClientKey[] {
  const { keys, problems } = checkKeysFile(file, tiers);
  if (problems.length > 0) throw new ConfigError(file, problems);
  return keys;
}
