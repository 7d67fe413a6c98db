import { expect, test } from "vitest";
import { ALONE, decideHedge, scheduleAttempt } from "../../src/upstream/call/hedging.ts";
import type { HedgeState, Schedule, ScheduleInput } from "../../src/upstream/call/hedging.ts";

const NOW = 10_000;

const input: ScheduleInput = { now: NOW, deadline: NOW + 10_000, attemptTimeout: 5_000, slow: 100, mayHedge: true };

test.each<[string, Partial<ScheduleInput>, Schedule]>([
  ["a quick operation", {}, { hedgeAt: NOW + 100, retryAt: NOW + 750, lateAt: NOW + 750 }],
  ["a slow operation", { slow: 1_000 }, { hedgeAt: NOW + 1_000, retryAt: NOW + 3_000, lateAt: NOW + 3_000 }],
  ["one as quick as the gateway itself", { slow: 2 }, { hedgeAt: NOW + 5, retryAt: NOW + 750, lateAt: NOW + 750 }],
  ["one too slow to be late", { slow: 2_000 }, { hedgeAt: NOW + 2_000, retryAt: NOW + 5_000, lateAt: Infinity }],
  ["an unknown operation", { slow: undefined }, { hedgeAt: Infinity, retryAt: NOW + 750, lateAt: NOW + 750 }],
  ["one that may not be hedged", { mayHedge: false }, { hedgeAt: Infinity, retryAt: NOW + 750, lateAt: NOW + 750 }],
  ["little time", { deadline: NOW + 600 }, { hedgeAt: NOW + 100, retryAt: NOW + 300, lateAt: NOW + 750 }],
])("the schedule of an attempt: %s", (_what, change, schedule) => {
  expect(scheduleAttempt({ ...input, ...change })).toEqual(schedule);
});

const SCHEDULE: Schedule = { hedgeAt: NOW + 100, retryAt: NOW + 750, lateAt: NOW + 800 };
const state: HedgeState = { schedule: SCHEDULE, isAlone: true, hasOther: true, mayRetry: true };

test.each<[string, Partial<HedgeState>, number, string, Partial<Schedule>]>([
  ["nothing before it is due", {}, 99, "wait", {}],
  ["a hedge when it is slow", {}, 100, "hedge", { hedgeAt: Infinity }],
  ["nothing beside two", { isAlone: false }, 100, "wait", { hedgeAt: Infinity }],
  ["nothing without another node", { hasOther: false }, 100, "wait", { hedgeAt: Infinity }],
  ["a hedge whatever was retried", { mayRetry: false }, 100, "hedge", { hedgeAt: Infinity }],
  ["a retry when it is late", { schedule: { ...SCHEDULE, hedgeAt: Infinity } }, 750, "retry", { retryAt: Infinity }],
  ["a retry first, when both are due", {}, 750, "retry", { retryAt: Infinity }],
  [
    "the hedge instead, when no retry is left",
    { mayRetry: false },
    750,
    "hedge",
    { hedgeAt: Infinity, retryAt: Infinity },
  ],
  ["no retry beside two", { isAlone: false }, 750, "wait", { hedgeAt: Infinity, retryAt: Infinity }],
  [
    "all that is due is decided",
    { isAlone: false },
    900,
    "wait",
    { hedgeAt: Infinity, retryAt: Infinity, lateAt: Infinity },
  ],
])("beside an attempt: %s", (_what, change, after, action, changed) => {
  const known = { ...state, ...change };
  expect(decideHedge(known, NOW + after)).toEqual({ action, schedule: { ...known.schedule, ...changed } });
});

test("every time is decided once: the schedule that is left asks for nothing at the same time", () => {
  for (const isAlone of [true, false]) {
    for (const hasOther of [true, false]) {
      for (const after of [0, 100, 750, 800, 5_000]) {
        const known = { isAlone, hasOther, mayRetry: true };
        let schedule = SCHEDULE;
        for (let i = 0; i < 3; i++) schedule = decideHedge({ schedule, ...known }, NOW + after).schedule;
        const { hedgeAt, retryAt, lateAt } = schedule;
        expect(Math.min(hedgeAt, retryAt, lateAt)).toBeGreaterThan(NOW + after);
      }
    }
  }
});

test("an attempt that nothing runs beside has nothing to decide", () => {
  expect(decideHedge({ ...state, schedule: ALONE }, NOW + 60_000)).toEqual({ action: "wait", schedule: ALONE });
});
