import { describe, expect, test } from "vitest";
import type { Entry } from "../../src/sharing/entries.ts";
import {
  isUsableOnError,
  judgeReuse,
  NOTHING_ASKED,
  requestDirectives,
  withoutInsistence,
} from "../../src/cache/rfc/reuse.ts";
import { SECOND } from "../support/cache-policy.ts";

/** Received at 0, 10 s old then, fresh until 100 s, revalidated until 130 s, usable until 200 s. */
const ENTRY: Entry = {
  status: 200,
  fields: [],
  body: Buffer.from(""),
  madeEtag: false,
  softEpoch: "",
  epoch: "g",
  vary: [],
  variant: "",
  receivedAt: 0,
  bornAt: -10 * SECOND,
  madeAt: -10 * SECOND,
  freshUntil: 100 * SECOND,
  revalidateUntil: 130 * SECOND,
  usableUntil: 200 * SECOND,
  staleProhibited: false,
  lifetime: 110 * SECOND,
  origins: { lifetime: "", staleWhileRevalidate: "", staleIfError: "" },
};
const PROHIBITED: Entry = { ...ENTRY, revalidateUntil: 100 * SECOND, usableUntil: 100 * SECOND, staleProhibited: true };

describe("what a request asks for", () => {
  test.for([
    ["nothing", {}, {}],
    ["no-cache", { "cache-control": "no-cache" }, { noCache: true }],
    ["in another case", { "cache-control": "No-Cache, NO-STORE" }, { noCache: true }],
    ["Pragma", { pragma: "no-cache" }, { noCache: true }],
    [
      "Pragma besides Cache-Control means nothing",
      { pragma: "no-cache", "cache-control": "max-age=5" },
      { maxAge: 5_000 },
    ],
    ["max-age", { "cache-control": "max-age=0" }, { maxAge: 0 }],
    ["max-age twice", { "cache-control": "max-age=9, max-age=3" }, { maxAge: 3_000 }],
    ["malformed max-age", { "cache-control": "max-age=x" }, {}],
    ["min-fresh", { "cache-control": "min-fresh=5" }, { minFresh: 5_000 }],
    ["min-fresh twice", { "cache-control": "min-fresh=5, min-fresh=8" }, { minFresh: 8_000 }],
    ["max-stale", { "cache-control": "max-stale" }, { maxStale: Infinity }],
    ["max-stale with a bound", { "cache-control": "max-stale=5" }, { maxStale: 5_000 }],
    ["malformed max-stale", { "cache-control": "max-stale=x" }, { maxStale: 0 }],
    ["only-if-cached", { "cache-control": "only-if-cached" }, { onlyIfCached: true }],
    ["stale-if-error", { "cache-control": "stale-if-error=60" }, { staleIfError: 60_000 }],
  ] as const)("%s", ([, headers, asked]) => {
    expect(requestDirectives(headers)).toEqual({ ...NOTHING_ASKED, ...asked });
  });
});

describe("how an entry may be used, by request directives and seconds since receipt", () => {
  test.for([
    ["", 0, "fresh"],
    ["", 99.999, "fresh"],
    ["", 100, "while-revalidate"],
    ["", 129.999, "while-revalidate"],
    ["", 130, "validate"],
    ["no-cache", 10, "forced"],
    ["no-cache", 110, "validate"],
    ["max-age=0", 10, "forced"],
    ["max-age=20", 10, "fresh"],
    ["max-age=19", 10, "forced"],
    ["max-age=1000", 110, "validate"],
    ["min-fresh=90", 10, "fresh"],
    ["min-fresh=91", 10, "forced"],
    ["min-fresh=1", 110, "validate"],
    ["max-stale", 500, "max-stale"],
    ["max-stale=50", 149.9, "max-stale"],
    ["max-stale=50", 150, "validate"],
    ["max-stale, max-age=100", 110, "validate"],
    ["max-stale, max-age=120", 110, "max-stale"],
    ["max-stale, no-cache", 110, "validate"],
    ["stale-if-error=5", 10, "fresh"],
    ["foo", 10, "fresh"],
  ] as const)("%j after %d s: %s", ([cacheControl, seconds, reuse]) => {
    const asked = requestDirectives({ "cache-control": cacheControl });
    expect(judgeReuse(ENTRY, seconds * SECOND, asked)).toBe(reuse);
  });

  test.for(["no-cache", "max-age=0", "min-fresh=100", "no-cache, max-age=0, min-fresh=100"])(
    "%j counts for nothing where it is not to be heard",
    (cacheControl) => {
      const asked = withoutInsistence(requestDirectives({ "cache-control": cacheControl }));
      expect(judgeReuse(ENTRY, 10 * SECOND, asked)).toBe("fresh");
      expect(judgeReuse(ENTRY, 110 * SECOND, asked)).toBe("while-revalidate");
    },
  );

  test.for([
    ["", 99, "fresh"],
    ["", 100, "validate"],
    ["max-stale", 100, "validate"],
    ["max-stale=9999", 101, "validate"],
  ] as const)("what must be revalidated, with %j after %d s: %s", ([cacheControl, seconds, reuse]) => {
    const asked = requestDirectives({ "cache-control": cacheControl });
    expect(judgeReuse(PROHIBITED, seconds * SECOND, asked)).toBe(reuse);
  });
});

describe("usable after a failure, by request directives and seconds since receipt", () => {
  test.for([
    [ENTRY, "", 50, true],
    [ENTRY, "", 199.9, true],
    [ENTRY, "", 200, false],
    [ENTRY, "stale-if-error=300", 399, true],
    [ENTRY, "stale-if-error=300", 400, false],
    [ENTRY, "stale-if-error=1", 150, true],
    [PROHIBITED, "", 99, true],
    [PROHIBITED, "", 100, false],
    [PROHIBITED, "stale-if-error=300", 101, false],
    [{ ...ENTRY, usableUntil: 100 * SECOND }, "", 120, true],
    [{ ...ENTRY, status: 503 }, "stale-if-error=300", 99, false],
    [{ ...ENTRY, status: 404 }, "", 199.9, true],
  ] as const)("%#", ([entry, cacheControl, seconds, usable]) => {
    expect(isUsableOnError(entry, seconds * SECOND, requestDirectives({ "cache-control": cacheControl }))).toBe(usable);
  });
});
