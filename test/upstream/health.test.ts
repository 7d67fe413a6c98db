import { describe, expect, test } from "vitest";
import {
  checkTimeout,
  type Health,
  type HealthEvent,
  type HealthState,
  isInUse,
  NEW_NODE,
  nextHealth,
  pauseBeforeCheck,
  stateOf,
  whyEjected,
} from "../../src/upstream/nodes/health.ts";

const NOW = 100_000_000;
const EVERY = 300_000;
const AT = { now: NOW, isNeeded: false, mayAsk: true };

/** A node that has been in this state for a while, and before that well. */
function inState(state: HealthState, change: Partial<Health> = {}): Health {
  const due = state === "half-open" ? 5 : 0;
  const turns = state === "barred" ? { turns: 1, turnedAt: NOW, barredUntil: NOW + 60_000 } : {};
  const hasProved = state !== "unproved" && state !== "wrong-admin";
  return { ...NEW_NODE, state, hasProved, due, ...turns, ...change };
}

/** `→ other`, and `?` where its info is asked. */
function move(health: Health, event: HealthEvent, at = AT): string {
  const next = nextHealth(health, event, at);
  return (next.state === health.state ? "" : next.state) + (next.askedAt === NOW ? "?" : "");
}

const EVENTS: readonly HealthEvent[] = [
  "proved",
  "awaited",
  "other-admin",
  "silent",
  "unasked",
  "answered",
  "doubted",
  "overdue",
  "unreachable",
  "failed",
  "failed-everywhere",
  "activated",
];

// One line for each state, one word for each event above: the state it leads to, `-` where it stays, `?` where its info is asked.
const TABLE: Readonly<Record<HealthState, string>> = {
  unproved: "up - wrong-admin - - - - - - - - -",
  up: "- unproved barred - - - unhealthy? unhealthy? unhealthy? - - -",
  unhealthy: "up unproved barred ejected up - ? ? ? - - -",
  ejected: "half-open unproved barred - - - - - - - - -",
  "half-open": "- unproved barred ejected - - ? ? ejected ejected - -",
  "wrong-admin": "up unproved - - - - - - - - - -",
  barred: "up unproved - - - - - - - - - wrong-admin",
};

describe.each(Object.entries(TABLE) as [HealthState, string][])("a node that is %s", (state, line) => {
  const words = line.split(" ");
  test.each(EVENTS.map((event, at) => [event, words[at]!] as const))("after %s: %s", (event, word) => {
    expect(move(inState(state), event)).toBe(word === "-" ? "" : word);
  });
});

describe("the third call in a row", () => {
  test.each<[HealthEvent, HealthEvent, string]>([
    ["failed", "failed", "ejected"],
    ["failed", "unreachable", "ejected"],
  ])("after two that %s, and that %s: %s", (before, last, expected) => {
    const twice = [before, before].reduce((health, event) => nextHealth(health, event, AT), inState("up"));
    expect(twice.state).toBe("up");
    expect(move(twice, last)).toBe(expected);
  });

  test("counts anew after a good answer", () => {
    const events: HealthEvent[] = ["failed", "failed", "answered", "failed", "failed", "answered"];
    const health = events.reduce((each, event) => nextHealth(each, event, AT), inState("up"));
    expect(health).toMatchObject({ state: "up", strikes: 0 });
  });
});

describe("the last node that takes calls is not ejected", () => {
  const needed = { ...AT, isNeeded: true };
  test.each<[HealthState, HealthEvent, string]>([
    ["up", "failed", ""],
    ["unhealthy", "silent", "up"],
    ["half-open", "failed", ""],
    ["up", "unreachable", "unhealthy?"],
  ])("%s, after %s", (state, event, expected) => {
    expect(move(inState(state, { strikes: 5 }), event, needed)).toBe(expected);
  });

  test("but is another registry's as soon as it says so", () => {
    expect(move(inState("up"), "other-admin", needed)).toBe("barred");
  });
});

describe("its info is asked because of calls", () => {
  test.each<[HealthEvent, number, string]>([
    ["doubted", 4_999, ""],
    ["doubted", 5_000, "unhealthy?"],
    ["unreachable", 999, ""],
    ["unreachable", 1_000, "unhealthy?"],
  ])("of one that is %s, %i ms after the last time: %s", (event, since, expected) => {
    expect(move(inState("up", { askedAt: NOW - since }), event)).toBe(expected);
  });

  test("never where it may not be", () => {
    expect(move(inState("up"), "doubted", { ...AT, mayAsk: false })).toBe("");
  });
});

test("a node that comes back is up after five good answers", () => {
  let health = nextHealth(inState("ejected"), "proved", AT);
  for (let answers = 1; answers <= 4; answers += 1) health = nextHealth(health, "answered", AT);
  expect(health.state).toBe("half-open");
  expect(nextHealth(health, "answered", AT).state).toBe("up");
});

