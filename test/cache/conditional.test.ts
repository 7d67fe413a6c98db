import { describe, expect, test } from "vitest";
import {
  codedEntityTag,
  isConditional,
  isNotModified,
  makeEntityTag,
  notModifiedFields,
  weakMatch,
} from "../../src/cache/rfc/conditional.ts";

const WALL = Date.UTC(2026, 0, 1, 12);
const at = (seconds: number): string => new Date(WALL + seconds * 1000).toUTCString();

describe("If-None-Match", () => {
  test.for([
    ['"a"', '"a"', true],
    ['"a"', '"b"', false],
    ['"a"', 'W/"a"', true],
    ['W/"a"', '"a"', true],
    ['W/"a"', 'W/"a"', true],
    ['"a", "b", "c"', '"a"', true],
    ['"a", "b", "c"', '"b"', true],
    ['"a","b",W/"c"', '"c"', true],
    ['"a, b"', '"a, b"', true],
    ['"x", "a, b"', '"a, b"', true],
    ['"x", "a, b"', '"a"', false],
    ['"x\\", "a"', '"a"', true],
    ['"x", "a\\"', '"a\\"', true],
    ["*", '"a"', true],
    [" * ", '"a"', true],
    ["*", undefined, true],
    ['"*"', '"a"', false],
    ['"a"', undefined, false],
    ["a", '"a"', false],
    ['"abcdef\u00fc"', '"abcdef\u00fc"', true],
    ['"A"', '"a"', false],
    ["", '"a"', false],
  ] as const)("%j against %j: %s", ([tags, etag, notModified]) => {
    const validators = { etag, lastModified: undefined, date: at(0) };
    expect(isNotModified({ "if-none-match": tags }, validators, WALL)).toBe(notModified);
  });
});

describe("If-Modified-Since", () => {
  test.for([
    ["the same date", at(-3000), at(-3000), true],
    ["later than the change", at(-2000), at(-3000), true],
    ["before the change", at(-4000), at(-3000), false],
    ["in RFC 850 form", "Thursday, 01-Jan-26 12:00:00 GMT", at(-3000), true],
    ["in asctime form", "Thu Jan  1 12:00:00 2026", at(-3000), true],
    ["malformed", "yesterday", at(-3000), false],
    ["a number", "0", at(-3000), false],
    ["a malformed Last-Modified", at(0), "never", false],
    ["no Last-Modified: after Date", at(10), undefined, true],
    ["no Last-Modified: before Date", at(-10), undefined, false],
  ] as const)("%s", ([, since, lastModified, notModified]) => {
    const validators = { etag: '"a"', lastModified, date: at(0) };
    expect(isNotModified({ "if-modified-since": since }, validators, WALL)).toBe(notModified);
  });

  test("does not count besides If-None-Match, whatever comes of it", () => {
    const validators = { etag: '"a"', lastModified: at(-3000), date: at(0) };
    const since = { "if-modified-since": at(0) };
    expect(isNotModified({ ...since, "if-none-match": '"b"' }, validators, WALL)).toBe(false);
    expect(isNotModified({ "if-none-match": '"a"', "if-modified-since": at(-9000) }, validators, WALL)).toBe(true);
  });
});

test("other conditions are not a cache's", () => {
  expect(isConditional({ "if-match": '"a"', "if-unmodified-since": at(0), "if-range": '"a"' })).toBe(false);
  expect(isNotModified({ "if-match": '"a"' }, { etag: '"a"', lastModified: undefined, date: at(0) }, WALL)).toBe(false);
});

test("a 304 has the fields that guide caches, and none about a body", () => {
  const fields = ["content-type", "application/json", "etag", '"a"', "date", "D", "cache-control", "C", "expires", "E"];
  const more = [
    "vary",
    "V",
    "content-location",
    "/l",
    "x-other",
    "1",
    "content-encoding",
    "gzip",
    "last-modified",
    "L",
  ];
  expect(notModifiedFields([...fields, ...more, "age", "1", "cache-status", "s"])).toEqual(
    // prettier-ignore
    ["etag", '"a"', "date", "D", "cache-control", "C", "expires", "E", "vary", "V", "content-location", "/l", "age", "1", "cache-status", "s"],
  );
});

describe("entity-tags", () => {
  test("made from equal bytes are equal and strong, from others not", () => {
    expect(makeEntityTag(Buffer.from("a"))).toBe(makeEntityTag(Buffer.from("a")));
    expect(makeEntityTag(Buffer.from("a"))).not.toBe(makeEntityTag(Buffer.from("b")));
    expect(makeEntityTag(Buffer.from("a"))).toMatch(/^"[\w-]{27}"$/);
  });

  test.for([
    ['"x"', '"x-gzip"'],
    ['W/"x"', 'W/"x-gzip"'],
    ["x", "x-gzip"],
  ] as const)("%s in gzip is %s", ([tag, coded]) => {
    expect(codedEntityTag(tag, "gzip")).toBe(coded);
    expect(weakMatch(tag, coded)).toBe(false);
  });
});
