import type { Duration } from "../clock.ts";

const DURATIONS = [
  ["d", 86_400_000],
  ["h", 3_600_000],
  ["min", 60_000],
  ["s", 1_000],
] as const;

/** A duration as people say it, by its two largest units: `350 ms`, `12 s`, `4 min 10 s`, `3 d 2 h`. */
export function sayDuration(duration: Duration): string {
  const length = Math.abs(duration);
  if (length < 1_000) return `${Math.round(length)} ms`;
  if (length < 10_000) return `${round(length / 1_000)} s`;
  const seconds = Math.round(length / 1_000) * 1_000;
  const first = DURATIONS.findIndex(([, factor]) => seconds >= factor);
  const [unit, factor] = DURATIONS[first]!;
  const [smaller, part] = DURATIONS[first + 1] ?? ["", Infinity];
  const rest = Math.floor((seconds % factor) / part);
  const whole = `${Math.floor(seconds / factor)} ${unit}`;
  return rest === 0 ? whole : `${whole} ${rest} ${smaller}`;
}

const SIZES = ["B", "KiB", "MiB", "GiB", "TiB"] as const;

/** A size as people say it: `812 B`, `34.1 MiB`. */
export function saySize(bytes: number): string {
  let [size, unit] = [bytes, 0];
  while (size >= 1024 && unit < SIZES.length - 1) {
    size /= 1024;
    unit += 1;
  }
  return `${round(size)} ${SIZES[unit]}`;
}

/** `1 node`, `2 nodes`. */
export function sayCount(number: number, one: string, many = `${one}s`): string {
  return `${number} ${number === 1 ? one : many}`;
}

function round(value: number): number {
  return Math.round(value * 10) / 10;
}
