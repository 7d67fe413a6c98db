import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import { MAX_DELTA_SECONDS, parseDirectives, responseDirectives } from "../../src/cache/rfc/cache-control.ts";

function read(...lines: string[]): ReturnType<typeof responseDirectives> {
  return responseDirectives(parseDirectives(lines));
}

describe("max-age", () => {
  test.for([
    ["a number", ["max-age=3600"], 3600],
    ["another case", ["MaX-aGe=3600"], 3600],
    ["quoted", ['max-age="3600"'], 3600],
    ["leading zeros", ["max-age=003600"], 3600],
    ["zero", ["max-age=0"], 0],
    ["after an unknown directive", ["foobar, max-age=3600"], 3600],
    ["spaces around the member", ["public ,  max-age=3600  , foo"], 3600],
    ["tabs and empty members", [",\t,max-age=3600,,"], 3600],
    ["2^31", ["max-age=2147483648"], MAX_DELTA_SECONDS],
    ["beyond 2^31", ["max-age=99999999999"], MAX_DELTA_SECONDS],
    ["beyond any number", [`max-age=${"9".repeat(400)}`], MAX_DELTA_SECONDS],
    ["in a quoted string before the real one", ['extension="max-age=3600", max-age=1'], 1],
    ["in a quoted string after the real one", ['max-age=1, extension="max-age=3600"'], 1],
    ["behind an escaped quote", ['extension="a\\", max-age=3600", max-age=1'], 1],
    ["behind a quote that never closes", ['extension="a, max-age=5'], 5],
    ["twice, the first shorter", ["max-age=1, max-age=1800"], 1],
    ["twice, the second shorter", ["max-age=1800, max-age=1"], 1],
    ["on two lines", ["max-age=1800", "max-age=1"], 1],
    ["twice, one malformed", ["max-age=1800, max-age=x"], 0],
    ["without argument", ["max-age"], 0],
    ["empty", ["max-age="], 0],
    ["negative", ["max-age=-100"], 0],
    ["leading letter", ["max-age=a100"], 0],
    ["trailing letter", ["max-age=100a"], 0],
    ["decimal", ["max-age=3600.0"], 0],
    ["single quotes", ["max-age='3600'"], 0],
    ["space before =", ["max-age =100"], 0],
    ["space after =", ["max-age= 100"], 0],
    ["another separator", ["max-age:100"], 0],
    ["hexadecimal", ["max-age=0x10"], 0],
    ["exponent", ["max-age=1e3"], 0],
    ["other digits", ["max-age=\u0663\u0666"], 0],
  ] as const)("%s", ([, lines, seconds]) => {
    expect(read(...lines).maxAge).toBe(seconds * 1000);
  });

  test.for(["public", "x-max-age=100", "s-maxage=100", 'ext="max-age=100"', "", '"max-age=100"'])(
    "is absent from %j",
    (line) => {
      expect(read(line).maxAge).toBeUndefined();
    },
  );
});

describe("directives without argument", () => {
  test.for([
    ["no-store", "noStore"],
    ["NO-STORE", "noStore"],
    ["max-age=10, no-store", "noStore"],
    ["no-store=foo", "noStore"],
    ['ext="a, no-store', "noStore"],
    ["public", "public"],
    ["must-revalidate", "mustRevalidate"],
    ["Proxy-Revalidate", "proxyRevalidate"],
    ["must-understand", "mustUnderstand"],
    ["no-transform", "noTransform"],
  ] as const)("%s", ([line, name]) => {
    expect(read(line)[name]).toBe(true);
  });

  test.for(["no-stores", "xno-store", 'ext="no-store"', "no_store"])("%s is something else", (line) => {
    expect(read(line).noStore).toBe(false);
  });
});

describe("directives that may name fields", () => {
  test.for([
    ["absent", "max-age=1", false],
    ["unqualified", "no-cache", true],
    ["another case", "No-CaChE", true],
    ["one field", 'no-cache="a"', ["a"]],
    ["several fields in any case", 'no-cache="A, b"', ["a", "b"]],
    ["token form", "no-cache=a", ["a"]],
    ["repeated", 'no-cache="a", no-cache="b"', ["a", "b"]],
    ["qualified and not", 'no-cache="a", no-cache', true],
    ["empty list", 'no-cache=""', true],
    ["no field name", 'no-cache="a b"', true],
    ["a field that caches decide by", 'no-cache="a, Vary"', true],
    ["a field that says what the body is", 'no-cache="Content-Type"', true],
  ] as const)("no-cache: %s", ([, line, scope]) => {
    expect(read(line).noCache).toEqual(scope);
  });

  test("private names fields too", () => {
    expect(read('private="Set-Cookie"', "max-age=5")).toMatchObject({ private: ["set-cookie"], maxAge: 5_000 });
  });
});

test("any text is read without failing, and a no-store outside quotes is never overlooked", () => {
  fc.assert(
    fc.property(fc.string({ unit: fc.constantFrom(...'ab=, \t"\\;-1'.split("")) }), (text) => {
      expect(() => read(text)).not.toThrow();
      expect(read("no-store", text).noStore).toBe(true);
      if (!text.includes('"')) expect(read(`${text},no-store`).noStore).toBe(true);
    }),
  );
});
