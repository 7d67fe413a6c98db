import { describe, expect, test } from "vitest";
import { makeEntityTag, matchedTag } from "../../../src/cache/conditional.ts";
import { judge } from "../../../src/cache/entry.ts";
import type { CachePolicy } from "../../../src/cache/types.ts";
import { fetched, POLICY, type Scripted } from "./scene.ts";

const judged = (scripted: Scripted, policy: Partial<CachePolicy> = {}) =>
  judge(fetched(scripted, 1_000_000), {
    policy: { ...POLICY, ...policy },
    epoch: 3,
    generation: 4,
    wallNow: 0,
    shortening: 0,
  });

describe("an entry has", () => {
  test("the fields that clients may see, as JSON, without those that are said anew", () => {
    const fields = ["content-type", "text/plain", "age", "5", "server", "x", "set-cookie", "a=1", "x-one", "1"];
    fields.push("x-two", "2", "link", "<a>", "link", "<b>", "etag", '"a"', "connection", "x-two, link");
    const { entry } = judged({ fields }, { forwardResponseHeaders: ["x-one", "x-two", "server"] });
    expect(entry.fields).toEqual(["x-one", "1", "content-type", "application/json"]);
    expect(judged({ fields: ["link", "<a>", "link", "<b>"] }).entry.fields.slice(0, 4)).toEqual([
      "link",
      "<a>",
      "link",
      "<b>",
    ]);
  });

  test.for<[string, Scripted, string]>([
    ["the registry's", { fields: ["etag", '"a"'] }, '"a"'],
    ["the registry's weak one", { fields: ["etag", 'W/"a"'] }, 'W/"a"'],
    ["one of its bytes in place of a malformed one", { fields: ["etag", "a"] }, makeEntityTag(Buffer.from("{}"))],
    ["one of its bytes", {}, makeEntityTag(Buffer.from("{}"))],
    ["none with an error", { status: 404 }, ""],
  ])("a tag: %s", ([, scripted, tag]) => {
    expect(judged(scripted).entry.etag).toBe(tag);
  });

  test("validators, where they are the registry's and the answer is a 200", () => {
    expect(judged({ fields: ["etag", '"a"'], node: "n" }).entry.validators).toEqual({
      node: "n",
      fields: ["if-none-match", '"a"'],
    });
    expect(judged({ status: 404, fields: ["etag", '"a"'] }).entry.validators).toBeUndefined();
  });

  test("its epoch and generation, and of the latter the answer's own", () => {
    expect(judged({}).entry).toMatchObject({ epoch: 3, generation: 4 });
    expect(judged({ generation: 9 }).entry.generation).toBe(9);
  });

  test("bytes that keep no larger block alive", () => {
    const block = Buffer.alloc(100_000, "x");
    const answer = { ...fetched({}, 0), body: block.subarray(10, 20) };
    const context = { policy: POLICY, epoch: 0, generation: 0, wallNow: 0, shortening: 0 };
    const { body } = judge(answer, context).entry;
    expect([body.toString(), body.buffer.byteLength]).toEqual(["xxxxxxxxxx", 10]);
    expect(judge({ ...answer, body: block }, context).entry.body).toBe(block);
  });
});

test.for<[string, Scripted, Partial<CachePolicy>, string | undefined]>([
  ["a 200", {}, {}, undefined],
  ["a 404 of what may be absent", { status: 404 }, {}, undefined],
  ["another 404", { status: 404 }, { notFoundTtl: undefined }, "status"],
  ["an error with a lifetime", { status: 500, fields: ["cache-control", "max-age=9"] }, {}, "status"],
  ["a 203", { status: 203 }, {}, "status"],
  ["Vary of a field", { fields: ["vary", "accept-encoding"] }, {}, undefined],
  ["Vary: * though the registry is not listened to", { fields: ["vary", "*"] }, { honorUpstream: false }, "vary"],
  [
    "no-store where the registry is not listened to",
    { fields: ["cache-control", "no-store"] },
    { honorUpstream: false },
    undefined,
  ],
  ["one that is stale on arrival, with a window", { fields: ["cache-control", "max-age=0"] }, {}, undefined],
  ["without", { fields: ["cache-control", "max-age=0"] }, { staleIfError: 0 }, "old-on-arrival"],
  [
    "without, but with a tag",
    { fields: ["cache-control", "max-age=0", "etag", '"a"'] },
    { staleIfError: 0 },
    undefined,
  ],
])("%s is stored or not", ([, scripted, policy, unstored]) => {
  expect(judged(scripted, policy).unstored).toBe(unstored);
});

describe("a client's condition", () => {
  const DATE = "Thu, 01 Jan 2026 12:00:00 GMT";
  const LATER = "Thu, 01 Jan 2026 12:00:01 GMT";
  const modified = ["last-modified", DATE];
  test.for<[string, Record<string, string>, readonly string[], string | undefined]>([
    ["none", {}, modified, undefined],
    ["the tag", { "if-none-match": '"a"' }, [], '"a"'],
    ["compared weakly", { "if-none-match": 'W/"a"' }, [], '"a"'],
    ["in a list", { "if-none-match": '"x, y", W/"a" ,"z"' }, [], '"a"'],
    ["of the coded form", { "if-none-match": '"a-gzip"' }, [], '"a-gzip"'],
    ["any", { "if-none-match": " * " }, [], '"a"'],
    ["another tag", { "if-none-match": '"b"' }, [], undefined],
    ["no tag", { "if-none-match": "a" }, [], undefined],
    ["another tag before a date that fits", { "if-none-match": '"b"', "if-modified-since": DATE }, modified, undefined],
    ["the date", { "if-modified-since": DATE }, modified, '"a"'],
    ["the date as RFC 850 has it", { "if-modified-since": "Thursday, 01-Jan-26 12:00:00 GMT" }, modified, '"a"'],
    ["a later date", { "if-modified-since": LATER }, modified, '"a"'],
    ["an earlier date", { "if-modified-since": DATE }, ["last-modified", LATER], undefined],
    ["a date without Last-Modified", { "if-modified-since": LATER }, ["date", DATE], '"a"'],
    ["a date that is none", { "if-modified-since": "today" }, modified, undefined],
  ])("%s", ([, headers, fields, tag]) => {
    expect(matchedTag(headers, ['"a"', '"a-gzip"'], fields)).toBe(tag);
  });
});
