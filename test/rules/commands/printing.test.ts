import { expect, it, test } from "vitest";
import { sayFailure, tableLines } from "../../../src/commands/terminal.ts";

test("a table's columns are as wide as their widest cells", () => {
  expect(
    tableLines([
      ["NAME", "N", "ADMIN"],
      ["amulet", "10", "DSO"],
      ["b", "1", ""],
    ]),
  ).toEqual(["NAME    N   ADMIN", "amulet  10  DSO", "b       1"]);
});

it.each<[unknown, string]>([
  [Object.assign(new Error("connect ECONNREFUSED 127.0.0.1:1"), { code: "ECONNREFUSED" }), "nothing listens there"],
  [
    new TypeError("fetch failed", { cause: Object.assign(new Error("x"), { code: "ENOTFOUND" }) }),
    "the host cannot be found",
  ],
  [new DOMException("late", "TimeoutError"), "there is no answer in time"],
  [Object.assign(new Error("x"), { code: "HPE_INVALID_CONSTANT" }), "it does not speak HTTP: should it be https://?"],
  [new Error("\u001b[2Jself signed certificate"), "\\u001b[2Jself signed certificate"],
  ["text", "text"],
])("%s is said as: %s", (error, text) => {
  expect(sayFailure(error)).toBe(text);
});
