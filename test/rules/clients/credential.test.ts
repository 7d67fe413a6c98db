import { createHash } from "node:crypto";
import { describe, expect, test } from "vitest";
import { isOwnAuthorization } from "../../../src/clients/clients.ts";
import { credentialsIn, digestOf, isWholeKey, newKey, withoutKeys } from "../../../src/clients/credential.ts";
import { newKey as keyByContract } from "../../support/keys.ts";

const KEY = newKey();

describe("an API key", () => {
  test("is rgk_, 43 characters of base64url, _, and a CRC-32 in hex; each is another one", () => {
    const keys = Array.from({ length: 200 }, newKey);
    for (const key of keys) expect(key).toMatch(/^rgk_[A-Za-z0-9_-]{43}_[0-9a-f]{8}$/);
    expect(new Set(keys).size).toBe(200);
    for (const key of keys) expect(isWholeKey(key)).toBe(true);
  });

  test("made by the contract's words alone is whole, too", () => expect(isWholeKey(keyByContract())).toBe(true));

  test("that is mistyped in any one place, cut off or longer is not whole", () => {
    for (let at = 0; at < KEY.length; at += 1) {
      const other = KEY[at] === "a" ? "b" : "a";
      expect(isWholeKey(KEY.slice(0, at) + other + KEY.slice(at + 1))).toBe(false);
    }
    for (const text of ["", "rgk_", KEY.slice(0, -1), `${KEY}0`, ` ${KEY}`, KEY.toUpperCase()]) {
      expect(isWholeKey(text)).toBe(false);
    }
  });

  test("is kept as its SHA-256, base64url", () => {
    expect(digestOf(KEY)).toBe(createHash("sha256").update(KEY).digest("base64url"));
  });
});

describe("what a request shows is", () => {
  test.each<[readonly string[], string[]]>([
    [[], []],
    [["X-API-Key", KEY], [`key ${KEY}`]],
    [["x-api-key", ` ${KEY} `], [`key ${KEY}`]],
    [["Authorization", `Bearer ${KEY}`], [`key ${KEY}`]],
    [["authorization", `bearer  ${KEY}`], [`key ${KEY}`]],
    [["X-API-Key", KEY, "Authorization", `Bearer ${KEY}`], [`key ${KEY}`]],
    [
      ["X-API-Key", KEY, "X-API-Key", "rgk_other"],
      [`key ${KEY}`, "key rgk_other"],
    ],
    [
      ["Authorization", `Bearer ${KEY}`, "Authorization", "Bearer a.b.c"],
      [`key ${KEY}`, "other a.b.c"],
    ],
    [["Authorization", `Basic ${KEY}`], []],
    [["Authorization", "Bearer "], []],
    [["X-API-Key", ""], []],
    [["Cookie", KEY, "X-Api-Keys", KEY], []],
  ])("in %j", (rawHeaders, shown) => {
    expect(credentialsIn(rawHeaders).map(({ kind, text }) => `${kind} ${text}`)).toEqual(shown);
  });
});

test.each<[string, boolean]>([
  [`Bearer ${KEY}`, true],
  [`Bearer rgk_mistyped`, true],
  [KEY, true],
  [`Token ${KEY}`, true],
  [`Basic ${Buffer.from(`user:${KEY}`).toString("base64")}`, true],
  [`Basic ${Buffer.from("user:password").toString("base64")}`, false],
  ["Bearer a.b.c", false],
  ["", false],
])("Authorization %j is a credential of ours, without any clients: %s", (field, isOurs) => {
  expect(isOwnAuthorization(field, undefined)).toBe(isOurs);
});

test("a text for the log has no key in it", () => {
  expect(withoutKeys(`/a/${KEY}/b?${KEY}`)).toBe("/a/rgk_…/b?rgk_…");
  expect(withoutKeys("/a/rgk_short")).toBe("/a/rgk_short");
});
