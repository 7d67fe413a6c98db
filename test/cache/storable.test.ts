import { describe, expect, test } from "vitest";
import type { CachePolicy } from "../../src/cache/resource.ts";
import { parseDirectives, responseDirectives } from "../../src/cache/rfc/cache-control.ts";
import { isExclusive, type StorableInput, whyNotStorable } from "../../src/cache/rfc/reuse.ts";
import { policy, SECOND } from "../support/cache-policy.ts";

const HONOR: Partial<CachePolicy> = { errors: "honor" };
const NOT_FOUND: Partial<CachePolicy> = { notFoundTtl: 5 * SECOND };

function why(cacheControl: string, changes: Partial<CachePolicy> = {}, input: Partial<StorableInput> = {}) {
  return whyNotStorable({
    status: 200,
    directives: responseDirectives(parseDirectives([cacheControl])),
    policy: policy(changes),
    explicit: cacheControl.includes("max-age") || cacheControl.includes("s-maxage"),
    varies: [],
    authorized: false,
    ...input,
  });
}

describe("what forbids storing", () => {
  test.for([
    ["nothing", "max-age=10", undefined],
    ["no-store", "no-store", "no-store"],
    ["no-store besides max-age", "max-age=10, no-store", "no-store"],
    ["private", "private, max-age=10", "private"],
    ["private of some fields is not", 'private="a", max-age=10', undefined],
    ["no-cache is not", "no-cache", undefined],
    ["must-understand lifts no-store", "must-understand, no-store, max-age=10", undefined],
  ] as const)("%s", ([, cacheControl, reason]) => {
    expect(why(cacheControl)).toBe(reason);
  });

  test("Vary: * cannot match anything", () => {
    expect(why("max-age=10", {}, { varies: "*" })).toBe("vary");
  });
});

describe("the response to a request with Authorization", () => {
  test.for([
    ["max-age=10", "authorization"],
    ["", "authorization"],
    ["public, max-age=10", undefined],
    ["must-revalidate, max-age=10", undefined],
    ["s-maxage=10", undefined],
    ["proxy-revalidate, max-age=10", "authorization"],
  ] as const)("with %j", ([cacheControl, reason]) => {
    expect(why(cacheControl, {}, { authorized: true })).toBe(reason);
  });

  test("is not stored where the upstream is not honoured: nobody could allow it", () => {
    expect(why("public", { honorUpstream: false }, { authorized: true, directives: undefined })).toBe("authorization");
  });
});

describe("statuses", () => {
  test.for([
    [200, {}, "", undefined],
    [404, {}, "", "status"],
    [404, NOT_FOUND, "", undefined],
    [404, {}, "max-age=9", "status"],
    [204, {}, "max-age=9", "status"],
    [301, {}, "max-age=9", "status"],
    [500, {}, "max-age=9", "status"],
    [404, HONOR, "", "status"],
    ...[201, 203, 204, 299, 301, 302, 303, 307, 308, 400, 404, 410, 451, 499, 500, 502, 503, 504, 599].map(
      (status) => [status, HONOR, "max-age=9", undefined] as const,
    ),
    [500, HONOR, "", "status"],
    [206, HONOR, "max-age=9", "status"],
    [304, HONOR, "max-age=9", "status"],
    [599, HONOR, "max-age=9, must-understand", "status"],
    [499, HONOR, "max-age=9, must-understand, no-store", "no-store"],
    [503, HONOR, "max-age=9, must-understand", undefined],
  ] as const)("%d with %j and %j: %s", ([status, changes, cacheControl, reason]) => {
    expect(why(cacheControl, changes, { status })).toBe(reason);
  });
});

test.each([
  ["no-store, private", {}, "private"],
  ["no-store", { varies: "*" }, "vary"],
  ["no-store", { authorized: true }, "authorization"],
] as const)(
  "a failure that says %s is for the client that asked where it is about that one: %j",
  (value, input, reason) => {
    expect(why(value, {}, { status: 429, ...input })).toBe(reason);
    expect(isExclusive(429, reason, responseDirectives(parseDirectives([value])), true)).toBe(true);
  },
);

test("an answer nobody else may get is told from one that is merely not stored", () => {
  for (const reason of ["no-store", "private", "vary", "authorization"] as const) {
    expect(isExclusive(200, reason, undefined, false)).toBe(true);
  }
  for (const reason of ["status", "ttl", "useless", "unstorable", undefined] as const) {
    expect(isExclusive(200, reason, undefined, false)).toBe(false);
  }
  // RFC 9111 §5.2.2.4: not for any other request without asking again.
  expect(isExclusive(200, undefined, responseDirectives(parseDirectives(["no-cache"])), false)).toBe(true);
  expect(isExclusive(200, undefined, responseDirectives(parseDirectives(['no-cache="a"'])), false)).toBe(false);
  // Whoever waits for a failing upstream does not ask it again because its error says no-store.
  expect(isExclusive(503, "no-store", undefined, true)).toBe(false);
  expect(isExclusive(503, "private", undefined, true)).toBe(true);
  // Nor because a page of some CDN says private, which knows nothing of a client.
  expect(isExclusive(503, "private", undefined, false)).toBe(false);
});
