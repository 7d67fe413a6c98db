import { expect, test } from "vitest";
import { type MomentInput, momentsOf } from "../../src/upstream/call/hedging.ts";

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
