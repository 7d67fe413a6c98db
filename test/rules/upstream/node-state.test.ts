import { expect, test } from "vitest";
import { askAgainAfter, chooseNode } from "../../../src/upstream/node-state.ts";

test("a node that is out is asked again after 1, 2, 4 … 10 s, a wrong one after proofEvery, others when they are needed", () => {
  expect([1, 2, 3, 4, 5, 60].map((failures) => askAgainAfter("out", failures, 300_000))).toEqual([
    1_000, 2_000, 4_000, 8_000, 10_000, 10_000,
  ]);
  expect(askAgainAfter("wrong", 0, 300_000)).toBe(300_000);
  expect(askAgainAfter("up", 0, 300_000)).toBeUndefined();
  expect(askAgainAfter("unproved", 0, 300_000)).toBeUndefined();
});

const node = (name: string, inFlight: number, hasOpenConnection = true) => ({ name, inFlight, hasOpenConnection });

test.each([
  { name: "fewer in flight", nodes: [node("a", 2), node("b", 1)], chosen: ["b"] },
  { name: "an open connection, of equal ones", nodes: [node("a", 1, false), node("b", 1)], chosen: ["b"] },
  { name: "any, of equal ones", nodes: [node("a", 1), node("b", 1)], chosen: ["a", "b"] },
  { name: "the only one", nodes: [node("a", 9)], chosen: ["a"] },
])("of two nodes the one is asked with $name", ({ nodes, chosen }) => {
  const drawn = new Set(Array.from({ length: 200 }, () => chooseNode(nodes, Math.random).name));
  expect([...drawn].toSorted()).toEqual(chosen);
});

test("of many nodes two different ones are drawn, each pair as likely as any other", () => {
  const counts = new Map<string, number>();
  const nodes = ["a", "b", "c", "d", "e"].map((name) => node(name, 0));
  for (let i = 0; i < 5_000; i += 1) {
    const { name } = chooseNode(nodes, Math.random);
    counts.set(name, (counts.get(name) ?? 0) + 1);
  }
  for (const count of counts.values()) expect(Math.abs(count - 1_000)).toBeLessThan(200);
});

test("a node that answers at once, beside busy ones, gets no more than the pairs that it is in", () => {
  const nodes = [node("quick", 0), node("b", 4), node("c", 4), node("d", 4), node("e", 4)];
  const quick = Array.from({ length: 5_000 }, () => chooseNode(nodes, Math.random)).filter(
    ({ name }) => name === "quick",
  );
  expect(quick.length / 5_000).toBeLessThan(0.45);
});
