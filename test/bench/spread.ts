/** Several measurements of one thing. */
export interface Spread {
  readonly median: number;
  /** Half of the measurements are between these. */
  readonly low: number;
  readonly high: number;
}

export function spreadOf(values: readonly number[]): Spread {
  const sorted = values.toSorted((a, b) => a - b);
  const at = (share: number) => sorted[Math.round((sorted.length - 1) * share)]!;
  return { median: at(0.5), low: at(0.25), high: at(0.75) };
}
