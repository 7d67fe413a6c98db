import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import {
  elementSpans,
  keyTree,
  memberSpans,
  parseUnrepeated,
  readUnrepeatedObject,
  repeatedKey,
} from "../../src/json.ts";
import { CODE_POINT } from "../support/code-point.ts";
import { jsonText } from "../support/json-text.ts";
import { runs } from "../support/thorough.ts";

const valuesAt = (text: string, key: string): unknown[] =>
  memberSpans(text, 0, key).map(({ start, end }) => JSON.parse(text.slice(start, end)));

describe("positions in JSON text", () => {
  test("agree with JSON.parse on every member of every object", () => {
    fc.assert(
      fc.property(jsonText(fc.dictionary(fc.string({ unit: CODE_POINT }), fc.jsonValue())), ({ text, value }) => {
        for (const [key, member] of Object.entries(value as Record<string, unknown>)) {
          expect(valuesAt(text, key)).toEqual([JSON.parse(JSON.stringify(member))]);
        }
        expect(memberSpans(text, 0, "not there at all")).toEqual([]);
      }),
      { numRuns: runs(40, 3_000) },
    );
  });

  test("agree with JSON.parse on every element of every array", () => {
    fc.assert(
      fc.property(jsonText(fc.array(fc.jsonValue())), ({ text, value }) => {
        const elements = elementSpans(text, 0).map(({ start, end }) => JSON.parse(text.slice(start, end)) as unknown);
        expect(elements).toEqual(JSON.parse(JSON.stringify(value)));
      }),
      { numRuns: runs(100, 3_000) },
    );
  });

  test("find no member and no element in what is neither object nor array", () => {
    for (const text of ["1", "-0.5e3", "true", "null", '"{\\"a\\":1}"', " [ ] ", "{ }"]) {
      expect(memberSpans(text, 0, "a")).toEqual([]);
      expect(elementSpans(text, 0)).toEqual([]);
    }
    expect(memberSpans('[{"a":1}]', 0, "a")).toEqual([]);
    expect(elementSpans('{"a":[1]}', 0)).toEqual([]);
  });

  test("keep the exact text of a value", () => {
    const text = '{ "n" : 12345678901234567890.10 , "s":"a\\u0062\\"}" ,"o":{ "x" :[1 , 2] } }';
    const slice = (key: string): string[] => memberSpans(text, 0, key).map(({ start, end }) => text.slice(start, end));
    expect(slice("n")).toEqual(["12345678901234567890.10"]);
    expect(slice("s")).toEqual(['"a\\u0062\\"}"']);
    expect(slice("o")).toEqual(['{ "x" :[1 , 2] }']);
  });
});

