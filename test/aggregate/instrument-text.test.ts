import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import { withMembers } from "../../src/aggregate/instrument-text.ts";

const ADMIN = [["admin", '"x::1"']] as const;

describe("an instrument's text with its admin", () => {
  test.each([
    ["{}", '{"admin":"x::1"}'],
    ["{ }", '{"admin":"x::1" }'],
    ['{"id":"a"}', '{"admin":"x::1","id":"a"}'],
    ['{"admin":"evil"}', '{"admin":"x::1"}'],
    ['{"admin":"evil","id":"a"}', '{"admin":"x::1","id":"a"}'],
    ['{"id":"a","admin":"evil"}', '{"admin":"x::1","id":"a"}'],
    ['{"id":"a" , "admin" : {"admin":[1,"}"]} , "name":"n"}', '{"admin":"x::1","id":"a" , "name":"n"}'],
    ['{"admin":1,"admin":2,"id":"a","admin":3}', '{"admin":"x::1","id":"a"}'],
    [String.raw`{"adm\u0069n":"evil","id":"a"}`, '{"admin":"x::1","id":"a"}'],
    [String.raw`{"x\"admin":1,"\"":2,"\\admin":3}`, String.raw`{"admin":"x::1","x\"admin":1,"\"":2,"\\admin":3}`],
    ['{"nested":{"admin":"kept"},"admins":1}', '{"admin":"x::1","nested":{"admin":"kept"},"admins":1}'],
    ['{"n":12345678901234567890.10,\n "m":1E+2}', '{"admin":"x::1","n":12345678901234567890.10,\n "m":1E+2}'],
  ])("%s becomes %s", (text, expected) => {
    expect(withMembers(text, ADMIN)).toBe(expected);
  });

  test("says what it said, and its admin, whatever it is", () => {
    const value = fc.dictionary(
      fc.constantFrom("id", "admin", "registry", 'q"', "\\", "x y", "__proto__"),
      fc.jsonValue(),
    );
    fc.assert(
      fc.property(value, fc.constantFrom(undefined, 2, "\t"), (instrument, space) => {
        const text = withMembers(JSON.stringify(instrument, null, space), [...ADMIN, ["registry", '"r"']]);
        const expected = { ...(JSON.parse(JSON.stringify(instrument)) as object), admin: "x::1", registry: "r" };
        expect(JSON.parse(text)).toEqual(expected);
      }),
    );
  });
});
