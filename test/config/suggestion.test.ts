import * as fc from "fast-check";
import { expect, test } from "vitest";
import { suggest } from "../../src/config/problem.ts";

test.each([
  ["amulte", ["bonds", "amulet"], "amulet"],
  ["bond", ["bonds", "bind"], "bonds"],
  ["bind", ["bonds", "bind"], "bind"],
  ["ab", ["xy"], undefined],
  ["a", ["b"], "b"],
  ["", ["a"], "a"],
  ["x", [], undefined],
  ["maxConections", ["maxConnections", "max"], "maxConnections"],
  ["x".repeat(10_000), ["x".repeat(64)], undefined],
  ["completely-different", ["something-else"], undefined],
])("%s among %j means %s", (word, known, meant) => {
  expect(suggest(word, known)).toBe(meant === undefined ? "" : `; did you mean "${meant}"?`);
});

test("what is one edit away is always found, whatever else there is", () => {
  const name = fc.string({ minLength: 2, maxLength: 20, unit: fc.constantFrom("a", "b", "c", "d", "e", "-") });
  fc.assert(
    fc.property(name, fc.nat(), fc.array(name), (meant, at, others) => {
      const i = at % meant.length;
      const mistyped = meant.slice(0, i) + meant.slice(i + 1);
      const said = /"(.*)"/.exec(suggest(mistyped, [...others, meant]))?.[1];
      expect(said).toBeDefined();
    }),
  );
});
