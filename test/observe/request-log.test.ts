import * as fc from "fast-check";
import { expect, test } from "vitest";
import { type ErrorCode, ERRORS } from "../../src/errors.ts";
import { requestIdOf } from "../../src/http/context.ts";
import { createLogger } from "../../src/observe/log.ts";
import { OPERATION } from "../../src/observe/metrics/labels.ts";
import { RecentRequests, type RefusedLine, RequestLog } from "../../src/observe/request-log.ts";
import { ManualClock } from "../support/manual-clock.ts";

function startLog() {
  const lines: string[] = [];
  const recent = new RecentRequests(new ManualClock());
  const log = new RequestLog(createLogger("info", { destination: { write: (line) => void lines.push(line) } }), recent);
  return { lines, recent, log };
}

/** The line as it has to be: all of it made by `JSON.stringify`. */
function expectedOf(refused: RefusedLine): [string, unknown][] {
  const { requestId, method, operation, status, client, durationMs, bytes, code } = refused;
  const topic = { requestId, method, operation, upstream: "none", status, outcome: "refused", client };
  return Object.entries(JSON.parse(JSON.stringify({ ...topic, durationMs, bytes, code })) as object);
}

const CODES = Object.keys(ERRORS) as ErrorCode[];

/** Few of each kind, so that lines have something in common with those before them; and names that want escaping. */
const refusedLines: fc.Arbitrary<RefusedLine> = fc.record({
  requestId: fc
    .oneof(fc.string({ unit: "binary" }), fc.constantFrom('a"b', "a\\b", "a-1", "x".repeat(128)))
    .map(requestIdOf),
  method: fc.constantFrom("GET", "HEAD", "POST"),
  operation: fc.constantFrom(...OPERATION.slice(0, 3), "none" as const),
  status: fc.constantFrom(401, 429),
  client: fc.oneof(
    fc.constantFrom(
      "none",
      "wallet",
      'a "name"',
      "back\\slash",
      "line\nend",
      "\u2028",
      "\ud800",
      "__proto__",
      "constructor",
    ),
    fc.string({ unit: "binary" }),
  ),
  durationMs: fc.integer({ min: 0, max: 10_000_000 }).map((micros) => micros / 1e3),
  bytes: fc.nat(),
  code: fc.constantFrom(...CODES.slice(0, 4)),
});

test("a refused request's line, made of parts, is the one that JSON.stringify makes", () => {
  const { lines, recent, log } = startLog();
  fc.assert(
    fc.property(fc.array(refusedLines, { minLength: 1, maxLength: 20 }), (all) => {
      lines.length = 0;
      for (const each of all) log.writeRefused(each);
      expect(lines.map((line) => line.endsWith("}\n") && line.indexOf("\n") === line.length - 1)).not.toContain(false);
      const told = lines.map((line) => Object.entries(JSON.parse(line) as object));
      expect(told.map((line) => line.slice(2, -1))).toEqual(all.map(expectedOf));
      for (const line of told) {
        expect([line[0], line[1]![0], line.at(-1)]).toEqual([["level", "info"], "time", ["msg", "request"]]);
      }
      const latest = recent.latest({ limit: all.length }).requests.map(({ at: _at, ...line }) => Object.entries(line));
      expect(latest.toReversed()).toEqual(all.map(expectedOf));
    }),
  );
});

test("names that clients choose keep no memory, and never get the line of another", () => {
  const { lines, log } = startLog();
  const line = { requestId: "a", method: "GET", operation: "info", status: 429, durationMs: 1, bytes: 2 } as const;
  const write = (client: string) => log.writeRefused({ ...line, client, code: "client_rate_limited" });
  for (let i = 0; i < 2_500; i++) write(`token-${i % 1_250}`);
  expect(lines.map((each) => (JSON.parse(each) as { client: string }).client)).toEqual(
    Array.from({ length: 2_500 }, (_, i) => `token-${i % 1_250}`),
  );
  expect((log as unknown as { texts: Map<string, unknown> }).texts.size).toBeLessThanOrEqual(1_000);
});
