import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { cpus } from "node:os";
import { CONTESTANTS } from "./contestants/all.ts";
import { drawBars, drawGrid } from "./pictures.ts";
import { planDay, type FaultName } from "./plan.ts";
import type { DayResult } from "./play.ts";
import type { Outcome } from "./tally.ts";
import type { Verdict } from "./truth.ts";

const DOCS = new URL("../../docs/", import.meta.url);
const PAGE = new URL("performance.md", DOCS);
const RAW = new URL("day.json", DOCS);
const BEGIN = "<!-- day:begin -->";
const END = "<!-- day:end -->";

const NOTHING: Outcome = { right: 0, error: 0, wrong: 0, stale: 0, p50: 0, p95: 0, p99: 0, statuses: {} };
const FAULTS = planDay(10).faults.map(({ name }) => name);

/** The results that docs has of days as long as this one. */
export function readResults(minutes: number): readonly DayResult[] {
  if (!existsSync(RAW)) return [];
  return (JSON.parse(readFileSync(RAW, "utf8")) as DayResult[]).filter((each) => each.minutes === minutes);
}

/** Puts table, pictures and raw results into docs. */
export function writeReport(results: readonly DayResult[]): void {
  const page = readFileSync(PAGE, "utf8");
  const [begin, end] = [page.indexOf(BEGIN), page.indexOf(END)];
  if (begin === -1 || end < begin) throw new Error(`docs/performance.md has no ${BEGIN} … ${END}`);
  writeFileSync(PAGE, `${page.slice(0, begin)}${BEGIN}\n\n${formatReport(results)}\n\n${page.slice(end)}`);
  writeFileSync(RAW, `${JSON.stringify(results, null, 1)}\n`);
  for (const [name, svg] of Object.entries(drawPictures(results))) writeFileSync(new URL(name, DOCS), svg);
}

export function drawPictures(results: readonly DayResult[]): Readonly<Record<string, string>> {
  const all = inOrder(results);
  return {
    "day-faults.svg": drawGrid({
      title: "Reads answered right in each fault, of the registry that has it, and how long 99 of 100 took",
      columns: FAULTS,
      rows: all.map((result) => ({ name: result.name, cells: FAULTS.map((fault) => cellOf(result, fault)) })),
    }),
    "day-latency.svg": drawBars({
      title: "99 of 100 reads were answered within (milliseconds, logarithmic)",
      series: ["in quiet", "in faults, all registries"],
      rows: all.map((result) => ({
        name: result.name,
        values: [outcomeOf(result, "reads/quiet").p99, outcomeOf(result, "reads/in faults").p99],
      })),
      isLogarithmic: true,
      format: (value) => `${Math.round(value)} ms`,
    }),
    "day-calls.svg": drawBars({
      title: "What registries were asked in the day",
      series: ["calls", "of these beyond a registry's limit"],
      rows: all.map((result) => ({ name: result.name, values: [callsOf(result), beyondLimitOf(result)] })),
      isLogarithmic: true,
      format: (value) => value.toLocaleString("en"),
    }),
  };
}

/** Tables of Markdown, with how it was measured under them. */
export function formatReport(results: readonly DayResult[]): string {
  const all = inOrder(results);
  const names = all.map(({ name }) => name);
  const table = (rows: readonly (readonly [string, (result: DayResult) => string])[]) =>
    [
      ["", ...names],
      ["---", ...names.map(() => "---")],
      ...rows.map(([what, cell]) => [what, ...all.map((result) => cell(result))]),
    ].map((cells) => `| ${cells.join(" | ")} |`);
  const verdict = (kind: string, name: Verdict) => (result: DayResult) => String(outcomeOf(result, kind)[name]);
  const latency = (name: string) => (result: DayResult) => {
    const { p50, p95, p99 } = outcomeOf(result, name);
    return [p50, p95, p99].map((each) => String(Math.round(each))).join(" · ");
  };
  return [
    "![Reads answered right in each fault](day-faults.svg)",
    "![99 of 100 reads](day-latency.svg)",
    "![What registries were asked](day-calls.svg)",
    "",
    ...table([
      ["reads answered right", (result) => shareOf(outcomeOf(result, "reads"))],
      ["reads: errors", verdict("reads", "error")],
      ["reads: wrong", verdict("reads", "wrong")],
      ["reads: staler than promised", verdict("reads", "stale")],
      ["calls answered right", (result) => shareOf(outcomeOf(result, "calls"))],
      ["calls: errors", verdict("calls", "error")],
      ["calls: wrong", verdict("calls", "wrong")],
      ["reads in quiet: p50 · p95 · p99, ms", latency("reads/quiet")],
      ["reads in faults", latency("reads/in faults")],
      ["calls in quiet", latency("calls/quiet")],
      ["calls in faults", latency("calls/in faults")],
      ["asked of registries", (result) => String(callsOf(result))],
      ["of these beyond a limit", (result) => String(beyondLimitOf(result))],
      ["a cold herd reads a page", (result) => times(Math.max(...result.registries.map((each) => each.coldReadings)))],
      ["a change is seen first, last", sightOf],
      ["CPU, s", ({ usage }) => usage.seconds.toFixed(1)],
      ["memory at most, MiB", ({ usage }) => (usage.memory / 2 ** 20).toFixed(0)],
    ]),
    "",
    "Reads in each fault, of the registry that has it (of all, where none has): the share that was answered right, p99 in",
    "milliseconds.",
    "",
    ...table(
      FAULTS.map((fault) => [
        fault,
        (result: DayResult) => {
          const cell = cellOf(result, fault);
          return cell === undefined ? "–" : cell.text;
        },
      ]),
    ),
    "",
    describeRun(all),
  ].join("\n");
}

