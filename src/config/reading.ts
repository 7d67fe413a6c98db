import type { Document, LineCounter, Node } from "yaml";
import type { Environment } from "./environment.ts";
import { speak } from "./leaf.ts";
import type { Given, NamedFile } from "./leaf.ts";
import type { Problem } from "./problem.ts";

interface Position {
  readonly line: number;
  readonly column: number;
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
  private readonly lines: LineCounter;
  private readonly positions = new Map<string, Position>();
  private readonly given = new Map<string, Given>();

  constructor(source: { document: Document; lines: LineCounter; env: Environment; folder: string }) {
    this.document = source.document;
    this.lines = source.lines;
    this.env = source.env;
    this.folder = source.folder;
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
    this.problems.push({ ...this.positionOf(path), path, message });
  }

  /** Notes a file that the key at `path` names, and reports what is wrong with it. */
  noteFile(path: string, { path: file, version, fault }: NamedFile): void {
    this.files.set(file, version);
    if (fault !== undefined) this.reportFile(path, fault);
  }

  /** Reports a problem with a file that the key at `path` names. */
  reportFile(path: string, message: string): void {
    this.problems.push({ ...this.positionOf(path), path, message, isOfFile: true });
  }

  /** Reports a problem with a place in the text rather than with a value. */
  reportAt(offset: number, path: string, message: string): void {
    this.problems.push({ ...this.at(offset), path, message });
  }

  hasProblem(path: string): boolean {
    return this.problems.some((problem) => problem.path === path);
  }

  lineOf(offset: number): number {
    return this.at(offset).line;
  }

  private at(offset: number): Position {
    const { line, col } = this.lines.linePos(offset);
    // An empty text has no lines.
    return { line: Math.max(line, 1), column: Math.max(col, 1) };
  }

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
