import { brotliCompressSync, deflateSync, gzipSync } from "node:zlib";
import { expect, test } from "vitest";
import { decodeBody, isHtml, readJson } from "../../../src/bodies/answer.ts";

test.each([
  ['{"a":1}', { json: { a: 1 } }],
  ["null", { json: null }],
  ['\ufeff{"a":1}', { json: { a: 1 } }],
  ["", undefined],
  ["<html>", undefined],
  ['{"a":1', undefined],
])("%j read as JSON", (text, expected) => {
  expect(readJson(Buffer.from(text))).toEqual(expected);
});

test("bytes that are no UTF-8 are no JSON", () => {
  expect(readJson(Buffer.from('"\xe9"', "latin1"))).toBeUndefined();
});

test.each([
  ["text/html; charset=utf-8", "nothing", true],
  ["text/plain", " <!DOCTYPE html>", true],
  ["application/json", "{}", false],
  [undefined, "<HTML>", true],
])("of the type %s, %j: a page for browsers? %s", (type, body, expected) => {
  expect(isHtml(type === undefined ? [] : ["content-type", type], Buffer.from(body))).toBe(expected);
});

const TEXT = Buffer.from('{"a":"'.padEnd(5_000, "x"));

test.each([
  { coding: "gzip", body: gzipSync(TEXT), expected: TEXT },
  { coding: "GZIP", body: gzipSync(TEXT), expected: TEXT },
  { coding: "deflate", body: deflateSync(TEXT), expected: TEXT },
  { coding: "br", body: brotliCompressSync(TEXT), expected: TEXT },
  { coding: "identity", body: TEXT, expected: TEXT },
  { coding: "gzip, br", body: brotliCompressSync(gzipSync(TEXT)), expected: TEXT },
  { coding: "snappy", body: TEXT, expected: "unknown" },
  { coding: "gzip, gzip, gzip, gzip", body: TEXT, expected: "unknown" },
  { coding: "gzip", body: TEXT, expected: "broken" },
  { coding: "gzip", body: gzipSync(Buffer.alloc(20_000)), expected: "too_large" },
])("a body in $coding decodes within the limit, or says why not", async ({ coding, body, expected }) => {
  expect(await decodeBody(["content-encoding", coding], body, 10_000)).toEqual(expected);
});
