import { readFileSync, writeFileSync } from "node:fs";
import { cpus } from "node:os";
import type { Load } from "../bench/load.ts";

/** What costs how much at which size. */
export interface ScaleTable {
  /** What grows, as the head of the first column. */
  readonly what: string;
  readonly sizes: readonly string[];
  /** A cell for each size. */
  readonly rows: readonly (readonly [what: string, ...cells: string[]])[];
}

/** What a part works with. */
export interface ScaleContext {
  readonly load: Load;
  /** Only to see that it works. */
  readonly isSmall: boolean;
  /** A new folder for a server's files. */
  newFolder(): string;
  /** Registers a server to be stopped when the part is over. */
  started<Server extends { stop(): Promise<void> }>(server: Promise<Server>): Promise<Server>;
}

export interface Part {
  readonly name: string;
  readonly measure: (context: ScaleContext) => Promise<ScaleTable>;
}

const PAGE = new URL("../../docs/scaling.md", import.meta.url);

/** The table as Markdown, with the machine and the date under it. */
export function formatTable({ what, sizes, rows }: ScaleTable): string {
  const head = [what, ...sizes];
  const lines = [head, head.map(() => "---"), ...rows].map((cells) => `| ${cells.join(" | ")} |`);
  const date = new Date().toISOString().slice(0, 10);
  const [core] = cpus();
  const machine = `${cpus().length} cores of ${core!.model.trim()}, Node ${process.versions.node}`;
  return [...lines, "", `Measured on ${date}, ${machine}.`].join("\n");
}

/** Puts the table of a part into docs/scaling.md. */
export function writeTable(part: string, table: string): void {
  const [beginning, ending] = [`<!-- scale:${part}:begin -->`, `<!-- scale:${part}:end -->`];
  const text = readFileSync(PAGE, "utf8");
  const [begin, end] = [text.indexOf(beginning), text.indexOf(ending)];
  if (begin === -1 || end < begin) throw new Error(`docs/scaling.md has no ${beginning} … ${ending}`);
  writeFileSync(PAGE, `${text.slice(0, begin)}${beginning}\n\n${table}\n\n${text.slice(end)}`);
}

export function round(value: number, digits = 0): string {
  return value.toLocaleString("en", { maximumFractionDigits: digits, minimumFractionDigits: digits });
}
