import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import { formatHttpDate, parseHttpDate } from "../../src/cache/rfc/freshness.ts";

const NOW = Date.UTC(2026, 5, 1);
const WANTED = Date.UTC(1994, 10, 6, 8, 49, 37);

describe("an HTTP-date", () => {
  test.for([
    ["IMF-fixdate", "Sun, 06 Nov 1994 08:49:37 GMT", WANTED],
    ["RFC 850", "Sunday, 06-Nov-94 08:49:37 GMT", WANTED],
    ["asctime", "Sun Nov  6 08:49:37 1994", WANTED],
    ["asctime with a two-digit day", "Wed Nov 16 08:49:37 1994", Date.UTC(1994, 10, 16, 8, 49, 37)],
    ["weekday in another case", "SUN, 06 Nov 1994 08:49:37 GMT", WANTED],
    ["month in another case", "Sun, 06 NOV 1994 08:49:37 GMT", WANTED],
    ["zone in another case", "Sun, 06 Nov 1994 08:49:37 gMT", WANTED],
    ["a leap second", "Sat, 31 Dec 2016 23:59:60 GMT", Date.UTC(2017, 0, 1)],
    ["29 February of a leap year", "Thu, 29 Feb 2024 00:00:00 GMT", Date.UTC(2024, 1, 29)],
    ["a two-digit year at most 50 years ahead", "Friday, 01-Jan-76 00:00:00 GMT", Date.UTC(2076, 0, 1)],
    ["a two-digit year more than 50 years ahead", "Saturday, 01-Jan-77 00:00:00 GMT", Date.UTC(1977, 0, 1)],
    ["a year before 100", "Mon, 01 Jan 0001 00:00:00 GMT", new Date("0001-01-01T00:00:00Z").getTime()],
  ] as const)("is read in the form %s", ([, text, instant]) => {
    expect(parseHttpDate(text, NOW)).toBe(instant);
  });

  test.for([
    ["empty", ""],
    ["a number", "0"],
    ["a negative number", "-1"],
    ["another zone", "Sun, 06 Nov 1994 08:49:37 UTC"],
    ["an offset", "Sun, 06 Nov 1994 08:49:37 +0000"],
    ["no zone", "Sun, 06 Nov 1994 08:49:37"],
    ["a two-digit year", "Sun, 06 Nov 94 08:49:37 GMT"],
    ["no comma", "Sun 06 Nov 1994 08:49:37 GMT"],
    ["no weekday", "06 Nov 1994 08:49:37 GMT"],
    ["an unknown weekday", "Xyz, 06 Nov 1994 08:49:37 GMT"],
    ["two spaces", "Sun, 06  Nov  1994 08:49:37 GMT"],
    ["dashes", "Sun, 06-Nov-1994 08:49:37 GMT"],
    ["periods in the time", "Sun, 06 Nov 1994 08.49.37 GMT"],
    ["a one-digit hour", "Sun, 06 Nov 1994 8:49:37 GMT"],
    ["a one-digit day", "Sun, 6 Nov 1994 08:49:37 GMT"],
    ["hour 24", "Sun, 06 Nov 1994 24:00:00 GMT"],
    ["minute 60", "Sun, 06 Nov 1994 08:60:00 GMT"],
    ["second 61", "Sun, 06 Nov 1994 08:49:61 GMT"],
    ["31 November", "Mon, 31 Nov 1994 08:49:37 GMT"],
    ["29 February of a common year", "Sun, 29 Feb 2026 00:00:00 GMT"],
    ["day 0", "Sun, 00 Nov 1994 08:49:37 GMT"],
    ["text after it", "Sun, 06 Nov 1994 08:49:37 GMT; foo"],
    ["two dates", "Sun, 06 Nov 1994 08:49:37 GMT, Sun, 06 Nov 1994 08:49:37 GMT"],
    ["ISO 8601", "1994-11-06T08:49:37Z"],
  ] as const)("is nothing else: %s", ([, text]) => {
    expect(parseHttpDate(text, NOW)).toBeUndefined();
  });

  test("is read as it was written", () => {
    fc.assert(
      fc.property(fc.integer({ min: 0, max: 4_000_000_000 }), (seconds) => {
        expect(parseHttpDate(formatHttpDate(seconds * 1000), NOW)).toBe(seconds * 1000);
      }),
    );
  });
});
