import { describe, expect, test } from "vitest";
import { BodyReader } from "../../src/bodies/body-reader.ts";
import { findDifferences } from "../../src/bodies/difference.ts";
import { systemClock } from "../../src/clock.ts";
import type { CachedOperation } from "../../src/spec/endpoints.ts";

function compare(operation: CachedOperation, one: string, other: string): string[] | "incomparable" {
  const found = findDifferences(operation, Buffer.from(one), Buffer.from(other));
  if (found === "incomparable") return found;
  return found.map(({ instrument, path, kind, values }) =>
    [instrument ?? "", path, kind, ...values.map((value) => value ?? "nothing")].join(" "),
  );
}

const page = (...instruments: string[]) => `{"instruments":[${instruments.join()}],"nextPageToken":"x"}`;

describe("what differs", () => {
  test.each<[what: string, operation: CachedOperation, one: string, other: string, expected: string[]]>([
    ["nothing", "info", '{"a":1}', '{"a":1}', []],
    ["the order of members", "info", '{"a":1,"b":{"c":2,"d":3}}', '{"b":{"d":3,"c":2},"a":1}', []],
    ["spaces", "info", '{"a":[1,2]}', ' {\n"a" : [ 1 , 2 ] } ', []],
    ["how a string is written", "info", String.raw`{"a":"é\u0041/"}`, String.raw`{"\u0061":"\u00e9A\/"}`, []],
    ["a value", "info", '{"a":1}', '{"a":2}', [" $['a'] data 1 2"]],
    ["a type", "info", '{"a":"1"}', '{"a":1}', [` $['a'] data "1" 1`]],
    ["null and nothing", "info", '{"a":null}', "{}", [" $['a'] data null nothing"]],
    ["a member too many", "info", "{}", '{"z":{"y":1}}', [` $['z'] data nothing {"y":1}`]],
    [
      "a big decimal",
      "info",
      '{"a":12345678901234567890.10}',
      '{"a":12345678901234567890.11}',
      [" $['a'] data 12345678901234567890.10 12345678901234567890.11"],
    ],
    ["a number beyond all", "info", '{"a":1e999}', '{"a":1e998}', [" $['a'] data 1e999 1e998"]],
    ["a nested value", "info", '{"a":[{"b":1},{"b":2}]}', '{"a":[{"b":1},{"b":3}]}', [" $['a'][1]['b'] data 2 3"]],
    ["the order of a list", "info", '{"a":[1,2]}', '{"a":[2,1]}', [" $['a'][0] data 1 2", " $['a'][1] data 2 1"]],
    ["the length of a list", "info", '{"a":[1]}', '{"a":[1,2]}', [" $['a'] data [1] [1,2]"]],
    ["the last of a key given twice", "info", '{"a":1,"a":2}', '{"a":2}', []],
    ["__proto__", "info", '{"__proto__":{"a":1}}', '{"__proto__":{"a":2}}', [" $['__proto__']['a'] data 1 2"]],
    ["a key with quotes", "info", `{"a'\\"b":1}`, `{"a'\\"b":2}`, [` $['a\\'"b'] data 1 2`]],
    // Of one instrument.
    ["a supply that moved", "instrument", supply("1", "t1"), supply("2", "t2"), []],
    ["a supply without a time", "instrument", '{"totalSupply":"1"}', '{"totalSupply":"2"}', []],
    ["a supply of no time", "instrument", supply("1", null), supply("2", null), []],
    [
      "a supply of the same moment",
      "instrument",
      supply("1.0", "t1"),
      supply("1.00", "t1"),
      [` $['totalSupply'] supply "1.0" "1.00"`],
    ],
    [
      "what a supply moves beside",
      "instrument",
      '{"decimals":6,"totalSupply":"1","totalSupplyAsOf":"a"}',
      '{"decimals":7,"totalSupply":"2","totalSupplyAsOf":"b"}',
      [" $['decimals'] data 6 7"],
    ],
    // Of a page.
    ["which instruments a page has", "instruments", page('{"id":"a"}', '{"id":"b"}'), page('{"id":"b"}'), []],
    ["the next token", "instruments", page(), page().replace('"x"', "null"), []],
    ["the order of instruments", "instruments", page('{"id":"a"}', '{"id":"b"}'), page('{"id":"b"}', '{"id":"a"}'), []],
    [
      "an instrument that both have",
      "instruments",
      page('{"id":"a","n":1}', '{"id":"b","n":1}'),
      page('{"n":2,"id":"b"}', '{"id":"c"}'),
      ["b $['n'] data 1 2"],
    ],
    [
      "an id that is written otherwise",
      "instruments",
      page('{"id":"A/b","n":1}'),
      page(String.raw`{"id":"\u0041\/b","n":2}`),
      ["A/b $['n'] data 1 2"],
    ],
    [
      "what a page says besides",
      "instruments",
      '{"instruments":[],"v":1}',
      '{"v":2,"instruments":[]}',
      [" $['v'] data 1 2"],
    ],
    ["an instrument without an id", "instruments", page("{}", "7"), page("null", '{"id":3}'), []],
  ])("%s", (_what, operation, one, other, expected) => {
    expect(compare(operation, one, other)).toEqual(expected);
    const turned = compare(operation, other, one);
    expect(turned === "incomparable" ? turned : turned.length).toBe(expected.length);
  });

  function supply(totalSupply: string, totalSupplyAsOf: string | null): string {
    return JSON.stringify({ id: "a", totalSupply, totalSupplyAsOf });
  }
});

