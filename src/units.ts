import type { Duration } from "./clock.ts";

/** Bytes. */
export type Size = number;

interface Unit {
  readonly name: string;
  /** Milliseconds or bytes of one. */
  readonly factor: number;
}

const DURATIONS: readonly Unit[] = [
  { name: "h", factor: 3_600_000 },
  { name: "m", factor: 60_000 },
  { name: "s", factor: 1_000 },
  { name: "ms", factor: 1 },
];

const SIZES: readonly Unit[] = [
  { name: "GiB", factor: 2 ** 30 },
  { name: "MiB", factor: 2 ** 20 },
  { name: "KiB", factor: 2 ** 10 },
  { name: "B", factor: 1 },
];

// Nine digits keep every product a safe integer.
export const DURATION_PATTERN = "^[0-9]{1,9}(ms|s|m|h)$";
export const SIZE_PATTERN = "^[0-9]{1,9}(B|KiB|MiB|GiB)$";

function parse(text: string, units: readonly Unit[]): number | undefined {
  const match = /^([0-9]{1,9})([A-Za-z]+)$/.exec(text);
  const unit = units.find(({ name }) => name === match?.[2]);
  return match === null || unit === undefined ? undefined : Number(match[1]) * unit.factor;
}

/** The largest unit in which `value` is a whole number; nothing is `0s` or `0B`. */
function format(value: number, units: readonly Unit[], zero: string): string {
  if (value === 0) return zero;
  const unit = units.find(({ factor }) => value % factor === 0) ?? units.at(-1)!;
  return `${value / unit.factor}${unit.name}`;
}

/** Milliseconds of `250ms`, `30s`, `10m`, `1h`; undefined when `text` is no duration. */
export function parseDuration(text: string): Duration | undefined {
  return parse(text, DURATIONS);
}

/** A duration as it is written in the configuration: `90000` is `90s`. */
export function formatDuration(value: Duration): string {
  return format(value, DURATIONS, "0s");
}

/** Bytes of `512B`, `64KiB`, `1MiB`, `2GiB`; undefined when `text` is no size. */
export function parseSize(text: string): Size | undefined {
  return parse(text, SIZES);
}

/** A size as it is written in the configuration: `65536` is `64KiB`. */
export function formatSize(value: Size): string {
  return format(value, SIZES, "0B");
}
