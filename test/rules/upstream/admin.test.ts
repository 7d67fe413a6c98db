import { expect, test } from "vitest";
import { Admin } from "../../../src/upstream/admin.ts";
import { TestClock } from "../../support/clock.ts";

function admin(configured?: string, learned?: string) {
  const clock = TestClock.standing();
  const told: string[] = [];
  const events = {
    onLearned: (party: string) => void told.push(`learned ${party}`),
    onWrong: (party: string) => void told.push(`wrong ${party}`),
  };
  return { admin: new Admin({ configured, learned }, events, clock), clock, told };
}

test("the first party that a node names is the admin, where none is configured", () => {
  const { admin: learning, told } = admin();
  expect(["a", "b", "a"].map((named) => learning.accepts(named))).toEqual([true, false, true]);
  expect([learning.party, told]).toEqual(["a", ["learned a"]]);
});

test("what is configured counts, and what was learned before a reload stays", () => {
  expect(admin("a").admin.accepts("b")).toBe(false);
  expect(admin(undefined, "a").admin.accepts("b")).toBe(false);
  expect(admin("a", "b").admin.party).toBe("a");
});

test("what was stored is forgotten at most once a minute", () => {
  const { admin: known, clock, told } = admin("a");
  known.noteWrong();
  known.noteWrong();
  clock.advance("59s");
  known.noteWrong();
  clock.advance("1s");
  known.noteWrong();
  expect(told).toEqual(["wrong a", "wrong a"]);
});