test("a good answer leaves a node that is well as it is, the very same record", () => {
  const health = inState("up");
  expect(nextHealth(health, "answered", AT)).toBe(health);
});

describe("trouble", () => {
  const after = (...events: HealthEvent[]) =>
    events.reduce((health, event) => nextHealth(health, event, AT), inState("up")).trouble;
  test.each<[string, HealthEvent[], Health["trouble"]]>([
    ["of a node that cannot be reached ends with its info", ["unreachable", "proved"], undefined],
    ["of calls does not", ["doubted", "proved"], "answer"],
    ["of calls ends with an answer", ["failed-everywhere", "answered"], undefined],
    ["of a failed check is its info", ["silent"], "info"],
    ["of calls stays when a check fails, too", ["doubted", "silent"], "answer"],
  ])("%s", (_what, events, expected) => {
    expect(after(...events)).toBe(expected);
  });
});

describe("a node that names another admin after the right one", () => {
  const turned = nextHealth(inState("up"), "other-admin", AT);

  test("is asked again after a minute, and goes on naming it: after two, four … up to an hour", () => {
    expect(turned.barredUntil).toBe(NOW + 60_000);
    let health = turned;
    const waits: number[] = [];
    for (let i = 0; i < 8; i += 1) {
      const now = health.barredUntil;
      health = nextHealth(health, "other-admin", { ...AT, now });
      waits.push((health.barredUntil - now) / 60_000);
    }
    expect(waits).toEqual([2, 4, 8, 16, 32, 60, 60, 60]);
  });

  test("again within a day is asked no more before an operator says so", () => {
    const back = nextHealth(turned, "proved", { ...AT, now: NOW + 60_000 });
    const again = nextHealth(back, "other-admin", { ...AT, now: NOW + 3_600_000 });
    expect(pauseBeforeCheck(again, NOW + 3_600_000, EVERY)).toBe(undefined);
    const activated = nextHealth(again, "activated", { ...AT, now: NOW + 7_200_000 });
    expect(pauseBeforeCheck(activated, NOW + 7_200_000, EVERY)).toBeLessThanOrEqual(5_000);
    expect(stateOf(again)).toBe("wrong-admin");
  });

  test("again a day later is asked after a minute", () => {
    const later = NOW + 25 * 3_600_000;
    const back = nextHealth(turned, "proved", { ...AT, now: later });
    expect(nextHealth(back, "other-admin", { ...AT, now: later }).barredUntil).toBe(later + 60_000);
  });
});

describe("the pause before the next check", () => {
  test.each<[string, Health, number]>([
    ["of a node that is well", inState("up"), EVERY * 0.9],
    ["of one that did not tell its info once", inState("up", { misses: 1 }), 250],
    ["of one that did not ten times", inState("up", { misses: 10 }), 5_000],
    ["of one that is not proved, the first time", inState("unproved", { misses: 1 }), 250],
    ["of one that is ejected", inState("ejected"), 500],
    ["of one that is ejected again soon", inState("ejected", { relapses: 2 }), 2_000],
    ["of one that is barred", inState("barred"), 72_000],
  ])("%s: %s", (_what, health, expected) => {
    expect(pauseBeforeCheck(health, NOW, EVERY)).toBe(expected);
  });

  test("is short again for a node that stayed up for a minute", () => {
    const strikes = { strikes: 2, relapses: 3 };
    const soon = nextHealth(inState("up", { ...strikes, upSince: NOW - 59_000 }), "failed", AT);
    const late = nextHealth(inState("up", { ...strikes, upSince: NOW - 61_000 }), "failed", AT);
    expect([soon.relapses, late.relapses]).toEqual([4, 0]);
  });
});

test("a check of an unhealthy or ejected node takes no longer than a second or two", () => {
  const states: HealthState[] = ["up", "unhealthy", "ejected"];
  expect(states.map((state) => checkTimeout(inState(state), 5_000))).toEqual([5_000, 1_000, 2_000]);
});

test("calls go to nodes that are up, unhealthy or half-open, and all three are shown as up", () => {
  const states = (Object.keys(TABLE) as HealthState[]).filter((state) => isInUse(inState(state)));
  expect(states).toEqual(["up", "unhealthy", "half-open"]);
  expect(states.map((state) => stateOf(inState(state)))).toEqual(["up", "up", "up"]);
});

test.each<[HealthState, HealthEvent, string]>([
  ["up", "failed", "failed 3 times in a row"],
  ["half-open", "unreachable", "failed again"],
  ["unhealthy", "silent", "what the check said"],
])("an ejected node that was %s says why after %s", (state, event, why) => {
  expect(whyEjected(inState(state, { strikes: 2 }), event, "what the check said")).toBe(why);
});
