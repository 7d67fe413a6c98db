import type { Duration, Instant } from "../../clock.ts";
import type { NodeState } from "../status.ts";

/**
 * `unproved`: too few have named the admin yet · `up` · `unhealthy`: up, and its info is asked because of a call ·
 * `ejected`: out for a while · `half-open`: back, and out again at the first failure · `wrong-admin`: it named another
 * admin · `barred`: it did so after it had named the right one, and is asked no more for a while.
 */
export type HealthState = NodeState | "unhealthy" | "half-open" | "barred";

/**
 * What an info said: `proved`, the expected admin; `awaited`, an admin that more nodes have to name; `other-admin`;
 * `silent`, none could be had; `unasked`, no call was left to ask with.
 * What a call said: `answered`; `unreachable`, no request could reach it; `doubted`, it failed and the fault is unclear;
 * `overdue`, it has not ended long after it should; `failed`, it failed and another node answered the same request;
 * `failed-everywhere`, the request alone is to blame.
 * `activated`: an operator said that it is to be used.
 */
export type HealthEvent =
  | "proved"
  | "awaited"
  | "other-admin"
  | "silent"
  | "unasked"
  | "answered"
  | "failed"
  | "doubted"
  | "overdue"
  | "unreachable"
  | "failed-everywhere"
  | "activated";

/** What events come to: the third strike, an info that is worth asking, the fifth good answer, another admin after the right one. */
type Outcome = HealthEvent | "struck-out" | "asked" | "recovered" | "turned";

/** Each state, and what makes another of it; what is not here leaves it as it is. */
const NEXT: Readonly<Record<HealthState, Readonly<Partial<Record<Outcome, HealthState>>>>> = {
  unproved: { proved: "up", "other-admin": "wrong-admin", turned: "barred" },
  "wrong-admin": { proved: "up", awaited: "unproved" },
  barred: { proved: "up", awaited: "unproved", activated: "wrong-admin" },
  up: { asked: "unhealthy", "struck-out": "ejected", awaited: "unproved", turned: "barred" },
  unhealthy: {
    proved: "up",
    unasked: "up",
    silent: "ejected",
    "struck-out": "ejected",
    awaited: "unproved",
    turned: "barred",
  },
  ejected: { proved: "half-open", awaited: "unproved", turned: "barred" },
  "half-open": {
    recovered: "up",
    failed: "ejected",
    unreachable: "ejected",
    silent: "ejected",
    awaited: "unproved",
    turned: "barred",
  },
};

/** As many as the retry budget pays for at a quiet start: another node has to answer for a failure to count. */
const MOST_STRIKES = 3;
/** Good answers after which a node that came back is up. */
const PROBATION = 5;

/** The info is asked no more often because of calls: where no request reaches the node, and where the fault is unclear. */
const PAUSE_UNREACHABLE: Duration = 1_000;
const PAUSE_DOUBTED: Duration = 5_000;

/** A node that stayed up for so long is left out as shortly as one that was never ejected. */
const FORGIVEN_AFTER: Duration = 60_000;
/** A node that turned is asked again after so long, then after twice that …; twice within the last, an operator has to say so. */
const FIRST_BAR: Duration = 60_000;
const LONGEST_BAR: Duration = 3_600_000;
const BAR_REMEMBERED: Duration = 24 * 3_600_000;

/** How a node has been doing. */
export interface Health {
  readonly state: HealthState;
  /** Calls in a row that failed. */
  readonly strikes: number;
  /** Infos in a row that did not name the right admin, or could not be had. */
  readonly misses: number;
  /** Ejections one soon after the other. */
  readonly relapses: number;
  /** Good answers that are due of it while it is half-open. */
  readonly due: number;
  /** When it came into use. */
  readonly upSince: Instant;
  /** When its info was asked because of a call. */
  readonly askedAt: Instant;
  /** Its last call or check failed, and what will show that this is over; undefined: it did not fail, or it is over. */
  readonly trouble: "info" | "answer" | undefined;
  /** It has named the right admin. */
  readonly hasProved: boolean;
  /** How often it turned, when it did so last, for how long it is asked no more and until when; Infinity: an operator says so. */
  readonly turns: number;
  readonly turnedAt: Instant;
  readonly bar: Duration;
  readonly barredUntil: Instant;
}

export const NEW_NODE: Health = {
  state: "unproved",
  strikes: 0,
  misses: 0,
  relapses: 0,
  due: 0,
  upSince: 0,
  askedAt: -Infinity,
  trouble: undefined,
  hasProved: false,
  turns: 0,
  turnedAt: -Infinity,
  bar: FIRST_BAR,
  barredUntil: -Infinity,
};

/** Whether calls may go to a node in this state. */
export function isInUse({ state }: Health): boolean {
  return state === "up" || state === "unhealthy" || state === "half-open";
}

/** For `/status`, metrics and log. */
export function stateOf({ state }: Health): NodeState {
  if (state === "unhealthy" || state === "half-open") return "up";
  return state === "barred" ? "wrong-admin" : state;
}

export interface HealthContext {
  readonly now: Instant;
  /** No other node takes calls: it is not ejected. */
  readonly isNeeded: boolean;
  /** Its info may be asked because of what a call said. */
  readonly mayAsk: boolean;
}

