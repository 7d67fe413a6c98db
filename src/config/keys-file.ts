import { readFileSync, statSync } from "node:fs";
import { Type } from "../schema/type.ts";
import { TIER_NAME } from "./clients-schema.ts";
import { asData, formed, group, off, text } from "./keys.ts";
import { ConfigError } from "./problem.ts";
import type { Problem } from "./problem.ts";
import { readListRoot } from "./read.ts";
import { readYaml, withoutKeys } from "./reading.ts";
import { listEntries, readPlainEntry } from "./plain-entries.ts";
import type { Entry, KeyLines } from "./plain-entries.ts";
import { suggest } from "./suggestion.ts";

/** One API key of a client, as the keys file has it. */
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
  readonly index: number;
  readonly lines: KeyLines;
}

const MAX_KEYS = 100_000;

const MAX_BYTES = 16 * 2 ** 20;

/** A list in another form than one entry after the other from the first column on is read as a whole. */
const MAX_OTHER_FORM = 256 * 2 ** 10;

/** Keys in another form than {@link readPlainEntry} knows: each takes the YAML library some 0.1 ms. */
const MAX_OTHER_KEYS = 5_000;

/** Characters of one entry. */
const MAX_ENTRY = 16 * 2 ** 10;

/** So many are named; a file with more of them is none. */
const MAX_PROBLEMS = 1_000;

/** What stands in logs and metrics for those that have no name of their own. */
const TAKEN: ReadonlySet<string> = new Set(["anonymous", "none"]);

const keySchema = group("A key.", {
  name: text({
    pattern: String.raw`^[^\p{C}\p{Z}]([^\p{C}\p{Zl}\p{Zp}]{0,126}[^\p{C}\p{Z}])?$`,
    expected: "1 to 128 characters without spaces at its ends",
    description: "The client.",
  }),
  tier: text({ pattern: TIER_NAME, expected: "the name of a tier", description: "The client's tier." }),
  digest: formed("digest", { expected: "sha256: and 64 hex digits", description: "Digest of the key." }),
  expires: off(formed("time", { description: "When the key ends." })),
});

const keysSchema = Type.Array(keySchema, { maxItems: MAX_KEYS, expected: "a list of keys" });

/** What is in a keys file, or everything that is wrong with it. */
export interface ParsedKeys {
  readonly keys: readonly ClientKey[];
  /** In the order of the text. Neither a key nor a digest stands in one. */
  readonly problems: readonly Problem[];
}

class KeysReading {
  readonly keys: PlacedKey[] = [];
  readonly problems: Problem[] = [];
  private otherKeys = 0;

  /** Nothing more is read. */
  get isOver(): boolean {
    return this.problems.length >= MAX_PROBLEMS || this.otherKeys > MAX_OTHER_KEYS;
  }

  report(line: number, path: string, message: string): void {
    if (this.problems.length >= MAX_PROBLEMS) return;
    this.problems.push({ line, column: 1, path, message: withoutKeys(message) });
  }

  /** Reads YAML that begins on `line` and with the item `index` of the list. */
  readYaml(yaml: string, { line, index }: { readonly line: number; readonly index: number }): void {
    const reading = readYaml({ text: yaml, folder: "/" });
    const items = reading.problems.length > 0 ? [] : readListRoot(reading, asData(keysSchema), "keys");
    const pathOf = (path: string) => path.replace(/^\[(\d+)\]/, (_, item) => `[${Number(item) + index}]`);
    for (const problem of reading.problems.slice(0, MAX_PROBLEMS - this.problems.length)) {
      this.problems.push({ ...problem, line: problem.line + line - 1, path: pathOf(problem.path) });
    }
    if (reading.problems.length > 0) return;
    for (const [item, key] of (items as readonly ClientKey[]).entries()) {
      const lineOf = (name: string) => reading.positionOf(`[${item}].${name}`).line + line - 1;
      this.keys.push({
        ...key,
        index: index + item,
        lines: { name: lineOf("name"), tier: lineOf("tier"), digest: lineOf("digest") },
      });
    }
  }

