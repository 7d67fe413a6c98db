import { toPrintable } from "../words/printable.ts";

type Output = Pick<NodeJS.WriteStream, "write">;

/** Prints one line. A line break in it is shown, not made: foreign text stays within its line. */
export function printLine(line: string, output: Output = process.stdout): void {
  output.write(`${toPrintable(line)}\n`);
}

/** Resolves with the first signal that asks to stop. */
export function untilInterrupted(): Promise<void> {
  return new Promise((resolve) => {
    for (const signal of ["SIGINT", "SIGTERM"] as const) process.once(signal, () => resolve());
  });
}

/** Prints several lines. */
export function printLines(text: string, output: Output = process.stdout): void {
  for (const line of text.replace(/\n$/, "").split("\n")) printLine(line, output);
}

/** A column of a table, and what it says of a row; null: nothing. */
export interface Column<Row> {
  readonly head: string;
  readonly cell: (row: Row) => string | number | null;
  readonly isNumber?: true;
  /** Where its cells lose letters when the table is wider than the terminal; absent: they never do. */
  readonly shortened?: "middle" | "end";
}

type Look = Pick<Column<never>, "isNumber" | "shortened">;

/** The narrowest and widest that a table or a text gets, whatever the terminal is. */
const NARROWEST = 80;
const WIDEST = 120;
const USUAL = 100;

/** Letters that a shortened column keeps at least. */
const LEAST = 8;

const GAP = "  ";

/** How wide what is printed may be. */
function terminalWidth(): number {
  const { columns = USUAL } = process.stdout as { readonly columns?: number };
  return Math.min(WIDEST, Math.max(NARROWEST, columns));
}

/** The lines of a table as wide as the terminal, its head first. Cells are made printable. */
export function tableLines<Row>(rows: readonly Row[], columns: readonly Column<Row>[]): string[] {
  const cells = [
    columns.map(({ head }) => head),
    ...rows.map((row) => columns.map(({ cell }) => toPrintable(String(cell(row) ?? "-")))),
  ];
  const widths = columns.map((_, i) => Math.max(...cells.map((row) => row[i]!.length)));
  const total = () => widths.reduce((sum, each) => sum + each, 0) + GAP.length * (columns.length - 1);
  while (total() > terminalWidth()) {
    const i = widestOf(columns, widths);
    if (i === undefined) break;
    widths[i]! -= 1;
  }
  return cells.map((row) =>
    row
      .map((cell, i) => align(shorten(cell, widths[i]!, columns[i]!), widths[i]!, columns[i]!))
      .join(GAP)
      .trimEnd(),
  );
}

/** The widest column that may lose a letter. */
function widestOf(columns: readonly Look[], widths: readonly number[]): number | undefined {
  let widest: number | undefined;
  for (const [i, { shortened }] of columns.entries()) {
    if (shortened !== undefined && widths[i]! > (widest === undefined ? LEAST : widths[widest]!)) widest = i;
  }
  return widest;
}

function shorten(cell: string, width: number, { shortened }: Look): string {
  if (cell.length <= width) return cell;
  const tail = shortened === "middle" ? Math.floor((width - 1) / 2) : 0;
  return `${cell.slice(0, width - 1 - tail)}…${tail === 0 ? "" : cell.slice(-tail)}`;
}

function align(cell: string, width: number, { isNumber }: Look): string {
  return isNumber === true ? cell.padStart(width) : cell.padEnd(width);
}

/** `text` in lines that fit the terminal, broken between words; all but the first begin with `indent`. */
export function wrap(text: string, indent = "    "): string[] {
  const lines: string[] = [];
  const [, margin = "", words = ""] = /^( *)(.*)$/.exec(toPrintable(text)) ?? [];
  let line = "";
  for (const word of words.split(" ")) {
    if (line !== "" && line.length + 1 + word.length > terminalWidth()) {
      lines.push(line);
      line = `${indent}${word}`;
    } else {
      line = line === "" ? `${margin}${word}` : `${line} ${word}`;
    }
  }
  return [...lines, line];
}
