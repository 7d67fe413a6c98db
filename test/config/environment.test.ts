import { array, assert, constantFrom, property } from "fast-check";
import { expect, test } from "vitest";
import { escapeReferences, substitute } from "../../src/config/environment.ts";

const env = { A: "1", EMPTY: "", REFERENCE: "${A}" };

test.each([
  ["plain", "plain", false],
  ["${A}", "1", true],
  ["x${A}y${A}z", "x1y1z", true],
  ["${EMPTY}", "", true],
  ["${EMPTY:-d}", "d", true],
  ["${A:-d}", "1", true],
  ["${NONE:-}", "", true],
  ["${NONE:-a:-b}", "a:-b", true],
  ["${NONE:-$A}", "$A", true],
  ["${REFERENCE}", "${A}", true],
  ["$${A}", "${A}", false],
  ["$$${A}", "$${A}", false],
  ["$A $ {A} $", "$A $ {A} $", false],
])("%j becomes %j", (text, expected, replaced) => {
  expect(substitute(text, env)).toEqual({ text: expected, replaced, faults: [] });
});

test.each([
  ["${NONE}", "the environment variable NONE is not set"],
  // What every object has is no variable.
  ["${constructor}", "the environment variable constructor is not set"],
  ["${}", '"${}" is not of the form'],
  ["${A-b}", '"${A…}" is not of the form'],
  ["${A", '"${" is not closed'],
  ["${A:-${B}}", "a reference stands within another"],
  ["${NONE:-${A}}", "a reference stands within another"],
])("%j is a mistake", (text, fault) => {
  const { faults } = substitute(text, env);
  expect(faults).toHaveLength(1);
  expect(faults[0]).toContain(fault);
});

test("any text can be written so that it stands for itself", () => {
  const text = array(constantFrom("$", "{", "}", "A", ":-")).map((parts) => parts.join(""));
  assert(property(text, (text) => substitute(escapeReferences(text), {}).text === text));
});
