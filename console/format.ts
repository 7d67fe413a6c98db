import { sayDuration, saySize } from "../src/words/quantity.ts";

/** Stands where there is nothing to show. */
export const NOTHING = "–";

const WHOLE = new Intl.NumberFormat("en-GB", { maximumFractionDigits: 0 });
const SMALL = new Intl.NumberFormat("en-GB", { maximumFractionDigits: 1 });
const LARGE = new Intl.NumberFormat("en-GB", { notation: "compact", maximumFractionDigits: 1 });
const CLOCK = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit", second: "2-digit" });
const MINUTE = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit" });
const DATE = new Intl.DateTimeFormat("en-GB", { dateStyle: "medium", timeStyle: "medium" });

type Value = number | null | undefined;

/** `12`, `3.4`, `12.3k`; a number that people compare at a glance. */
export function sayNumber(value: Value): string {
  if (value === null || value === undefined) return NOTHING;
  if (value >= 10_000) return LARGE.format(value).toLowerCase();
  return value >= 100 || Number.isInteger(value) ? WHOLE.format(value) : SMALL.format(value);
}

/** A number of events in a second: what is there is never shown as 0. */
export function sayRate(value: Value): string {
  return value !== null && value !== undefined && value > 0 && value < 0.05 ? "<0.1" : sayNumber(value);
}

/** Of a share from 0 to 1: `97.3 %`. */
export function sayShare(value: Value): string {
  if (value === null || value === undefined) return NOTHING;
  const percent = value * 100;
  // 99.97 % is not everything, and 0.02 % not nothing.
  if (percent > 99.9 && percent < 100) return ">99.9 %";
  if (percent > 0 && percent < 0.1) return "<0.1 %";
  return `${SMALL.format(percent)} %`;
}

/** Of milliseconds: `0.4 ms`, `35 ms`, `1.2 s`. */
export function sayMilliseconds(value: Value): string {
  if (value === null || value === undefined) return NOTHING;
  return value < 10 ? `${SMALL.format(value)} ms` : sayDuration(value);
}

/** Of bytes: `34.1 MiB`. */
export function sayBytes(value: Value): string {
  return value === null || value === undefined ? NOTHING : saySize(value);
}

/** `14:03:22`, in the reader's time zone. */
export function sayClock(instant: number): string {
  return CLOCK.format(instant);
}

/** `14:03` */
export function sayMinute(instant: number): string {
  return MINUTE.format(instant);
}

/** `22 Nov 2026, 14:03:22` */
export function sayDate(instant: number | string): string {
  const time = typeof instant === "number" ? instant : Date.parse(instant);
  return Number.isNaN(time) ? String(instant) : DATE.format(time);
}

/** `12 s ago`, `in 3 h` */
export function sayRelative(instant: number, now: number): string {
  const distance = instant - now;
  if (Math.abs(distance) < 1_000) return "now";
  // Under ten seconds `sayDuration` says tenths, which would flicker.
  const length = Math.abs(distance) < 10_000 ? Math.round(distance / 1_000) * 1_000 : distance;
  return length < 0 ? `${sayDuration(length)} ago` : `in ${sayDuration(length)}`;
}

/** `1220abcd…ef01` for what is long; the whole is in a title, and is what is copied. */
export function shorten(text: string, most = 44): string {
  if (text.length <= most) return text;
  const tail = Math.floor(most / 4);
  return `${text.slice(0, most - tail - 1)}…${text.slice(-tail)}`;
}
