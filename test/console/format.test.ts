import { expect, test } from "vitest";
import { sayMilliseconds, sayNumber, sayRate, sayRelative, sayShare, shorten } from "../../console/format.ts";

test.each([
  [undefined, "–"],
  [null, "–"],
  [0, "0"],
  [3.44, "3.4"],
  [999.6, "1,000"],
  [1_234, "1,234"],
  [12_345, "12.3k"],
  [4_560_000, "4.6m"],
])("a number is short enough to compare: %s", (value, text) => {
  expect(sayNumber(value)).toBe(text);
});

test("what is there is never shown as nothing, and nearly all not as all", () => {
  expect(sayRate(0.004)).toBe("<0.1");
  expect(sayRate(0)).toBe("0");
  expect(sayShare(0.0004)).toBe("<0.1 %");
  expect(sayShare(0.9997)).toBe(">99.9 %");
  expect(sayShare(1)).toBe("100 %");
});

test("durations have their unit", () => {
  expect(sayMilliseconds(0.42)).toBe("0.4 ms");
  expect(sayMilliseconds(35)).toBe("35 ms");
  expect(sayMilliseconds(1_200)).toBe("1.2 s");
});

test("a moment is told from now, in either direction", () => {
  expect(sayRelative(1_000, 1_400)).toBe("now");
  expect(sayRelative(0, 4_600)).toBe("5 s ago");
  expect(sayRelative(3_600_000, 0)).toBe("in 1 h");
});

test("a long text keeps its beginning and its end", () => {
  const admin = `registry::1220${"0123456789abcdef".repeat(4)}`;
  const short = shorten(admin, 32);
  expect(short).toHaveLength(32);
  expect(admin.startsWith(short.split("…")[0]!)).toBe(true);
  expect(admin.endsWith(short.split("…")[1]!)).toBe(true);
  expect(shorten("short")).toBe("short");
});
