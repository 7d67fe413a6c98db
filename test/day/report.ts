import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { table } from "../bench/report.ts";
import { FAULT_NAMES } from "./plan.ts";
import type { DayResult } from "./play.ts";
import type { Outcome } from "./wallets-process.ts";

/** Results of the last days of each contestant, for tables of several runs. */
const KEPT = fileURLToPath(new URL("../../node_modules/.cache/registry-gateway-day", import.meta.url));
const RUNS = 3;

/** Puts a result beside those of before; the oldest of more than three goes. */
export function keep(result: DayResult): void {
  mkdirSync(KEPT, { recursive: true });
  const results = [...kept(result.name, result.minutes), result].slice(-RUNS);
  writeFileSync(fileOf(result.name, result.minutes), JSON.stringify(results));
}

export function kept(name: string, minutes: number): readonly DayResult[] {
  try {
    return JSON.parse(readFileSync(fileOf(name, minutes), "utf8")) as DayResult[];
  } catch {
    return [];
  }
}

function fileOf(name: string, minutes: number): string {
  return `${KEPT}/${name.replaceAll(/[^a-z]+/gi, "-")}-${minutes}.json`;
}

const NOTHING: Outcome = { right: 0, error: 0, wrong: 0, stale: 0, p99: 0 };
const outcome = ({ wallets }: DayResult, name: string): Outcome => wallets.outcomes[name] ?? NOTHING;
const total = ({ right, error, wrong, stale }: Outcome): number => right + error + wrong + stale;
const share = (each: Outcome): number => (100 * each.right) / Math.max(1, total(each));
/** Of the registry that has the fault; of all, where none has. */
function inFault(result: DayResult, kind: string, fault: string): Outcome {
  const affected = outcome(result, `${kind}/${fault}/affected`);
  return total(affected) > 0 ? affected : outcome(result, `${kind}/${fault}`);
}

type Figure = readonly [what: string, of: (result: DayResult) => number, digits?: number];
const worse = (kind: string) => (result: DayResult) => outcome(result, kind).wrong + outcome(result, kind).stale;

const FIGURES: readonly Figure[] = [
  ["reads answered right, %", (result) => share(outcome(result, "reads")), 2],
  ["reads: errors", (result) => outcome(result, "reads").error],
  ["reads: wrong or too stale", worse("reads")],
  ["calls answered right, %", (result) => share(outcome(result, "calls")), 2],
  ["calls: errors", (result) => outcome(result, "calls").error],
  ["calls: wrong", worse("calls")],
  ["asked of registries", ({ registries }) => registries.reduce((sum, { calls }) => sum + calls, 0)],
  ["of these beyond a limit", ({ registries }) => registries.reduce((sum, each) => sum + each.beyondLimit, 0)],
  ["times that a cold herd reads a page", ({ registries }) => Math.max(...registries.map((each) => each.coldReadings))],
  ["p99 of reads in quiet, ms", (result) => outcome(result, "reads/quiet").p99],
  ["p99 of reads in faults, ms", (result) => outcome(result, "reads/in faults").p99],
  ["p99 of calls in faults, ms", (result) => outcome(result, "calls/in faults").p99],
  ["CPU in quiet hours, s", ({ usage }) => usage.quiet, 1],
  ["CPU, s", ({ usage }) => usage.seconds, 1],
  ["memory in quiet hours, MiB", ({ usage }) => usage.memory / 2 ** 20],
];

/** Tables of Markdown: medians of the runs of each contestant, then what went wrong in each fault. */
export function formatReport(names: readonly string[], minutes: number): string {
  const all = names.map((name) => kept(name, minutes)).filter((runs) => runs.length > 0);
  if (all.length === 0) return `No day of ${minutes} minutes was played yet.`;
  const heads = ["", ...all.map((runs) => runs[0]!.name)];
  const rows = FIGURES.map(([what, of, digits = 0]) => [what, ...all.map((runs) => cut(median(runs.map(of)), digits))]);
  const faults = FAULT_NAMES.map((fault) =>
    [fault as string].concat(
      all.map((runs) => {
        const reads = runs.map((run) => inFault(run, "reads", fault));
        const errors = [...reads, ...runs.map((run) => inFault(run, "calls", fault))];
        const wrong = errors.reduce((count, each) => count + total(each) - each.right, 0) / runs.length;
        return `${cut(median(reads.map(share)), 1)} · ${Math.round(wrong)} · ${median(reads.map((each) => each.p99))}`;
      }),
    ),
  );
  return [
    ...table([heads, ...rows]),
    "",
    "In each fault, of the registry that has it (of all, where none has): reads answered right in %, reads and calls that were",
    "not, p99 of right reads in ms.",
    "",
    ...table([heads, ...faults]),
    "",
    describe(all.flat(), all),
  ].join("\n");
}

/** Never rounded up to what it is not. */
function cut(value: number, digits: number): string {
  const scale = 10 ** digits;
  return String(Math.floor(value * scale + 1e-9) / scale);
}

function median(values: readonly number[]): number {
  return values.toSorted((a, b) => a - b)[values.length >> 1]!;
}

function describe(results: readonly DayResult[], all: readonly (readonly DayResult[])[]): string {
  const counts = [...new Set(all.map((runs) => runs.length))].join(" or ");
  const late = Math.ceil(Math.max(...results.map(({ wallets }) => wallets.lateness)));
  const loads = results.map(({ load }) => Number(load));
  return (
    `A day in ${results[0]!.minutes} minutes, medians of runs (${counts}), the last on ${results.at(-1)!.machine}; the load was ` +
    `${Math.min(...loads)} to ${Math.max(...loads)}. The wallets' own process was at most ${late} ms late in 99 of 100 turns: ` +
    `latencies below that say nothing. ${describeRanks(all)}`
  );
}

/** Whether the order of the contestants is the same in all runs, figure by figure; what is alike within 5 % has one rank. */
function describeRanks(all: readonly (readonly DayResult[])[]): string {
  const runs = Math.min(...all.map((each) => each.length));
  if (runs < 2 || all.length < 2) return "";
  const differ = FIGURES.filter(([, of]) => {
    const figures = all.map((results) => results.slice(-runs).map(of));
    const compare = (a: number, b: number): number => (Math.abs(a - b) <= 0.05 * Math.max(a, b) ? 0 : Math.sign(a - b));
    return figures.some((some) =>
      figures.some((others) => {
        const signs = new Set(some.map((figure, run) => compare(figure, others[run]!)));
        return signs.has(1) && signs.has(-1);
      }),
    );
  });
  if (differ.length === 0) return "The ranks are the same in all runs.";
  return `The ranks are the same in all runs but for: ${differ.map(([what]) => what).join("; ")}.`;
}
