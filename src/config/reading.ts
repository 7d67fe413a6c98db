import { LineCounter, parseDocument } from "yaml";
import type { Document, ErrorCode, Node } from "yaml";
import type { Environment } from "./environment.ts";
import { speak } from "./scalar.ts";
import type { Given, NamedFile } from "./scalar.ts";
import type { Problem } from "./problem.ts";

interface Position {
  readonly line: number;
  readonly column: number;
}

/** API keys that got into the wrong place must not be read again in a message. */
export function withoutKeys(text: string): string {
  return text.replaceAll(/rgk_[\w-]{8,}/g, "rgk_…");
}

/**
 * Errors whose own message repeats the text, which may be a secret that somebody wrote without quotes, in words that do not.
 */
const UNQUOTED: Partial<Record<ErrorCode, string>> = {
  BAD_COLLECTION_TYPE: "this tag (!) does not go with what follows it",
  BAD_DIRECTIVE: "there is no such directive (%)",
  BAD_DQ_ESCAPE: "double quotes have no such escape sequence (\\)",
  BAD_SCALAR_START: "a value cannot begin with this sign",
  RESOURCE_EXHAUSTION: "it is nested too deeply",
  TAG_RESOLVE_FAILED: "there is no such tag (!)",
  UNEXPECTED_TOKEN: "this cannot stand here",
};

/** What to do about a value that is taken for something else. */
export const QUOTE_IT = "a value with special signs belongs in single quotes";

/** The reading of one file: what it is read with, and what was found so far. */
export class Reading {
  readonly problems: Problem[] = [];
  readonly document: Document;
  readonly env: Environment;
  /** Relative file names start here. */
  readonly folder: string;
  /** Files that keys name → their version when they were looked at. */
  readonly files = new Map<string, string>();
  private readonly lines = new LineCounter();
  private readonly positions = new Map<string, Position>();
  private readonly given = new Map<string, Given>();

  /** Reads YAML, with its errors as problems: where there is any, the tree is a guess. */
  constructor(text: string, env: Environment, folder: string) {
    this.env = env;
    this.folder = folder;
    // Repeated keys are found while reading, where their path is known.
    this.document = parseDocument(text, {
      lineCounter: this.lines,
      prettyErrors: false,
      uniqueKeys: false,
      stringKeys: true,
      // "silent" would let a second document pass without an error.
      logLevel: "error",
    });
    for (const { pos, code, message } of [...this.document.errors, ...this.document.warnings]) {
      const words = UNQUOTED[code];
      this.reportAt(pos[0], "", `not valid YAML: ${words === undefined ? message : `${words}; ${QUOTE_IT}`}`);
    }
  }

  /** Notes where the value at `path` stands. */
  place(path: string, node: Node | null): void {
    const offset = node?.range?.[0];
    if (offset !== undefined) this.positions.set(path, this.at(offset));
  }

  /** Notes that the file itself gives the key; `scalar`: what, where it is a single value. */
  noteGiven(path: string, scalar?: Given): void {
    if (scalar !== undefined || !this.given.has(path))
      this.given.set(path, scalar ?? { value: undefined, replaced: false });
  }

  /** How a message may repeat the value of a key that the file gives. */
  speak(path: string): string {
    return speak(this.given.get(path) ?? { value: undefined, replaced: true });
  }

  /** How many keys the file itself gives. */
  get givenCount(): number {
    return this.given.size;
  }

  /** Whether the file itself gives the key, rather than a default. */
  isGiven(path: string): boolean {
    return this.given.has(path);
  }

  /** Reports a problem with the value at `path`; where the file has none, at the nearest key around it. */
  report(path: string, message: string): void {
    this.add({ ...this.positionOf(path), path, message });
  }

  /** Notes a file that the key at `path` names, and reports what is wrong with it. */
  noteFile(path: string, { path: file, version, fault }: NamedFile): void {
    this.files.set(file, version);
    if (fault !== undefined) this.reportFile(path, fault);
  }

  /** Reports a problem with a file that the key at `path` names. */
  reportFile(path: string, message: string): void {
    this.add({ ...this.positionOf(path), path, message, isOfFile: true });
  }

  /** Reports a problem with a place in the text rather than with a value. */
  reportAt(offset: number, path: string, message: string): void {
    this.add({ ...this.at(offset), path, message });
  }

  hasProblem(path: string): boolean {
    return this.problems.some((problem) => problem.path === path);
  }

  lineOf(offset: number): number {
    return this.at(offset).line;
  }

  /** Whether the environment supplied the value. */
  isReplaced(path: string): boolean {
    return this.given.get(path)?.replaced === true;
  }

  private add(problem: Problem): void {
    const { path, message } = problem;
    this.problems.push({ ...problem, path: withoutKeys(path), message: withoutKeys(message) });
  }

  private at(offset: number): Position {
    const { line, col } = this.lines.linePos(offset);
    // An empty text has no lines.
    return { line: Math.max(line, 1), column: Math.max(col, 1) };
  }

  /** Where the value at `path` stands, or what is around it. */
  private positionOf(path: string): Position {
    let key = path;
    while (key !== "") {
      const position = this.positions.get(key);
      if (position !== undefined) return position;
      key = key.slice(0, Math.max(key.lastIndexOf("."), key.lastIndexOf("["), 0));
    }
    return this.positions.get("") ?? { line: 1, column: 1 };
  }
}
