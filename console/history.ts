import type { HistoryAnswer } from "../src/operations/answers.ts";

type Measures = readonly (number | null)[];
type UpstreamHistory = HistoryAnswer["upstreams"][number];

/** What is known already, with what an answer to `?since=` adds; no longer than what the gateway keeps. */
export function mergeHistory(known: HistoryAnswer | undefined, added: HistoryAnswer): HistoryAnswer {
  if (known === undefined || added.complete || known.stepSeconds !== added.stepSeconds) return added;
  const join = joiner(known, added);
  return {
    ...added,
    complete: true,
    times: join.known(known.times, added.times),
    requests: join.table(known.requests, added.requests),
    errors: join.table(known.errors, added.errors),
    latencyMs: join.quantiles(known.latencyMs, added.latencyMs),
    hitRatio: join.known(known.hitRatio, added.hitRatio),
    callsSpared: join.known(known.callsSpared, added.callsSpared),
    upstreams: mergeUpstreams(known.upstreams, added.upstreams, join),
    residentBytes: join.known(known.residentBytes, added.residentBytes),
    cacheBytes: join.known(known.cacheBytes, added.cacheBytes),
    eventLoopDelayMs: join.known(known.eventLoopDelayMs, added.eventLoopDelayMs),
  };
}

type Joiner = ReturnType<typeof joiner>;

function joiner(one: HistoryAnswer, other: HistoryAnswer) {
  // Two answers may overlap: what came again is left out.
  const last = one.times.at(-1) ?? -Infinity;
  const from = other.times.findIndex((time) => time > last);
  const skipped = from === -1 ? other.times.length : from;
  const lengths = [one.times.length, other.times.length] as const;
  function columns<Value>(before: readonly Value[] | undefined, after: readonly Value[] | undefined, none: Value) {
    const old = before ?? Array.from({ length: lengths[0] }, () => none);
    const fresh = after ?? Array.from({ length: lengths[1] }, () => none);
    return [...old, ...fresh.slice(skipped)].slice(-other.maxSteps);
  }
  return {
    known: <Value>(before: readonly Value[], after: readonly Value[]) => columns(before, after, before[0]!),
    counts: (before: readonly number[] | undefined, after: readonly number[] | undefined) => columns(before, after, 0),
    table(before: Readonly<Record<string, readonly number[]>>, after: typeof before) {
      const names = new Set([...Object.keys(before), ...Object.keys(after)]);
      return Object.fromEntries([...names].map((name) => [name, columns(before[name], after[name], 0)]));
    },
    quantiles: (before: UpstreamHistory["latencyMs"] | undefined, after: typeof before) => ({
      p50: columns<number | null>(before?.p50, after?.p50, null),
      p99: columns<number | null>(before?.p99, after?.p99, null),
    }),
  };
}

/** In the order of the later answer; what it has no more has nothing to draw from then on. */
function mergeUpstreams(
  before: readonly UpstreamHistory[],
  after: readonly UpstreamHistory[],
  join: Joiner,
): UpstreamHistory[] {
  const names = new Set([...after, ...before].map(({ upstream }) => upstream));
  return [...names].map((name) => {
    const old = before.find(({ upstream }) => upstream === name);
    const fresh = after.find(({ upstream }) => upstream === name);
    return {
      upstream: name,
      calls: join.counts(old?.calls, fresh?.calls),
      failed: join.counts(old?.failed, fresh?.failed),
      latencyMs: join.quantiles(old?.latencyMs, fresh?.latencyMs),
    };
  });
}

/** How things were in the last minute. Rates are per second; undefined where nothing was measured. */
export interface LastMinute {
  readonly requests: number | undefined;
  readonly refused: number | undefined;
  readonly errors: number | undefined;
  readonly hitRatio: number | undefined;
  readonly p50: number | undefined;
  readonly p99: number | undefined;
  readonly calls: number | undefined;
  readonly failedCalls: number | undefined;
  readonly spared: number | undefined;
}

export function lastMinuteOf(history: HistoryAnswer): LastMinute {
  const steps = Math.max(1, Math.round(60 / history.stepSeconds));
  const rate = (lists: readonly (readonly number[])[]) => rateOf(lists, steps, history.stepSeconds);
  const { requests, errors, upstreams, latencyMs } = history;
  return {
    requests: rate(Object.values(requests)),
    refused: rate(requests["refused"] === undefined ? [[]] : [requests["refused"]]),
    errors: history.times.length === 0 ? undefined : (rate(Object.values(errors)) ?? 0),
    hitRatio: latestMean(history.hitRatio, steps),
    p50: latestMean(latencyMs.p50, steps),
    p99: latestMost(latencyMs.p99, steps),
    calls: rate(upstreams.map(({ calls }) => calls)),
    failedCalls: rate(upstreams.map(({ failed }) => failed)),
    spared: rate([history.callsSpared]),
  };
}

/** In the last minute: calls and failures of one upstream a second; undefined where it is not told apart. */
export function callRatesOf(
  history: HistoryAnswer | undefined,
  upstream: string,
): { calls: number; failed: number } | undefined {
  const own = history?.upstreams.find((each) => each.upstream === upstream);
  if (history === undefined || own === undefined) return undefined;
  const steps = Math.max(1, Math.round(60 / history.stepSeconds));
  const rate = (list: readonly number[]) => rateOf([list], steps, history.stepSeconds) ?? 0;
  return { calls: rate(own.calls), failed: rate(own.failed) };
}

function rateOf(lists: readonly (readonly number[])[], steps: number, stepSeconds: number): number | undefined {
  const latest = lists.map((list) => list.slice(-steps));
  const longest = Math.max(0, ...latest.map((list) => list.length));
  if (longest === 0) return undefined;
  const sum = latest.flat().reduce((total, value) => total + value, 0);
  return sum / (longest * stepSeconds);
}

function measuredIn(list: Measures, steps: number): number[] {
  return list.slice(-steps).filter((value) => value !== null);
}

function latestMean(list: Measures, steps: number): number | undefined {
  const values = measuredIn(list, steps);
  return values.length === 0 ? undefined : values.reduce((total, value) => total + value, 0) / values.length;
}

function latestMost(list: Measures, steps: number): number | undefined {
  const values = measuredIn(list, steps);
  return values.length === 0 ? undefined : Math.max(...values);
}

/** Counts in steps as events in a second. */
export function perSecond(counts: readonly number[], { stepSeconds }: HistoryAnswer): number[] {
  return counts.map((count) => count / stepSeconds);
}

/** Several lists of counts as one. */
export function sumOf(lists: readonly (readonly number[])[], length: number): number[] {
  return Array.from({ length }, (_, i) => lists.reduce((total, list) => total + (list[i] ?? 0), 0));
}

/** Measures of each minute, the latest last: what a table of a chart shows. */
export function byMinute(
  times: readonly number[],
  lists: readonly Measures[],
): readonly { readonly at: number; readonly values: Measures }[] {
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
