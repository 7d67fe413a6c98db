import { assert, integer, property } from "fast-check";
import { expect, test } from "vitest";
import { formatDuration, formatSize, parseDuration, parseSize } from "../../src/units.ts";

test.each([
  ["0s", 0],
  ["250ms", 250],
  ["30s", 30_000],
  ["10m", 600_000],
  ["1h", 3_600_000],
])("%s is %i ms", (text, duration) => {
  expect(parseDuration(text)).toBe(duration);
  expect(formatDuration(duration)).toBe(text);
});

test.each([
  ["0B", 0],
  ["512B", 512],
  ["64KiB", 65_536],
  ["1MiB", 1_048_576],
  ["2GiB", 2_147_483_648],
])("%s is %i bytes", (text, size) => {
  expect(parseSize(text)).toBe(size);
  expect(formatSize(size)).toBe(text);
});

test.each(["", "5", "s", "-1s", "1.5s", "1 s", "1S", "1h30m", "1234567890s", "1d", " 1s", "1s\n"])(
  "%j is no duration",
  (text) => expect(parseDuration(text)).toBeUndefined(),
);

test.each(["", "5", "1k", "1KB", "1kib", "-1B", "1.5MiB", "1 B"])("%j is no size", (text) =>
  expect(parseSize(text)).toBeUndefined(),
);

test("what is written is read again as the same", () => {
  const amount = integer({ min: 0, max: 999_999_999 });
  assert(property(amount, (value) => parseDuration(formatDuration(value)) === value));
  assert(property(amount, (value) => parseSize(formatSize(value)) === value));
});
