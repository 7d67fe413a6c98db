import { readFileSync, writeFileSync } from "node:fs";
import { cpus, loadavg } from "node:os";

const PAGE = new URL("../../docs/performance.md", import.meta.url);

/** A table of Markdown. */
export function table([head, ...rows]: readonly (readonly string[])[]): string[] {
  return [head!, head!.map(() => "---"), ...rows].map((cells) => `| ${cells.join(" | ")} |`);
}

/** Puts a text into docs/performance.md, between `<!-- NAME:begin -->` and `<!-- NAME:end -->`. */
export function writeSection(name: string, text: string): void {
  const page = readFileSync(PAGE, "utf8");
  const [begin, end] = [`<!-- ${name}:begin -->`, `<!-- ${name}:end -->`];
  const [from, to] = [page.indexOf(begin), page.indexOf(end)];
  if (from === -1 || to < from) throw new Error(`docs/performance.md has no ${begin} … ${end}`);
  writeFileSync(PAGE, `${page.slice(0, from)}${begin}\n\n${text}\n\n${page.slice(to)}`);
}

/** The machine's load over the last minute. */
export function loadNow(): string {
  return loadavg()[0]!.toFixed(1);
}

/** When, and on what: for the line under a table. */
export function describeMachine(): string {
  const date = new Date().toISOString().slice(0, 10);
  return `${date}, ${cpus().length} cores of ${cpus()[0]!.model.trim()}, Node ${process.versions.node}`;
}
