import type { Latency } from "../src/observe/totals.ts";
import type { Status } from "../src/operations/types.ts";

/** The status as this page saw it, again and again since it was opened. */
export type Samples = readonly Status[];

/** Half an hour of them. */
const MOST_SAMPLES = 360;

/** Figures are over the last minute. */
const WINDOW = 60_000;

/** A process that was started anew counts from nothing: what was seen before it is no use. */
export function addSample(samples: Samples, status: Status): Samples {
  const last = samples.at(-1);
  if (last?.now === status.now) return samples;
  const kept = last?.since === status.since && last.replica === status.replica ? samples : [];
  return [...kept, status].slice(-MOST_SAMPLES);
}

/** Events in a second, of a count that grows, over the last minute; undefined before the second look. */
export function rateOf(samples: Samples, count: (status: Status) => number): number | undefined {
  const [from, to] = span(samples);
  return from === undefined ? undefined : (count(to) - count(from)) / ((to.now - from.now) / 1_000);
}

/** The share of one count in another, over the last minute; undefined where nothing was counted. */
export function shareOf(
  samples: Samples,
  part: (status: Status) => number,
  whole: (status: Status) => number,
): number | undefined {
  const [from, to] = span(samples);
  if (from === undefined) return undefined;
  const all = whole(to) - whole(from);
  return all <= 0 ? undefined : (part(to) - part(from)) / all;
}

/** Seconds that a share of what was counted took at most, over the last minute. */
export function quantileOf(
  samples: Samples,
  quantile: number,
  latencyOf: (status: Status) => Latency | undefined,
  bounds: readonly number[],
): number | undefined {
  const [from, to] = span(samples);
  const before = from && latencyOf(from);
  const after = from && latencyOf(to);
  if (before === undefined || after === undefined) return undefined;
  const counts = after.map((count, i) => count - before[i]!);
  const wanted = quantile * counts.reduce((sum, count) => sum + count, 0);
  if (wanted === 0) return undefined;
  let seen = 0;
  for (const [i, count] of counts.entries()) {
    if (seen + count >= wanted) {
      const low = bounds[i - 1] ?? 0;
      const high = bounds[i] ?? low * 2;
      return low + ((wanted - seen) / count) * (high - low);
    }
    seen += count;
  }
  return bounds.at(-1);
}

/** What a chart draws: one for each look but the first. */
export interface Point {
  readonly at: number;
  /** Undefined: nothing was counted then. */
  readonly value: number | undefined;
}

export function series(samples: Samples, value: (two: Samples) => number | undefined): readonly Point[] {
  return samples.slice(1).map((status, i) => ({ at: status.now, value: value([samples[i]!, status]) }));
}

function span(samples: Samples): [Status, Status] | [undefined, undefined] {
  const to = samples.at(-1);
  const from = to && samples.find(({ now }) => to.now - now <= WINDOW);
  return from === undefined || to === undefined || from === to ? [undefined, undefined] : [from, to];
}
