import type { Duration, Instant } from "../../clock.ts";
import { fieldValue, fieldValues, type Fields } from "../../fields.ts";
import { parseDeltaSeconds } from "./cache-control.ts";
import { parseHttpDate } from "./http-date.ts";

/** When a response was asked for and received on the gateway's clock, and what the wall clock said at receipt. */
export interface Receipt {
  readonly requestedAt: Instant;
  readonly receivedAt: Instant;
  readonly receivedWall: number;
}

/** Seconds in `Date` are whole: below this, a difference is rounding and transit and says nothing about age. */
const DATE_ROUNDING = 999;

/**
 * The `Age` of a response in milliseconds; 0 when absent or not a number (RFC 9111 §5.1: of a list the first member
 * counts, what is invalid is ignored).
 */
export function ageValue(fields: Fields): Duration {
  const first = fieldValue(fields, "age")?.split(",")[0]?.trim() ?? "";
  return parseDeltaSeconds(first) ?? 0;
}

/** The response's `Date` in milliseconds since the Unix epoch; undefined when absent, repeated or malformed. */
export function dateValue(fields: Fields, wallNow: number): number | undefined {
  const values = fieldValues(fields, "date");
  return values.length === 1 ? parseHttpDate(values[0]!, wallNow) : undefined;
}

/**
 * How old a response was when it was received (RFC 9111 §4.2.3, corrected_initial_age): the larger of what the clocks
 * show and what `Age` says plus the time the answer took.
 */
export function correctedInitialAge(fields: Fields, receipt: Receipt): Duration {
  const responseDelay = Math.max(0, receipt.receivedAt - receipt.requestedAt);
  return Math.max(apparentAge(fields, receipt.receivedWall), ageValue(fields) + responseDelay);
}

/**
 * The earliest instant at which a response can have been made: it was asked for then, and older by its `Age` if a cache
 * answered. `Date` is left out: the clock of a registry is nothing to compare its own answers by.
 */
export function madeAt(fields: Fields, { requestedAt }: Pick<Receipt, "requestedAt">): Instant {
  return requestedAt - ageValue(fields);
}

/** RFC 9111 §4.2.3, apparent_age. Without the allowance a fresh second-old `Date` would eat half of `max-age=2`. */
function apparentAge(fields: Fields, receivedWall: number): Duration {
  const date = dateValue(fields, receivedWall);
  if (date === undefined) return 0;
  const difference = Math.max(0, receivedWall - date);
  return difference < 2_000 ? Math.max(0, difference - DATE_ROUNDING) : difference;
}
