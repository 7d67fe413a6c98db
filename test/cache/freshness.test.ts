import { describe, expect, test } from "vitest";
import type { CachePolicy } from "../../src/cache/resource.ts";
import { governingDirectives } from "../../src/cache/rfc/cache-control.ts";
import { judgeFreshness } from "../../src/cache/rfc/freshness.ts";
import { HOUR, MINUTE, policy, SECOND } from "../support/cache-policy.ts";

const RECEIVED = 1_000_000;
const WALL = Date.UTC(2026, 0, 1, 12);
const at = (seconds: number): string => new Date(WALL + seconds * 1000).toUTCString();
const NOW = at(0);

function judge(fields: readonly string[], changes: Partial<CachePolicy> = {}, status = 200, shortening = 0) {
  const given = policy(changes);
  const freshness = judgeFreshness({
    status,
    fields,
    governing: given.honorUpstream ? governingDirectives(fields) : undefined,
    policy: given,
    receipt: { requestedAt: RECEIVED, receivedAt: RECEIVED, receivedWall: WALL },
    shortening,
  });
  return {
    ...freshness,
    fresh: (freshness.freshUntil - RECEIVED) / SECOND,
    swr: (freshness.revalidateUntil - freshness.freshUntil) / SECOND,
    sie: (freshness.usableUntil - freshness.freshUntil) / SECOND,
  };
}

describe("explicit freshness, in seconds from receipt", () => {
  test.for([
    ["max-age", ["cache-control", "max-age=100"], 100],
    ["s-maxage", ["cache-control", "s-maxage=100"], 100],
    ["s-maxage over longer max-age", ["cache-control", "max-age=3600, s-maxage=1"], 1],
    ["s-maxage over shorter max-age", ["cache-control", "max-age=1, s-maxage=3600"], 3600],
    ["s-maxage on another line", ["cache-control", "max-age=3600", "cache-control", "s-maxage=1"], 1],
    ["a malformed s-maxage", ["cache-control", "max-age=3600, s-maxage=x"], 0],
    ["Expires", ["expires", at(100), "date", NOW], 100],
    ["Expires in RFC 850 form", ["expires", "Thursday, 01-Jan-26 12:01:40 GMT", "date", NOW], 100],
    ["Expires in asctime form", ["expires", "Thu Jan  1 12:01:40 2026", "date", NOW], 100],
    ["Expires in the past", ["expires", at(-100), "date", NOW], 0],
    ["Expires of now", ["expires", NOW, "date", NOW], 0],
    ["Expires before Date, both ahead", ["expires", at(300), "date", at(400)], 0],
    ["Expires 0", ["expires", "0", "date", NOW], 0],
    ["Expires in another zone", ["expires", "Thu, 01 Jan 2026 13:00:00 CET", "date", NOW], 0],
    ["Expires twice: the earlier", ["expires", at(100), "expires", at(50), "date", NOW], 50],
    ["Expires twice, one malformed", ["expires", at(100), "expires", "x", "date", NOW], 0],
    ["Expires without Date", ["expires", at(100)], 100],
    ["Expires with a malformed Date", ["expires", at(100), "date", "foo"], 100],
    ["max-age over past Expires", ["cache-control", "max-age=100", "expires", at(-100), "date", NOW], 100],
    ["max-age over malformed Expires", ["cache-control", "max-age=100", "expires", "0"], 100],
    ["max-age=0 over future Expires", ["cache-control", "max-age=0", "expires", at(100), "date", NOW], 0],
    ["malformed max-age over future Expires", ["cache-control", "max-age=x", "expires", at(100)], 0],
    ["Expires besides other directives", ["cache-control", "public", "expires", at(100), "date", NOW], 100],
    ["less the Age", ["cache-control", "max-age=100", "age", "30"], 70],
    ["Age beyond max-age", ["cache-control", "max-age=10", "age", "15"], -5],
    ["Age beyond Expires − Date, Date slow", ["date", at(-10), "expires", at(10), "age", "25"], -5],
    ["Age beyond Expires − Date, Date fast", ["date", at(10), "expires", at(20), "age", "15"], -5],
    ["Date in the past makes older", ["cache-control", "max-age=100", "date", at(-40)], 60],
    ["CDN-Cache-Control", ["cdn-cache-control", "max-age=100"], 100],
    ["CDN-Cache-Control over Cache-Control", ["cdn-cache-control", "max-age=1", "cache-control", "max-age=9"], 1],
    ["CDN-Cache-Control over past Expires", ["cdn-cache-control", "max-age=100", "expires", at(-9), "date", NOW], 100],
    ["CDN max-age=0 over future Expires", ["cdn-cache-control", "max-age=0", "expires", at(9), "date", NOW], 0],
    ["CDN-Cache-Control less the Age", ["cdn-cache-control", "max-age=3600", "age", "7200"], -3600],
    ["our own field over all", ["registry-gateway-cache-control", "max-age=7", "cdn-cache-control", "max-age=9"], 7],
    ["our own with s-maxage", ["registry-gateway-cache-control", "s-maxage=7, max-age=3"], 7],
  ] as const)("%s", ([, fields, seconds]) => {
    // A configured TTL must not matter here.
    expect(judge(fields, { ttl: 77 * SECOND }).fresh).toBe(seconds);
    expect(judge(fields)).toMatchObject({ explicit: true, known: true });
  });

  test("is bounded by maxTtl, counted from receipt", () => {
    expect(judge(["cache-control", "max-age=99999999999"], { maxTtl: HOUR }).fresh).toBe(3600);
    expect(judge(["cache-control", "max-age=7200", "age", "1800"], { maxTtl: HOUR }).fresh).toBe(3600);
    expect(judge(["cache-control", "max-age=7200", "age", "7000"], { maxTtl: HOUR }).fresh).toBe(200);
  });

  test("is never shortened", () => {
    expect(judge(["cache-control", "max-age=100"], {}, 200, 0.1).fresh).toBe(100);
  });
});

