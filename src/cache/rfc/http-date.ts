const SHORT_DAYS = "mon|tue|wed|thu|fri|sat|sun";
const LONG_DAYS = "monday|tuesday|wednesday|thursday|friday|saturday|sunday";
const MONTHS = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
const MONTH = MONTHS.join("|");
const TIME = "(\\d{2}):(\\d{2}):(\\d{2})";

// RFC 9111 §4.2 asks caches to match names of days, months and the zone in any case.
const IMF_FIXDATE = new RegExp(`^(?:${SHORT_DAYS}), (\\d{2}) (${MONTH}) (\\d{4}) ${TIME} GMT$`, "i");
const RFC850 = new RegExp(`^(?:${LONG_DAYS}), (\\d{2})-(${MONTH})-(\\d{2}) ${TIME} GMT$`, "i");
const ASCTIME = new RegExp(`^(?:${SHORT_DAYS}) (${MONTH}) ( \\d|\\d{2}) ${TIME} (\\d{4})$`, "i");

/**
 * An HTTP-date as milliseconds since the Unix epoch, or undefined when it is none of the three forms of RFC 9110
 * §5.6.7. Nothing else is guessed: a malformed `Expires` has to count as the past.
 *
 * @param wallNow milliseconds since the Unix epoch; a two-digit year more than 50 years ahead of it is a past one.
 */
export function parseHttpDate(text: string, wallNow: number): number | undefined {
  const imf = IMF_FIXDATE.exec(text);
  if (imf !== null) return instantOf([imf[3]!, imf[2]!, imf[1]!, imf[4]!, imf[5]!, imf[6]!]);
  const asctime = ASCTIME.exec(text);
  if (asctime !== null) {
    return instantOf([asctime[6]!, asctime[1]!, asctime[2]!, asctime[3]!, asctime[4]!, asctime[5]!]);
  }
  const rfc850 = RFC850.exec(text);
  if (rfc850 === null) return undefined;
  const year = fullYear(Number(rfc850[3]), wallNow);
  return instantOf([String(year), rfc850[2]!, rfc850[1]!, rfc850[4]!, rfc850[5]!, rfc850[6]!]);
}

/** The IMF-fixdate form, the one to be sent. */
export function formatHttpDate(wall: number): string {
  return new Date(wall).toUTCString();
}

/** RFC 9110 §5.6.7: a year that appears to be more than 50 years in the future is the most recent past one. */
function fullYear(twoDigits: number, wallNow: number): number {
  const thisYear = new Date(wallNow).getUTCFullYear();
  const year = thisYear - (thisYear % 100) + twoDigits;
  return year > thisYear + 50 ? year - 100 : year;
}

/** Year, month name, day, hour, minute, second; undefined when there is no such moment (31 Feb, 25:00). */
function instantOf(parts: readonly [string, string, string, string, string, string]): number | undefined {
  const [yearText, monthName, dayText, hourText, minuteText, secondText] = parts;
  const month = MONTHS.indexOf(monthName.toLowerCase());
  const [year, day, hour] = [Number(yearText), Number(dayText), Number(hourText)];
  const [minute, second] = [Number(minuteText), Number(secondText)];
  // 60 is a leap second; it counts as the first second of the next minute.
  if (hour > 23 || minute > 59 || second > 60) return undefined;
  const date = new Date(0);
  date.setUTCFullYear(year, month, day);
  if (date.getUTCMonth() !== month || date.getUTCDate() !== day) return undefined;
  date.setUTCHours(hour, minute, second);
  return date.getTime();
}