/** What becomes of a node's health by an event. Its info is to be asked where `askedAt` is another one afterwards. */
export function nextHealth(health: Health, event: HealthEvent, at: HealthContext): Health {
  if (event === "answered" && isSound(health)) return health;
  const counted = { ...health, ...count(health, event) };
  const outcome = outcomeOf(counted, event);
  const { state } = health;
  const moved = NEXT[state][outcome];
  const isSpared = moved === "ejected" && at.isNeeded;
  if (moved !== undefined && !isSpared) return { ...counted, ...enter(counted, moved, at.now), state: moved };
  if (at.mayAsk && isWorthAsking(counted, event, at.now)) {
    return { ...counted, askedAt: at.now, state: NEXT[state].asked ?? state };
  }
  if (state === "unhealthy" && event === "silent") return { ...counted, state: "up" };
  return state === "barred" && outcome === "turned" ? { ...counted, ...longerBar(counted, at.now) } : counted;
}

/** A good answer changes nothing about it: so do nearly all. */
function isSound({ strikes, due, trouble }: Health): boolean {
  return strikes === 0 && due === 0 && trouble === undefined;
}

function count(health: Health, event: HealthEvent): Partial<Health> {
  const { strikes, misses, trouble } = health;
  switch (event) {
    case "answered":
      return { strikes: 0, due: Math.max(health.due - 1, 0), trouble: undefined };
    case "unreachable":
      return { strikes: strikes + 1, trouble: "info" };
    case "doubted":
    case "failed-everywhere":
      return { trouble: "answer" };
    case "failed":
      return { strikes: strikes + 1 };
    case "proved":
      return { misses: 0, hasProved: true, trouble: trouble === "info" ? undefined : trouble };
    case "silent":
      return { misses: misses + 1, trouble: trouble ?? "info" };
    case "awaited":
    case "other-admin":
      return { misses: misses + 1 };
    case "activated":
      return { turns: 0, barredUntil: -Infinity };
    default:
      return {};
  }
}

/** Whether its info is asked because of what a call said. */
function isWorthAsking(health: Health, event: HealthEvent, now: Instant): boolean {
  if (!isInUse(health)) return false;
  const since = now - health.askedAt;
  if (event === "unreachable") return since >= PAUSE_UNREACHABLE;
  return (event === "doubted" || event === "overdue") && since >= PAUSE_DOUBTED;
}

function outcomeOf(health: Health, event: HealthEvent): Outcome {
  if (event === "other-admin" && health.hasProved) return "turned";
  if (event === "answered" && health.due === 0) return "recovered";
  const isStrike = event === "failed" || event === "unreachable";
  return isStrike && health.state !== "half-open" && health.strikes >= MOST_STRIKES ? "struck-out" : event;
}

/** What else changes with the state. */
function enter(health: Health, next: HealthState, now: Instant): Partial<Health> {
  if (next === "ejected") {
    return { misses: 0, relapses: now - health.upSince > FORGIVEN_AFTER ? 0 : health.relapses + 1 };
  }
  if (next === "half-open") return { strikes: 0, due: PROBATION, upSince: now };
  if (next === "barred") return firstBar(health, now);
  return next === "up" && !isInUse(health) ? { relapses: 0, upSince: now } : {};
}

function firstBar(health: Health, now: Instant): Partial<Health> {
  const turns = now - health.turnedAt > BAR_REMEMBERED ? 1 : health.turns + 1;
  return { turns, turnedAt: now, bar: FIRST_BAR, barredUntil: turns > 1 ? Infinity : now + FIRST_BAR };
}

function longerBar(health: Health, now: Instant): Partial<Health> {
  const bar = Math.min(health.bar * 2, LONGEST_BAR);
  return { bar, barredUntil: Math.max(health.barredUntil, now + bar) };
}

/** Why a node was ejected that was as `before` when this event came; `why`: what the event says of itself. */
export function whyEjected(before: Health, event: HealthEvent, why: string | undefined): string {
  if (event === "silent") return why ?? "";
  return before.state === "half-open" ? "failed again" : `failed ${before.strikes + 1} times in a row`;
}

const FIRST_RETRY: Duration = 250;
const LONGEST_WAIT: Duration = 5_000;
/** A proved node is asked again when this share of the time is over for which a proof holds. */
const RECHECK_SHARE = 0.9;

/** How long until the node is asked again, if no call asks before; undefined: not before an operator says so. */
export function pauseBeforeCheck(health: Health, now: Instant, every: Duration): Duration | undefined {
  const { misses, relapses } = health;
  if (health.barredUntil === Infinity) return undefined;
  // A check that comes a moment too early would be none.
  if (health.barredUntil > now) return (health.barredUntil - now) * 1.2;
  if (isInUse(health)) return misses === 0 ? every * RECHECK_SHARE : growing(misses - 1);
  return health.state === "ejected" ? growing(1 + relapses + misses) : growing(misses - 1);
}

function growing(doublings: number): Duration {
  return Math.min(FIRST_RETRY * 2 ** Math.min(doublings, 10), LONGEST_WAIT);
}

/** Anybody who waits for what an unhealthy or an ejected node says has others to ask. */
const UNHEALTHY_TIMEOUT: Duration = 1_000;
const EJECTED_TIMEOUT: Duration = 2_000;

/** How long a check of the node may take, if `usual` is what a call may take. */
export function checkTimeout({ state }: Health, usual: Duration): Duration {
  if (state === "ejected") return Math.min(usual, EJECTED_TIMEOUT);
  return state === "unhealthy" ? Math.min(usual, UNHEALTHY_TIMEOUT) : usual;
}
