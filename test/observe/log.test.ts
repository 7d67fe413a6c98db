import { expect, test } from "vitest";
import { createLogger } from "../../src/observe/log.ts";
import { ManualClock } from "../support/manual-clock.ts";

const REQUEST = {
  requestId: "a-1",
  method: "GET",
  operation: "instruments",
  upstream: "none",
  client: 'a "name" \u2028 with\nlines',
  status: 429,
  outcome: "refused",
  durationMs: 0.125,
  code: "client_rate_limited",
  reason: undefined,
};

function linesOf(level: "info" | "warn"): { lines: string[]; log: ReturnType<typeof createLogger> } {
  const lines: string[] = [];
  const destination = { write: (line: string) => void lines.push(line) };
  return { lines, log: createLogger(level, { destination }) };
}

test("a line is level, time, the fields of the event and its name", () => {
  const { lines, log } = linesOf("info");
  log.info(REQUEST, "request");
  log.warn({ client: REQUEST.client, tier: "t", reason: "r" }, "client refused");
  expect(lines.every((line) => line.endsWith("}\n") && line.indexOf("\n") === line.length - 1)).toBe(true);
  const [request, other] = lines.map((line) => JSON.parse(line) as Record<string, unknown>);
  const { reason: _, ...fields } = REQUEST;
  expect(Object.entries(request!)).toEqual(
    Object.entries({ level: "info", time: request!["time"], ...fields, msg: "request" }),
  );
  expect(Object.keys(other!).slice(0, 2)).toEqual(["level", "time"]);
  expect(request!["time"]).toMatch(/^\d{4}-\d\d-\d\dT[\d:.]{12}Z$/);
});

test("a request that failed by a fault of the gateway has its error in the line", () => {
  const { lines, log } = linesOf("info");
  log.error({ ...REQUEST, status: 500, err: new Error("a fault") }, "request");
  expect(JSON.parse(lines[0]!)).toMatchObject({ level: "error", msg: "request", err: { message: "a fault" } });
});

test("requests write no line where the level is higher, and do again when it is lowered", () => {
  const { lines, log } = linesOf("warn");
  log.info(REQUEST, "request");
  expect(lines).toEqual([]);
  log.level = "info";
  log.info(REQUEST, "request");
  expect(lines).toHaveLength(1);
});

test("lines have the time of their millisecond, whichever way the clock is set", () => {
  const times: unknown[] = [];
  const clock = new ManualClock();
  const destination = { write: (line: string) => void times.push((JSON.parse(line) as { time: string }).time) };
  const log = createLogger("info", { clock, destination });
  const steps = [0, 0, 1, 8, 90, 900, 1, 0.25, 0.75, 999, 1, -1, -1_000, 86_400_000, 59_999, -86_460_000.5, 7];
  const expected = steps.map((step) => {
    clock.stepWall(step);
    log.info(REQUEST, "request");
    return new Date(Math.floor(clock.wallNow())).toISOString();
  });
  expect(times).toEqual(expected);
});

test.each([
  ["C1 and DEL", "a\u0085b\u009b31m\u007f"],
  ["marks of direction", "gnp.\u202eexe\u2066\u200f"],
  ["separators of lines", "a\u2028b\u2029"],
  ["escape sequences", "\u001b[2J\u0000\r\n"],
  ["tags beyond the first plane", "\u{e0041}\ud800"],
])("%s from outside reach no terminal, and the line says what they were", (_what, client) => {
  const { lines, log } = linesOf("info");
  log.warn({ client, tier: "t", reason: "r" }, "client refused");
  expect(lines[0]).toMatch(/^[\x20-\x7e]*\n$/);
  expect(JSON.parse(lines[0]!)).toMatchObject({ client });
});