function cellOf(result: DayResult, fault: FaultName): { text: string; goodness: number } | undefined {
  if (fault === "restart" && !result.canRestart) return undefined;
  const affected = outcomeOf(result, `reads/${fault}/affected`);
  const outcome = affected === NOTHING ? outcomeOf(result, `reads/${fault}`) : affected;
  if (outcome === NOTHING) return undefined;
  const share = rightShare(outcome);
  // Green is for those who hold what this gateway promises; half of the answers is as bad as it gets.
  const goodness = share >= 0.999 ? 1 : Math.max(0, 0.8 * (share - 0.5) * 2);
  return { text: `${shareOf(outcome)}, ${Math.round(outcome.p99)}`, goodness };
}

/** When a wallet saw the change first, and when one saw last what was there before. */
function sightOf({ wallets: { firstSight, lastOld }, canPurge }: DayResult): string {
  const seconds = (value: number) => `${(value / 1000).toFixed(2)} s`;
  const first = firstSight === undefined ? "never" : seconds(firstSight);
  const last = Math.max(firstSight ?? 0, lastOld ?? 0);
  return `${first}, ${firstSight === undefined ? "never" : seconds(last)}${canPurge ? "" : " (no purge)"}`;
}

function rightShare({ right, error, wrong, stale }: Outcome): number {
  return right / Math.max(1, right + error + wrong + stale);
}

function shareOf(outcome: Outcome): string {
  // Never rounded up to what it is not.
  return `${(Math.floor(rightShare(outcome) * 10_000) / 100).toFixed(2).replace(/\.?0+$/, "")} %`;
}

const times = (count: number) => (count === 1 ? "once" : `${count} times`);
const callsOf = ({ registries }: DayResult) => registries.reduce((sum, { calls }) => sum + calls, 0);
const beyondLimitOf = ({ registries }: DayResult) => registries.reduce((sum, each) => sum + each.beyondLimit, 0);

function outcomeOf({ wallets }: DayResult, name: string): Outcome {
  return wallets.outcomes[name] ?? NOTHING;
}

function inOrder(results: readonly DayResult[]): readonly DayResult[] {
  const place = ({ name }: DayResult) => CONTESTANTS.findIndex((each) => each.name === name);
  return results.toSorted((a, b) => place(a) - place(b));
}

function describeRun(results: readonly DayResult[]): string {
  const dates = [...new Set(results.map(({ date }) => date))].join(", ");
  const most = (of: (result: DayResult) => number) => Math.max(...results.map(of));
  const asked = Math.round(most(({ wallets: { outcomes } }) => total(outcomes["reads"]) + total(outcomes["calls"])));
  return [
    `Measured on ${dates}, ${cpus().length} cores of ${cpus()[0]!.model.trim()}, Node ${process.versions.node}; a day in`,
    `${results[0]?.minutes ?? 0} minutes, ${asked.toLocaleString("en")} requests through each. The wallets' process took at most`,
    `${Math.round(most(({ wallets }) => wallets.cpu) * 100)} % of a core and was at most`,
    `${most(({ wallets }) => wallets.lateness).toFixed(0)} ms late in 99 of 100 turns: latencies below that say nothing.`,
    "Raw results: [day.json](day.json).",
  ].join(" ");
}

function total({ right, error, wrong, stale } = NOTHING): number {
  return right + error + wrong + stale;
}
