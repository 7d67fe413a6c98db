import { expect, test } from "vitest";
import {
  type MomentInput,
  momentsOf,
  planRetry,
  type RetryPlan,
  type RetryState,
} from "../../src/upstream/call/further-attempts.ts";
import { consequences, FAILURE_REASONS } from "../../src/upstream/failure.ts";

const NOW = 10_000;

const input: MomentInput = { now: NOW, deadline: NOW + 10_000, attemptTimeout: 5_000, slow: 100, mayHedge: true };

test.each<[string, Partial<MomentInput>, string]>([
  ["a quick operation", {}, "hedge 100, late 750, retry 750"],
  ["a slow operation", { slow: 1_000 }, "hedge 1000, late 3000, retry 3000"],
  ["one as quick as the gateway itself", { slow: 2 }, "hedge 5, late 750, retry 750"],
  ["one too slow to be late", { slow: 2_000 }, "hedge 2000, retry 5000"],
  ["an unknown operation", { slow: undefined }, "late 750, retry 750"],
  ["one that may not be hedged", { mayHedge: false }, "late 750, retry 750"],
  ["little time", { deadline: NOW + 600 }, "hedge 100, retry 300, late 750"],
  ["less time than is slow", { deadline: NOW + 150 }, "retry 75, hedge 100, late 750"],
])("what is due beside an attempt: %s", (_what, change, moments) => {
  const described = momentsOf({ ...input, ...change }).map(({ at, what }) => `${what} ${at - NOW}`);
  expect(described.join(", ")).toBe(moments);
});

const state: RetryState = {
  reason: "reset",
  attempts: 1,
  most: 3,
  deadline: NOW + 10_000,
  hasFailedEverywhere: false,
  hasUntried: true,
  othersFreeAt: -Infinity,
  random: 0.5,
};
/** All nodes were tried, or ask for a pause. */
const tried = { hasUntried: false };
const sole = { hasUntried: false, othersFreeAt: undefined };

test.each<[string, Partial<RetryState>, RetryPlan | undefined]>([
  ["a node that was not tried, soon", {}, { at: NOW + 10, avoid: "tried" }],
  ["later after the second attempt", { attempts: 2 }, { at: NOW + 20, avoid: "tried" }],
  ["nowhere after the last attempt", { attempts: 3 }, undefined],
  ["nowhere when the request failed everywhere", { hasFailedEverywhere: true }, undefined],
  ["nowhere when the deadline comes first", { deadline: NOW + 10 }, undefined],
  ["another node once more when all were tried", tried, { at: NOW + 10, avoid: "last" }],
  ["another node after its pause", { ...tried, othersFreeAt: NOW + 2_000 }, { at: NOW + 2_000, avoid: "last" }],
  ["nowhere when the pause is too long", { ...tried, othersFreeAt: NOW + 2_001 }, undefined],
  ["a node that was not tried after a 429", { reason: "http-429" }, { at: NOW + 10, avoid: "tried" }],
  ["nowhere when all have said 429", { ...tried, reason: "http-429" }, undefined],
  ["the sole node after a reset", sole, { at: NOW + 75, avoid: "none" }],
  ["the sole node at once by chance", { ...sole, random: 0 }, { at: NOW + 50, avoid: "none" }],
  ["nowhere when the sole node is busy", { ...sole, reason: "http-503" }, undefined],
  ["nowhere when the sole node says 429", { ...sole, reason: "http-429" }, undefined],
])("a failed call is tried again on: %s", (_what, change, plan) => {
  expect(planRetry({ ...state, ...change }, NOW)).toEqual(plan);
});

test.each(FAILURE_REASONS)("a sole node is asked again after %s only where that can help", (reason) => {
  const plan = planRetry({ ...state, ...sole, reason }, NOW);
  expect(plan !== undefined).toBe(consequences[reason].again);
});