describe("without explicit freshness", () => {
  test.for([
    ["nothing at all", []],
    ["public", ["cache-control", "public"]],
    ["must-revalidate", ["cache-control", "must-revalidate"]],
    ["unknown directives", ["cache-control", "foo=bar"]],
    ["Pragma, which means nothing in a response", ["pragma", "no-cache"]],
    ["Last-Modified: nothing is guessed from it", ["last-modified", at(-100_000), "date", NOW]],
    [
      "a targeted field without freshness hides Cache-Control",
      ["cdn-cache-control", "foo", "cache-control", "max-age=5"],
    ],
    ["a targeted field without freshness hides Expires", ["cdn-cache-control", "foo", "expires", at(5)]],
  ] as const)("the configured TTL counts: %s", ([, fields]) => {
    expect(judge(fields, { ttl: 30 * SECOND })).toMatchObject({ fresh: 30, explicit: false, known: true });
    expect(judge(fields, { ttl: 0 }).known).toBe(false);
  });

  test("the configured TTL counts from receipt: a slow clock upstream does not use it up", () => {
    expect(judge(["date", at(-3600)], { ttl: 30 * SECOND }).fresh).toBe(30);
  });

  test("the configured TTL is shortened by up to a tenth, and not bounded by maxTtl", () => {
    expect(judge([], { ttl: 100 * SECOND, maxTtl: SECOND }, 200, 0.05).fresh).toBe(95);
  });

  test("a 404 has a TTL of its own", () => {
    expect(judge([], { ttl: MINUTE, notFoundTtl: 5 * SECOND }, 404).fresh).toBe(5);
    expect(judge([], { ttl: MINUTE }, 404).known).toBe(false);
    expect(judge(["cache-control", "max-age=9"], { ttl: MINUTE, notFoundTtl: 5 * SECOND }, 404).fresh).toBe(9);
  });

  test("where the upstream is not honoured, nothing it says counts", () => {
    const fields = ["cache-control", "max-age=5, must-revalidate, stale-if-error=1", "expires", at(5)];
    expect(judge(fields, { ttl: MINUTE, honorUpstream: false, staleIfError: HOUR })).toMatchObject({
      fresh: 60,
      sie: 3600,
      staleProhibited: false,
    });
  });
});

