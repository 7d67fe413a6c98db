import { readFileSync, writeFileSync } from "node:fs";
import { cpus } from "node:os";
import { findNginx } from "./nginx.ts";
import { versionOf } from "../support/programs.ts";
import type { Result } from "./row.ts";
import { findVarnish } from "./varnish.ts";

const PAGE = new URL("../../docs/performance.md", import.meta.url);
const BEGIN = "<!-- bench:begin -->";
const END = "<!-- bench:end -->";

/** The results as a Markdown table, with the machine, the versions, the date and the notes under it. */
export function formatReport(results: readonly Result[], notes: ReadonlySet<string>): string {
  const head = ["what", "against", "CPU per request", "ratio", "middle half", "at most", "aim"];
  const rows = results.map(({ what, against, ratio, bound, aim, cpu }) => [
    what,
    against,
    cpu === undefined ? "" : `${cpu[0].toFixed(1)} : ${cpu[1].toFixed(1)} µs`,
    ratio.median.toFixed(2) + (bound !== undefined && ratio.median > bound ? " ✗" : ""),
    `${ratio.low.toFixed(2)}–${ratio.high.toFixed(2)}`,
    bound?.toFixed(2) ?? "",
    aim?.toFixed(2) ?? "",
  ]);
  const texts = [describeMachine(), ...notes, "How it is measured, and why: [test/bench](../test/bench/README.md)"];
  return [...formatTable([head, ...rows]), "", texts.map((text) => `${text}.`).join(" ")].join("\n");
}

/** Puts the report into docs/performance.md. */
export function writeReport(report: string): void {
  const text = readFileSync(PAGE, "utf8");
  const [begin, end] = [text.indexOf(BEGIN), text.indexOf(END)];
  if (begin === -1 || end < begin) throw new Error(`docs/performance.md has no ${BEGIN} … ${END}`);
  writeFileSync(PAGE, `${text.slice(0, begin)}${BEGIN}\n\n${report}\n\n${text.slice(end)}`);
}

function formatTable([head, ...rows]: readonly (readonly string[])[]): string[] {
  return [head!, head!.map(() => "---"), ...rows].map((cells) => `| ${cells.join(" | ")} |`);
}

function describeMachine(): string {
  const nginx = findNginx();
  const varnish = findVarnish();
  const versions = [
    `Node ${process.versions.node}`,
    nginx === undefined ? undefined : `nginx ${versionOf(nginx, "-v")}`,
    varnish === undefined ? undefined : `Varnish ${versionOf(varnish, "-V")}`,
  ].filter((each) => each !== undefined);
  const date = new Date().toISOString().slice(0, 10);
  return `Measured on ${date}, ${cpus().length} cores of ${cpus()[0]!.model.trim()}, ${versions.join(", ")}`;
}
