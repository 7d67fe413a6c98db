import { describe, expect, test } from "vitest";
import type { Entry } from "../../src/sharing/entries.ts";
import { judgeResponse } from "../../src/cache/entry.ts";
import { conditionalFields, confirms, freshen } from "../../src/cache/rfc/conditional.ts";
import type { Fields } from "../../src/fields.ts";
import { policy } from "../support/cache-policy.ts";

const WALL = Date.UTC(2026, 0, 1, 12);
const DATE = new Date(WALL).toUTCString();
const MODIFIED = new Date(WALL - 86_400_000).toUTCString();

function entry(...fields: Fields): Entry {
  const fetched = {
    status: 200,
    fields: ["date", DATE, ...fields],
    body: Buffer.from("b"),
    requestedAt: 0,
    receivedAt: 0,
  };
  return judgeResponse({
    fetched,
    policy: policy(),
    headers: {},
    epoch: "g",
    softEpoch: "",
    receivedWall: WALL,
    shortening: 0,
  }).entry;
}

describe("the condition sent upstream", () => {
  test.for([
    ["no validator", [], []],
    ["a strong tag", ["etag", '"a"'], ["if-none-match", '"a"']],
    ["a weak tag", ["etag", 'W/"a"'], ["if-none-match", 'W/"a"']],
    ["a tag without quotes, as it came", ["etag", "abc"], ["if-none-match", "abc"]],
    ["a date", ["last-modified", MODIFIED], ["if-modified-since", MODIFIED]],
    ["a malformed date", ["last-modified", "yesterday"], []],
    ["both", ["etag", '"a"', "last-modified", MODIFIED], ["if-none-match", '"a"', "if-modified-since", MODIFIED]],
  ] as const)("%s", ([, fields, condition]) => {
    expect(conditionalFields(entry(...fields))).toEqual(condition);
  });
});

describe("a 304 confirms the entry", () => {
  test.for([
    ["with the same tag", ["etag", '"a"'], ["etag", '"a"'], true],
    ["with another tag", ["etag", '"a"'], ["etag", '"b"'], false],
    ["with the tag made weak", ["etag", '"a"'], ["etag", 'W/"a"'], true],
    ["with no validator", ["etag", '"a"'], [], true],
    [
      "with the same tag and another date",
      ["etag", '"a"', "last-modified", MODIFIED],
      ["etag", '"a"', "last-modified", DATE],
      true,
    ],
    ["with the same date", ["last-modified", MODIFIED], ["last-modified", MODIFIED], true],
    ["with another date", ["last-modified", MODIFIED], ["last-modified", DATE], false],
    [
      "with a tag where there was none, and the same date",
      ["last-modified", MODIFIED],
      ["etag", '"new"', "last-modified", MODIFIED],
      true,
    ],
    ["with a tag alone where there was none", ["last-modified", MODIFIED], ["etag", '"new"'], false],
    ["with a weak tag alone where there was none", ["last-modified", MODIFIED], ["etag", 'W/"new"'], true],
    [
      "with a tag where there was none, and another date",
      ["last-modified", MODIFIED],
      ["etag", '"new"', "last-modified", DATE],
      false,
    ],
  ] as const)("%s: %s", ([, stored, received, confirmed]) => {
    expect(confirms(received, entry(...stored))).toBe(confirmed);
  });
});

describe("the stored fields after a 304", () => {
  test.for([
    ["take new values", ["x-a", "1"], ["x-a", "2"], "x-a", "2"],
    ["take new fields", [], ["x-b", "2"], "x-b", "2"],
    ["keep what the 304 leaves out", ["x-a", "1"], [], "x-a", "1"],
    [
      "take Cache-Control",
      ["cache-control", "max-age=1"],
      ["cache-control", "max-age=9"],
      "cache-control",
      "max-age=9",
    ],
    ["take Expires", ["expires", MODIFIED], ["expires", DATE], "expires", DATE],
    ["take ETag", ["etag", '"a"'], ["etag", 'W/"a"'], "etag", 'W/"a"'],
    ["take unknown content fields", ["content-foo", "1"], ["content-foo", "2"], "content-foo", "2"],
    [
      "keep Content-Type",
      ["content-type", "application/json"],
      ["content-type", "text/html"],
      "content-type",
      "application/json",
    ],
    ["keep Content-Encoding", ["content-encoding", "a"], ["content-encoding", "b"], "content-encoding", "a"],
    [
      "keep our own targeted field",
      ["registry-gateway-cache-control", "max-age=5"],
      [],
      "registry-gateway-cache-control",
      "max-age=5",
    ],
    ["keep a weak tag, of a decoded body", ["etag", 'W/"x"'], ["etag", '"x"'], "etag", 'W/"x"'],
    ["replace a strong tag", ["etag", '"x"'], ["etag", 'W/"x"'], "etag", 'W/"x"'],
    ["replace all lines of a field", ["x-a", "1", "x-a", "2"], ["x-a", "3"], "x-a", "3"],
  ] as const)("%s", ([, stored, received, name, value]) => {
    const fields = freshen(entry(...stored), received, WALL);
    expect(fields.filter((_, i) => fields[i - 1] === name && i % 2 === 1)).toEqual([value]);
  });

  test("leave out a tag made here, Cache-Status and Age of the earlier transfer", () => {
    const stored = entry("cache-status", "CDN; hit", "age", "5");
    expect(stored.madeEtag).toBe(true);
    expect(freshen(stored, [], WALL).filter((_, i) => i % 2 === 0)).toEqual(["date"]);
  });

  test("are dated anew when the 304 has no Date", () => {
    const later = WALL + 60_000;
    expect(freshen(entry(), [], later)).toContain(new Date(later).toUTCString());
  });
});
