import type { Duration } from "../clock.ts";

/** Words of the health lines. All times are UTC. */

/** `1 node`, `13 nodes`. */
export function count(number: number, one: string, many: string): string {
  return `${number} ${number === 1 ? one : many}`;
}

const UNITS = [
  { name: "h", ms: 3_600_000 },
  { name: "min", ms: 60_000 },
  { name: "s", ms: 1_000 },
] as const;

/** A duration in its two largest units: `2 h 5 min`, `4 s`; nothing is `0 s`. */
export function sayDuration(duration: Duration): string {
  let left = Math.max(0, Math.round(duration / 1_000) * 1_000);
  const parts = UNITS.flatMap(({ name, ms }) => {
    const number = Math.floor(left / ms);
    left -= number * ms;
    return number === 0 ? [] : [`${number} ${name}`];
  });
  return parts.slice(0, 2).join(" ") || "0 s";
}

/** `13:11`, or `27 Nov, 13:11` on another day than `now`. Both are Unix ms. */
export function timeOf(at: number, now: number): string {
  const time = new Date(at).toISOString().slice(11, 16);
  return dateOf(at) === dateOf(now) ? time : `${dayOf(at)}, ${time}`;
}

/** `13:15:26`. */
export function timeOfDay(at: number): string {
  return new Date(at).toISOString().slice(11, 19);
}

/** `27 Nov 2026`. */
export function dateOf(at: number): string {
  return `${dayOf(at)} ${new Date(at).getUTCFullYear()}`;
}

function dayOf(at: number): string {
  const date = new Date(at);
  return `${date.getUTCDate()} ${MONTHS[date.getUTCMonth()]}`;
}

const MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
