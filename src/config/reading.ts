import { LineCounter, parseDocument } from "yaml";
import type { Document, Node } from "yaml";
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
    for (const { pos, message } of [...this.document.errors, ...this.document.warnings]) {
      this.reportAt(pos[0], "", `not valid YAML: ${message}`);
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
