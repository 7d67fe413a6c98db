import { describe, expect, test } from "vitest";
import { fieldValue, fieldValues } from "../../src/fields.ts";
import { createCors } from "../../src/routes/cors.ts";

const HEADER = "x-instrument-admin";
const PAGE = "https://wallet.example";

describe("CORS", () => {
  test.each([PAGE, "null", undefined])("for every origin (%s), by default", (origin) => {
    const cors = createCors(["*"], HEADER);
    const answer = cors.answerFields(origin);
    expect(fieldValues(answer, "access-control-allow-origin")).toEqual(["*"]);
    expect(fieldValue(answer, "vary")).toBeUndefined();
    expect(fieldValue(answer, "access-control-expose-headers")).toBe(
      "age, etag, cache-status, proxy-status, retry-after, x-request-id, x-registry-partial",
    );
    const preflight = cors.preflightFields(origin);
    expect(fieldValue(preflight, "access-control-allow-headers")).toBe(
      "authorization, content-type, x-instrument-admin, x-request-id, traceparent, request-timeout",
    );
    expect(fieldValue(preflight, "access-control-allow-methods")).toBe("GET, HEAD, POST, OPTIONS");
    expect(fieldValue(preflight, "access-control-max-age")).toBe("7200");
  });

  test("allows the admin header by the name it is configured with", () => {
    const preflight = createCors(["*"], "x-other").preflightFields(PAGE);
    expect(fieldValue(preflight, "access-control-allow-headers")).toContain(" x-other,");
  });

  test("for some origins names the one that asks, and says that answers depend on it", () => {
    const cors = createCors(["https://other.example", PAGE], HEADER);
    expect(fieldValue(cors.answerFields(PAGE), "access-control-allow-origin")).toBe(PAGE);
    expect(fieldValue(cors.answerFields(PAGE), "vary")).toBe("origin");
    expect(cors.preflightFields(PAGE)).toContain("7200");
    for (const stranger of ["https://evil.example", `${PAGE}.evil.example`, "null", undefined]) {
      expect(cors.answerFields(stranger)).toEqual(["vary", "origin"]);
      expect(cors.preflightFields(stranger)).toEqual([]);
    }
  });

  test("for no origin says nothing", () => {
    const cors = createCors([], HEADER);
    expect([...cors.answerFields(PAGE), ...cors.preflightFields(PAGE)]).toEqual([]);
  });

  test("an answer to a preflight names the origin once: browsers refuse two", () => {
    for (const origins of [["*"], [PAGE]]) {
      const cors = createCors(origins, HEADER);
      const both = [...cors.answerFields(PAGE), ...cors.preflightFields(PAGE)];
      expect(fieldValues(both, "access-control-allow-origin")).toHaveLength(1);
    }
  });

  test("never allows credentials", () => {
    for (const origins of [["*"], [PAGE], []]) {
      const cors = createCors(origins, HEADER);
      const both = [...cors.answerFields(PAGE), ...cors.preflightFields(PAGE)];
      expect(both).not.toContain("access-control-allow-credentials");
    }
  });
});
