import type { HistoryAnswer } from "../src/operations/answers.ts";

type Line = HistoryAnswer["lines"][string];

/** What is known already, with what an answer to `?since=` adds; no longer than what the gateway keeps. */
export function mergeHistory(known: HistoryAnswer | undefined, added: HistoryAnswer): HistoryAnswer {
  if (known === undefined || added.complete || known.stepSeconds !== added.stepSeconds) return added;
  // Two answers may overlap: what came again is left out.
  const last = known.times.at(-1) ?? -Infinity;
  const fresh = added.times.flatMap((time, at) => (time > last ? [at] : []));
  const join = <Value>(before: readonly Value[], after: readonly Value[]) =>
    [...before, ...fresh.map((at) => after[at]!)].slice(-added.maxSteps);
  const names = new Set([...Object.keys(known.lines), ...Object.keys(added.lines)]);
  return {
    ...added,
    complete: true,
    times: join(known.times, added.times),
    lines: Object.fromEntries(
      [...names].map((name) => [name, join(known.lines[name] ?? nothing(known), added.lines[name] ?? nothing(added))]),
    ),
  };
}

const nothing = ({ times }: HistoryAnswer): Line => times.map(() => null);

/** A line of the history; where there is none, there was nothing to measure. */
export function lineOf(history: HistoryAnswer, name: string): Line {
  return history.lines[name] ?? nothing(history);
}

/** The lines whose names begin so, by the rest of their names. */
export function linesOf({ lines }: HistoryAnswer, kind: string): readonly (readonly [of: string, line: Line])[] {
  return Object.entries(lines).flatMap(([name, line]) =>
    name.startsWith(`${kind}:`) ? [[name.slice(kind.length + 1), line] as const] : [],
  );
}

/** How things were in the last minute. Rates are per second; undefined where nothing was measured. */
export interface LastMinute {
  readonly requests: number | undefined;
  readonly errors: number | undefined;
  readonly hitRatio: number | undefined;
  readonly p50: number | undefined;
  readonly p99: number | undefined;
  readonly calls: number | undefined;
  readonly failedCalls: number | undefined;
  readonly spared: number | undefined;
}

export function lastMinuteOf(history: HistoryAnswer): LastMinute {
  const steps = stepsOfMinute(history);
  const rate = (lines: readonly Line[]) => rateOf(lines, steps, history.stepSeconds);
  const line = (name: string) => lineOf(history, name);
  return {
    requests: rate(linesOf(history, "requests").map(([, each]) => each)),
    errors: history.times.length === 0 ? undefined : (rate(linesOf(history, "errors").map(([, each]) => each)) ?? 0),
    hitRatio: latestMean(line("hitRatio"), steps),
    p50: latestMean(line("p50Ms"), steps),
    p99: latestMost(line("p99Ms"), steps),
    calls: rate([line("calls")]),
    failedCalls: rate([line("failedCalls")]),
    spared: rate([line("callsSpared")]),
  };
}

/** In the last minute: calls and failures of one upstream a second; undefined where it has no lines. */
export function callRatesOf(
  history: HistoryAnswer | undefined,
  upstream: string,
): { calls: number; failed: number } | undefined {
  if (history?.lines[`calls:${upstream}`] === undefined) return undefined;
  const rate = (name: string) =>
    rateOf([lineOf(history, `${name}:${upstream}`)], stepsOfMinute(history), history.stepSeconds) ?? 0;
  return { calls: rate("calls"), failed: rate("failed") };
}

function stepsOfMinute({ stepSeconds }: HistoryAnswer): number {
  return Math.max(1, Math.round(60 / stepSeconds));
}

function rateOf(lines: readonly Line[], steps: number, stepSeconds: number): number | undefined {
  const latest = lines.map((line) => line.slice(-steps));
  const longest = Math.max(0, ...latest.map((line) => line.length));
  if (longest === 0) return undefined;
  const sum = latest.flat().reduce<number>((total, value) => total + (value ?? 0), 0);
  return sum / (longest * stepSeconds);
}

function measuredIn(line: Line, steps: number): number[] {
  return line.slice(-steps).filter((value) => value !== null);
}

function latestMean(line: Line, steps: number): number | undefined {
  const values = measuredIn(line, steps);
  return values.length === 0 ? undefined : values.reduce((total, value) => total + value, 0) / values.length;
}

function latestMost(line: Line, steps: number): number | undefined {
  const values = measuredIn(line, steps);
  return values.length === 0 ? undefined : Math.max(...values);
}

/** Counts in steps as events in a second. */
export function perSecond(counts: Line, { stepSeconds }: HistoryAnswer): (number | null)[] {
  return counts.map((count) => (count === null ? null : count / stepSeconds));
}

/** All that was counted. */
export function totalOf(counts: Line): number {
  return counts.reduce<number>((total, count) => total + (count ?? 0), 0);
}

/** Measures of each minute, the latest last: what a table of a chart shows. */
export function byMinute(
  times: readonly number[],
  lists: readonly Line[],
): readonly { readonly at: number; readonly values: Line }[] {
  const minutes = new Map<number, number[]>();
  for (const [i, time] of times.entries()) {
    const minute = Math.floor(time / 60_000) * 60_000;
    minutes.set(minute, [...(minutes.get(minute) ?? []), i]);
  }
  return [...minutes].map(([at, steps]) => ({
    at,
    values: lists.map((list) => {
      const measured = steps.map((i) => list[i]).filter((value) => value !== null && value !== undefined);
      return measured.length === 0 ? null : measured.reduce((total, value) => total + value, 0) / measured.length;
    }),
  }));
}