describe("a key given twice", () => {
  test.each([
    ['{"a":1,"a":2}', ["a"], "a"],
    ['{"a":1,"\\u0061":2}', ["a"], "a"],
    ['{"\\u0061":1,"\\u0061":2}', ["a"], "a"],
    ['{"a/b":1,"a\\/b":2}', ["a/b"], "a/b"],
    ['{"a":{"b":1,"b":1}}', ["a", "b"], "b"],
    ['{"a":{"b":1},"a":{}}', ["a", "b"], "a"],
    ['{"a":null,"a":{"b":1}}', ["a", "b"], "a"],
    ['{"x":{"a":1},"a":{"\\u0062":1,"c":"}","b":2}}', ["a", "b"], "b"],
    ['{"a":1}', ["a"], undefined],
    ['{"a":1,"A":2}', ["a"], undefined],
    ['{"a":1,"a ":2}', ["a"], undefined],
    ['{"x":1,"x":2,"a":1}', ["a"], undefined],
    ['{"a":{"x":1,"x":2,"b":1}}', ["a", "b"], undefined],
    ['{"a":[{"b":1,"b":2}]}', ["a", "b"], undefined],
    ['{"a":"{\\"b\\":1,\\"b\\":2}"}', ["a", "b"], undefined],
    ["{}", ["a"], undefined],
    ["[]", ["a"], undefined],
  ] as const)("%s on the way %j: %s", (text, path, key) => {
    expect(repeatedKey(text, keyTree([path]))?.at(-1)).toBe(key);
  });

  test.each([
    ['{"a":{"b":1,"c":2,"c":3}}', ["a", "c"]],
    ['{"a":{"b":1,"c":2},"d":{"e":{"f":1, "\\u0066":2}}}', ["d", "e", "f"]],
    ['{"d":{"e":{"f":1}},"a":{"c":[{"c":1}],"b":2},"d":1}', ["d"]],
    ['{"a":{"b":{"c":1,"c":2},"c":{"c":1,"c":2}},"d":{"e":{"f":{"f":1,"f":2}}}}', undefined],
    ['{"a":{"b":1},"x":{"a":1,"a":2},"d":{"b":1,"b":2}}', undefined],
  ] as const)("%s on any of several ways: %j", (text, way) => {
    const tree = keyTree([
      ["a", "b"],
      ["a", "c"],
      ["d", "e", "f"],
    ]);
    expect(repeatedKey(text, tree)).toEqual(way);
  });

  test("is found however it is written and whatever stands between", () => {
    const key = fc.string({ unit: CODE_POINT, minLength: 1, maxLength: 8 });
    const escaped = (text: string): string =>
      [...Array(text.length).keys()].map((i) => `\\u${text.charCodeAt(i).toString(16).padStart(4, "0")}`).join("");
    fc.assert(
      fc.property(key, fc.jsonValue(), fc.jsonValue(), fc.boolean(), (name, one, other, isEscaped) => {
        const again = isEscaped ? `"${escaped(name)}"` : JSON.stringify(name);
        const text = `{"x-y":${JSON.stringify(other)},${JSON.stringify(name)}:${JSON.stringify(one)} , ${again}\n:1}`;
        fc.pre(name !== "x-y");
        expect(repeatedKey(text, keyTree([[name]]))).toEqual([name]);
      }),
      { numRuns: runs(100, 3_000) },
    );
  });

  test("is looked for in one pass, however long the strings and deep the nesting", () => {
    const deep = `${"[".repeat(200_000)}${"]".repeat(200_000)}`;
    const slashes = `"${"\\\\".repeat(200_000)}"`;
    const quotes = `"${'\\"'.repeat(200_000)}"`;
    const text = `{"d":${deep},"s":${slashes},"q":${quotes},"a":{"b":1,"b":2}}`;
    expect(repeatedKey(text, keyTree([["a", "b"]]))).toEqual(["a", "b"]);
  });

  test("is looked for with the same work for each character, on however many ways", () => {
    const tree = keyTree([
      ["a", "b", "c", "d"],
      ["a", "e", "c", "d"],
      ["a", "f"],
    ]);
    const small = "{},".repeat(1_000);
    const looks = (text: string): number => {
      let count = 0;
      const counted = {
        length: text.length,
        charCodeAt: (at: number) => {
          count += 1;
          return text.charCodeAt(at);
        },
        indexOf: (what: string, from: number) => {
          const at = text.indexOf(what, from);
          count += (at === -1 ? text.length : at) - from;
          return at;
        },
        slice: (from: number, to: number) => {
          count += to - from;
          return text.slice(from, to);
        },
      };
      expect(repeatedKey(counted as unknown as string, tree)).toBeUndefined();
      return count;
    };
    for (const text of [
      `{"a":{"b":{"c":{"d":[${small}1]}}}}`,
      `{"a":{"b":{"c":[${small}1]}},"x":[${small}1]}`,
      `{"a":{${'"x":{},'.repeat(1_000)}"b":{"c":{${'"\\u0064x":1,'.repeat(1_000)}"d":1}}}}`,
      `{"a":{"b":"${"\\\\".repeat(5_000)}","e":"${'\\"'.repeat(5_000)}","f":"${`${"x".repeat(60)}\\"`.repeat(500)}"}}`,
    ]) {
      expect(looks(text) / text.length).toBeLessThan(4);
    }
  });
});

describe("JSON without repeated keys", () => {
  test("is what JSON.parse makes of it", () => {
    fc.assert(
      fc.property(jsonText(fc.jsonValue()), ({ text }) => {
        expect(parseUnrepeated(text)).toEqual(JSON.parse(text));
      }),
      { numRuns: runs(100, 3_000) },
    );
  });

  test.each([
    '{"a":1,"a":1}',
    '[{"b":{"a":1,"\\u0061":2}}]',
    '{"a":{"a":1},"a":{"a":1}}',
    '{"__proto__":1,"__proto__":2}',
    '{":":":\\":",":":1}',
    '{"a":1',
    "",
  ])("is not %s", (text) => {
    expect(parseUnrepeated(text)).toBeUndefined();
  });

  test("is not nested a hundred thousand deep, in lists or objects", () => {
    for (const [open, close] of [
      ["[", "]"],
      ['{"a":', "}"],
    ] as const) {
      const nest = (depth: number) => Buffer.from(`{"a":${open.repeat(depth)}1${close.repeat(depth)}}`);
      expect(readUnrepeatedObject(nest(100))).toBeDefined();
      expect(readUnrepeatedObject(nest(100_000))).toBeUndefined();
    }
  });

  test("has what is asked for in place of numbers, of the text of each", () => {
    const json = '{"a":[1e400,-0],"b":12345678901234567890.10}';
    expect(parseUnrepeated(json, (source) => `<${source}>`)).toEqual({
      a: ["<1e400>", "<-0>"],
      b: "<12345678901234567890.10>",
    });
    expect(parseUnrepeated(json)).toEqual(JSON.parse(json));
  });
});
