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

/** Text to read, and what it is read with. */
interface Source {
  readonly text: string;
  /** Undefined: references to variables stay as they are. */
  readonly env?: Environment;
  readonly folder: string;
  /** Where the text begins in its file, counted from 1. */
  readonly firstLine?: number;
}

/** YAML, with its errors as problems: where there is any, the tree is a guess. */
export function readYaml({ text, env, folder, firstLine = 1 }: Source): Reading {
  const lines = new LineCounter();
  // Repeated keys are found while reading, where their path is known.
  const document = parseDocument(text, {
    lineCounter: lines,
    prettyErrors: false,
    uniqueKeys: false,
    stringKeys: true,
    // "silent" would let a second document pass without an error.
    logLevel: "error",
  });
  const reading = new Reading({ document, lines, env, folder, firstLine });
  for (const { pos, message } of [...document.errors, ...document.warnings]) {
    reading.reportAt(pos[0], "", `not valid YAML: ${message}`);
  }
  return reading;
}

interface ReadingSource {
  readonly document: Document;
  readonly lines: LineCounter;
  readonly env: Environment | undefined;
  readonly folder: string;
  readonly firstLine: number;
}

/** The reading of one file: what it is read with, and what was found so far. */
export class Reading {
  readonly problems: Problem[] = [];
  readonly document: Document;
  /** Undefined: references are not replaced. */
  readonly env: Environment | undefined;
  /** Relative file names start here. */
  readonly folder: string;
  /** Files that keys name → their version when they were looked at. */
  readonly files = new Map<string, string>();
  private readonly lines: LineCounter;
  private readonly firstLine: number;
  private readonly positions = new Map<string, Position>();
  private readonly given = new Map<string, Given>();

  constructor(source: ReadingSource) {
    this.document = source.document;
    this.lines = source.lines;
    this.env = source.env;
    this.folder = source.folder;
    this.firstLine = source.firstLine;
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
    return { line: Math.max(line, 1) + this.firstLine - 1, column: Math.max(col, 1) };
  }

  /** Where the value at `path` stands, or what is around it. */
  positionOf(path: string): Position {
    let key = path;
    while (key !== "") {
      const position = this.positions.get(key);
      if (position !== undefined) return position;
      key = key.slice(0, Math.max(key.lastIndexOf("."), key.lastIndexOf("["), 0));
    }
    return this.positions.get("") ?? { line: this.firstLine, column: 1 };
  }
}