test.each<[CachedOperation, string]>([
  ["info", "[]"],
  ["info", "no JSON"],
  ["info", '{"a":1'],
  ["info", '"a"'],
  ["instruments", "{}"],
  ["instruments", '{"instruments":{}}'],
  ["instrument", "null"],
])("%s %s cannot be compared", (operation, body) => {
  const good = operation === "instruments" ? page() : "{}";
  expect(compare(operation, good, body)).toBe("incomparable");
  expect(compare(operation, body, good)).toBe("incomparable");
});

test("bytes that are no UTF-8 cannot be compared", () => {
  const bad = Buffer.from('{"a":"\xff"}', "latin1");
  expect(findDifferences("info", bad, Buffer.from("{}"))).toBe("incomparable");
});

test("of differences there are 32 at most, and of long values the beginning", () => {
  const of = (value: string) => page(...Array.from({ length: 50 }, (_, at) => `{"id":"${at}","n":"${value}"}`));
  const found = findDifferences("instruments", Buffer.from(of("a".repeat(500))), Buffer.from(of("b")));
  expect(found).toHaveLength(32);
  expect(found[0]).toMatchObject({ values: [`"${"a".repeat(99)}`, '"b"'] });
});

test("what is nested deeper than anybody reads is one value", () => {
  const of = (value: number) => `{"a":${'{"a":'.repeat(5_000)}${value}${"}".repeat(5_000)}}`;
  const found = findDifferences("info", Buffer.from(of(1)), Buffer.from(of(2)));
  expect(found).toHaveLength(1);
});

test("a big page is compared in another thread, and what is too heavy to be parsed is refused there", async () => {
  const bodies = new BodyReader({ clock: systemClock(), largest: () => 8 * 2 ** 20 });
  const of = (decimals: number) =>
    Buffer.from(
      page(...Array.from({ length: 10_000 }, (_, at) => `{"id":"i${at}","decimals":${at === 7_777 ? decimals : 6}}`)),
    );
  const one = of(6);
  const read = (other: Buffer) =>
    bodies.read({ kind: "difference", operation: "instruments", split: one.length }, Buffer.concat([one, other]), {
      source: "amulet",
    });
  expect(await read(of(7))).toEqual([{ instrument: "i7777", path: "$['decimals']", kind: "data", values: ["6", "7"] }]);
  expect(await read(Buffer.from("{}"))).toBe("incomparable");
  await expect(read(Buffer.from("[".repeat(4 * 2 ** 20)))).rejects.toThrow(/more time or memory/);
  expect(await read(of(6))).toEqual([]);
  bodies.close();
});