describe("windows of staleness, in seconds from expiry", () => {
  const CONFIGURED = { ttl: MINUTE, staleWhileRevalidate: 30 * SECOND, staleIfError: 600 * SECOND };
  test.for([
    ["configured", [], 30, 600],
    ["configured, with explicit freshness", ["cache-control", "max-age=9"], 30, 600],
    ["from the field", ["cache-control", "max-age=9, stale-while-revalidate=1, stale-if-error=2"], 1, 2],
    ["one from the field", ["cache-control", "max-age=9, stale-if-error=2"], 30, 2],
    ["none, says the field", ["cache-control", "max-age=9, stale-while-revalidate=0, stale-if-error=0"], 0, 0],
    ["malformed", ["cache-control", "max-age=9, stale-while-revalidate=x, stale-if-error"], 0, 0],
    ["from the field without freshness", ["cache-control", "stale-if-error=5"], 30, 5],
    [
      "from a targeted field",
      ["cdn-cache-control", "max-age=9, stale-if-error=2", "cache-control", "stale-if-error=7"],
      30,
      2,
    ],
    ["max-age=0: errors only", ["cache-control", "max-age=0"], 0, 600],
    ["max-age=0 with a window of its own", ["cache-control", "max-age=0, stale-while-revalidate=9"], 9, 600],
    ["Expires in the past: errors only", ["expires", at(-9), "date", NOW], 0, 600],
    ["too old on arrival: errors only", ["cache-control", "max-age=10", "age", "20"], 0, 600],
    ["must-revalidate", ["cache-control", "max-age=9, must-revalidate"], 0, 0],
    ["must-revalidate over stated windows", ["cache-control", "max-age=9, must-revalidate, stale-if-error=9"], 0, 0],
    ["proxy-revalidate", ["cache-control", "max-age=9, proxy-revalidate"], 0, 0],
    ["s-maxage", ["cache-control", "s-maxage=9, stale-while-revalidate=9"], 0, 0],
    ["no-cache", ["cache-control", "no-cache, stale-if-error=9"], 0, 0],
    ["no-cache of some fields", ["cache-control", 'max-age=9, no-cache="a"'], 30, 600],
  ] as const)("%s", ([, fields, swr, sie]) => {
    expect(judge(fields, CONFIGURED)).toMatchObject({ swr, sie });
  });

  test.for([
    [
      "a year is what the configuration allows",
      "stale-while-revalidate=31536000, stale-if-error=31536000",
      {},
      30,
      600,
    ],
    ["never longer than maxTtl", "stale-while-revalidate=31536000, stale-if-error=400", { maxTtl: 20_000 }, 20, 20],
    ["none, where the configuration allows none", "stale-if-error=9", { staleIfError: 0 }, 30, 0],
    ["beyond all numbers", `stale-if-error=${"9".repeat(400)}, stale-while-revalidate=1e308`, {}, 0, 600],
    ["below zero", "stale-while-revalidate=-5, stale-if-error=-1", {}, 0, 0],
  ] as const)("what the upstream states is bounded: %s", ([, stated, changes, swr, sie]) => {
    const fields = ["cache-control", `max-age=9, ${stated}`];
    expect(judge(fields, { ...CONFIGURED, ...changes })).toMatchObject({ swr, sie });
  });

  test("an error page has only windows the upstream gave", () => {
    expect(judge([], { ...CONFIGURED, notFoundTtl: SECOND }, 404)).toMatchObject({ swr: 0, sie: 0 });
    expect(judge(["cache-control", "max-age=1, stale-if-error=4"], CONFIGURED, 404)).toMatchObject({ swr: 0, sie: 4 });
  });
});

describe("no-cache", () => {
  test.for([
    ["alone", "no-cache"],
    ["with max-age", "max-age=10000, no-cache"],
    ["with s-maxage", "s-maxage=100, no-cache"],
  ] as const)("is never fresh, but known: %s", ([, value]) => {
    const freshness = judge(["cache-control", value], { ttl: MINUTE });
    expect(freshness.fresh).toBeLessThanOrEqual(0);
    expect(freshness).toMatchObject({ known: true, staleProhibited: true });
  });
});

test("every number says where it is from", () => {
  const fields = ["cdn-cache-control", "max-age=1, stale-if-error=2"];
  expect(judge(fields, { staleIfError: MINUTE }).origins).toEqual({
    lifetime: "cdn-cache-control: max-age",
    staleWhileRevalidate: "cache.staleWhileRevalidate",
    staleIfError: "cdn-cache-control: stale-if-error",
  });
  expect(judge(fields, { staleIfError: SECOND }).origins.staleIfError).toBe("cache.staleIfError");
  expect(judge(fields, { staleIfError: MINUTE, maxTtl: SECOND }).origins.staleIfError).toBe("cache.maxTtl");
  expect(judge(["expires", at(9)]).origins.lifetime).toBe("expires");
  expect(judge([], {}, 404).origins.lifetime).toBe("cache.ttl.notFound");
});
