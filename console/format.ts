/** Stands where there is nothing to show. */
export const NOTHING = "–";

const NUMBER = new Intl.NumberFormat("en-GB", { maximumFractionDigits: 1 });
const WHOLE = new Intl.NumberFormat("en-GB", { maximumFractionDigits: 0 });
// As in the log, in the health's sentences and in the runbooks.
const UTC = { timeZone: "UTC" } as const;
const MINUTE = new Intl.DateTimeFormat("en-GB", { ...UTC, hour: "2-digit", minute: "2-digit" });
const SECOND = new Intl.DateTimeFormat("en-GB", { ...UTC, hour: "2-digit", minute: "2-digit", second: "2-digit" });
const DATE = new Intl.DateTimeFormat("en-GB", { ...UTC, dateStyle: "medium", timeStyle: "short" });

const SECONDS = 1_000;
const MINUTES = 60 * SECONDS;
const HOURS = 60 * MINUTES;
const DAYS = 24 * HOURS;

/** A figure and its unit, apart: `["1.2", "ms"]`. */
export type Figure = readonly [value: string, unit: string];

export const NO_FIGURE: Figure = [NOTHING, ""];

export function sayNumber(value: number): string {
  return value >= 100 || Number.isInteger(value) ? WHOLE.format(value) : NUMBER.format(value);
}

/** Events in a second; what happens at all is never shown as 0. */
export function rate(value: number | undefined): Figure {
  if (value === undefined) return NO_FIGURE;
  return [value > 0 && value < 0.05 ? "<0.1" : sayNumber(value), "/s"];
}

/** A share from 0 to 1. */
export function share(value: number | undefined): Figure {
  if (value === undefined) return NO_FIGURE;
  return [NUMBER.format(Math.floor(value * 1_000) / 10), "%"];
}

/** Seconds. */
export function latency(value: number | undefined): Figure {
  if (value === undefined) return NO_FIGURE;
  return value < 1 ? [sayNumber(value * 1_000), "ms"] : [sayNumber(value), "s"];
}

export function sayFigure([value, unit]: Figure): string {
  return unit === "" ? value : `${value} ${unit}`;
}

/** Milliseconds: `0.4 ms`, `35 ms`, `1.2 s`. */
export function sayMilliseconds(value: number): string {
  return sayFigure(latency(value / 1_000));
}

export function sayBytes(bytes: number): string {
  if (bytes < 1_024) return `${bytes} B`;
  return bytes < 1_024 ** 2 ? `${sayNumber(bytes / 1_024)} KiB` : `${sayNumber(bytes / 1_024 ** 2)} MiB`;
}

/** `14:03` */
export function sayMinute(instant: number): string {
  return MINUTE.format(instant);
}

/** `14:03:22` */
export function sayTime(instant: number | string): string {
  return SECOND.format(new Date(instant));
}

/** `since 14:03` today, `since 26 Nov 2026, 14:03` before. */
export function saySince(instant: number, now: number): string {
  return now - instant < DAYS / 2 ? `since ${sayMinute(instant)}` : `since ${DATE.format(instant)}`;
}

/** `12 s`, `4 min`, `3 h`, `2 days` */
export function saySpan(milliseconds: number): string {
  const length = Math.abs(milliseconds);
  if (length < MINUTES) return `${Math.round(length / SECONDS)} s`;
  if (length < HOURS) return `${Math.round(length / MINUTES)} min`;
  if (length < 2 * DAYS) return `${Math.round(length / HOURS)} h`;
  return `${Math.round(length / DAYS)} days`;
}

/** `12 s ago`, `in 3 h` */
export function sayRelative(instant: number, now: number): string {
  return instant > now ? `in ${saySpan(instant - now)}` : `${saySpan(now - instant)} ago`;
}

/** `1220abcd…ef01` for what is long; the whole belongs into a title. */
export function shorten(text: string, most = 40): string {
  return text.length <= most ? text : `${text.slice(0, most - 9)}…${text.slice(-8)}`;
}
