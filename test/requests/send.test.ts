import { describe, expect, test } from "vitest";
import { fieldValue, fieldValues } from "../../src/fields.ts";
import { createCors, reportOf } from "../../src/requests/send.ts";

const HEADER = "x-instrument-admin";
const allowing = (...origins: string[]) => ({ origins, allowHeaders: [] });
const open = allowing("*");
const PAGE = "https://wallet.example";

describe("CORS", () => {
  test.each([PAGE, "null", undefined])("for every origin (%s), by default", (origin) => {
    const cors = createCors(open, HEADER);
    const answer = cors.answerFields(origin);
    expect(fieldValues(answer, "access-control-allow-origin")).toEqual(["*"]);
    expect(fieldValue(answer, "vary")).toBeUndefined();
    expect(fieldValue(answer, "access-control-expose-headers")).toBe(
      "age, etag, cache-status, proxy-status, retry-after, ratelimit, ratelimit-policy, registry-gateway-error, " +
        "x-request-id, x-registry-partial",
    );
    const preflight = cors.preflightFields(origin);
    expect(fieldValue(preflight, "access-control-allow-headers")).toBe(
      "authorization, x-api-key, if-none-match, last-event-id, cache-control, x-requested-with, content-type, x-instrument-admin, " +
        "x-request-id, traceparent, request-timeout",
    );
    expect(fieldValue(preflight, "access-control-allow-methods")).toBe("GET, HEAD, POST, OPTIONS");
    expect(fieldValue(preflight, "access-control-max-age")).toBe("7200");
  });

  test("allows the admin header by the name it is configured with", () => {
    const preflight = createCors(open, "x-other").preflightFields(PAGE);
    expect(fieldValue(preflight, "access-control-allow-headers")).toContain(" x-other,");
  });

  test("allows headers that are configured besides, each once", () => {
    const cors = createCors({ origins: ["*"], allowHeaders: ["x-wallet", "x-api-key"] }, HEADER);
    const allowed = fieldValue(cors.preflightFields(PAGE), "access-control-allow-headers")!.split(", ");
    expect(allowed.filter((name) => name === "x-wallet" || name === "x-api-key")).toEqual(["x-api-key", "x-wallet"]);
    expect(allowed.slice(0, -1)).toEqual(
      fieldValue(createCors(open, HEADER).preflightFields(PAGE), "access-control-allow-headers")!.split(", "),
    );
  });

  test("for some origins names the one that asks, and says that answers depend on it", () => {
    const cors = createCors(allowing("https://other.example", PAGE), HEADER);
    expect(fieldValue(cors.answerFields(PAGE), "access-control-allow-origin")).toBe(PAGE);
    expect(fieldValue(cors.answerFields(PAGE), "vary")).toBe("origin");
    expect(cors.preflightFields(PAGE)).toContain("7200");
    for (const stranger of ["https://evil.example", `${PAGE}.evil.example`, "null", undefined]) {
      expect(cors.answerFields(stranger)).toEqual(["vary", "origin"]);
      expect(cors.preflightFields(stranger)).toEqual([]);
    }
  });

  test("for no origin says nothing", () => {
    const cors = createCors(allowing(), HEADER);
    expect([...cors.answerFields(PAGE), ...cors.preflightFields(PAGE)]).toEqual([]);
  });

  test("an answer to a preflight names the origin once: browsers refuse two", () => {
    for (const origins of [["*"], [PAGE]]) {
      const cors = createCors(allowing(...origins), HEADER);
      const both = [...cors.answerFields(PAGE), ...cors.preflightFields(PAGE)];
      expect(fieldValues(both, "access-control-allow-origin")).toHaveLength(1);
    }
  });

  test("never allows credentials", () => {
    for (const origins of [["*"], [PAGE], []]) {
      const cors = createCors(allowing(...origins), HEADER);
      const both = [...cors.answerFields(PAGE), ...cors.preflightFields(PAGE)];
      expect(both).not.toContain("access-control-allow-credentials");
    }
  });
});

test.each([
  ["30", 30],
  ["Thu, 02 Mar 2000 00:00:15 GMT", 45],
  ["Wed, 01 Mar 2000 23:59:15 GMT", 0],
  ["1.5", undefined],
  ["soon", undefined],
])("a registry's error in our words that says Retry-After: %s says %s in its body, by our clock", (asked, seconds) => {
  const own = ["registry-gateway-error", "upstream_invalid"];
  const fields = [...own, "date", "Wed, 01 Mar 2000 23:59:45 GMT", "retry-after", asked];
  const body = Buffer.from(JSON.stringify({ error: "registry-gateway: it fails", code: "upstream_invalid" }));
  const now = Date.UTC(2000, 2, 1, 23, 59, 30);
  expect(reportOf({ status: 500, fields, body }, now)?.retryAfter).toBe(seconds);
});