  readEntry(entry: Entry, index: number): void {
    const { line, text: yaml } = entry;
    if (yaml.length > MAX_ENTRY) return this.report(line, `[${index}]`, "is longer than 16 KiB");
    const plain = readPlainEntry(entry);
    if (plain !== undefined) return void this.keys.push({ ...plain, index });
    this.otherKeys += 1;
    if (this.otherKeys <= MAX_OTHER_KEYS) return this.readYaml(yaml, { line, index });
    this.report(line, `[${index}]`, `is beyond ${MAX_OTHER_KEYS} keys that are not written as clients new prints them`);
  }

  /** What is wrong between keys, each of which is good by itself. */
  checkAll(tiers: readonly string[] | undefined): void {
    const known = new Set(tiers);
    const firstOf = { digest: new Map<string, PlacedKey>(), name: new Map<string, PlacedKey>() };
    for (const key of this.keys) {
      const { name, tier, digest, lines, index } = key;
      const same = firstOf.digest.get(digest);
      if (same !== undefined) {
        this.report(lines.digest, `[${index}].digest`, `the same key is given on line ${same.lines.digest}`);
      }
      if (tiers !== undefined && !known.has(tier)) {
        const list = `clients.tiers has ${tiers.join(", ")}`;
        this.report(
          lines.tier,
          `[${index}].tier`,
          `${JSON.stringify(tier)} is no tier: ${list}${suggest(tier, tiers)}`,
        );
      }
      const other = firstOf.name.get(name);
      if (other !== undefined && other.tier !== tier) {
        const message = `the keys of one client are of one tier: on line ${other.lines.tier} it is ${other.tier}`;
        this.report(lines.tier, `[${index}].tier`, message);
      }
      if (name.includes("rgk_")) {
        this.report(lines.name, `[${index}].name`, "looks like an API key: names stand in logs and metrics");
      }
      if (TAKEN.has(name)) {
        this.report(
          lines.name,
          `[${index}].name`,
          `"${name}" stands for others in logs and metrics: take another name`,
        );
      }
      firstOf.digest.set(digest, same ?? key);
      firstOf.name.set(name, other ?? key);
    }
  }
}

/** The keys in the text of a keys file. Where `tiers` is given, each key's tier must be one of them. */
export function parseKeys(yaml: string, tiers?: readonly string[]): ParsedKeys {
  const reading = new KeysReading();
  const entries = listEntries(yaml, MAX_KEYS + 1);
  if (entries === undefined && yaml.length > MAX_OTHER_FORM) {
    reading.report(1, "", 'is not one key after the other, each beginning with "- " at the start of a line');
  } else if (entries === undefined) {
    reading.readYaml(yaml, { line: 1, index: 0 });
  } else if (entries.length > MAX_KEYS) {
    reading.report(1, "", `has more than ${MAX_KEYS} keys`);
  } else {
    for (const [index, entry] of entries.entries()) {
      if (reading.isOver) break;
      reading.readEntry(entry, index);
    }
  }
  reading.checkAll(tiers);
  const problems = reading.problems.toSorted((a, b) => a.line - b.line || a.column - b.column);
  return { keys: problems.length === 0 ? reading.keys : [], problems };
}

function readText(file: string): string | Problem {
  const problem = (message: string): Problem => ({ line: 0, column: 0, path: "", message });
  try {
    const stat = statSync(file);
    if (!stat.isFile()) return problem("is not a file");
    if (stat.size > MAX_BYTES) return problem("is larger than 16 MiB");
    return readFileSync(file, "utf8");
  } catch (error) {
    const code = error instanceof Error && "code" in error ? String(error.code) : "unknown error";
    return problem(code === "ENOENT" ? "there is no such file" : `cannot be read (${code})`);
  }
}

/** What {@link parseKeys} says of a file. */
export function checkKeysFile(file: string, tiers?: readonly string[]): ParsedKeys {
  const content = readText(file);
  return typeof content === "string" ? parseKeys(content, tiers) : { keys: [], problems: [content] };
}

/** So many are described in a message or a log line. */
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
