import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import {
  indexed,
  type Rank,
  RANKS,
  readQuery,
  type Searchable,
  SearchIndex,
  searchText,
} from "../../src/aggregate/search-index.ts";

describe("text to search", () => {
  test.each([
    ["Amulet/USD", "amulet usd"],
    ["  BOND-2026.001  ", "bond 2026 001"],
    ["Élysée ÅNGSTRÖM", "elysee angstrom"],
    ["ﬁx №1 Ⅳ", "fix no1 iv"],
    ["代币 🪙 Tökén", "代币 token"],
    ["İstanbul", "istanbul"],
    ["\n\t\u0000", ""],
    ["", ""],
  ])("%j is searched as %j", (text, searched) => {
    expect(searchText(text)).toBe(searched);
  });

  // It was cut before it was normalised alone: a thousand characters were kept as eighteen thousand.
  test("is as long as what is searched of a field, however long it becomes when it is normalised", () => {
    const field = "\ufdfa".repeat(1_000);
    const { text, symbol } = indexed({ id: field, name: field, symbol: field, isPaused: false });
    expect(text.split("\n").map(({ length }) => length)).toEqual([0, 1_000, 1_000, 1_000]);
    expect(symbol.length).toBeLessThan(1_000);
  });
});

function indexOf(instruments: readonly Searchable[]): SearchIndex {
  const index = new SearchIndex();
  for (const instrument of instruments) index.add(indexed(instrument));
  return index;
}

function find(index: SearchIndex, text: string, rank: Rank, from = 0): number[] {
  const query = readQuery(text);
  return [...index.candidates(query, rank, { from })].filter(
    (at) => at !== undefined && index.rankOf(at, query) === rank,
  ) as number[];
}

describe("an index", () => {
  const word = fc.constantFrom("gold", "bond", "go", "old", "ld", "usd", "é", "代", "b", "bo");
  const text = fc.array(word, { maxLength: 3 }).map((words) => words.join("-"));
  const instrument = fc.record({ id: text, name: text, symbol: text, isPaused: fc.boolean() });

  test("finds every instrument that holds all words, each at its best rank alone", () => {
    fc.assert(
      fc.property(
        fc.array(instrument, { maxLength: 30 }),
        fc.array(word, { minLength: 1, maxLength: 2 }),
        (all, words) => {
          const index = indexOf(all);
          const query = readQuery(words.join(" "));
          const found = RANKS.flatMap((rank) => find(index, words.join(" "), rank));
          expect(new Set(found).size).toBe(found.length);
          const fields = all.map(({ id, name, symbol }) => [id, name, symbol].map((field) => searchText(field)));
          const matching = fields.flatMap((each, at) =>
            query.words.every((one) => each.some((field) => field.includes(one))) ? [at] : [],
          );
          expect(found.toSorted((a, b) => a - b)).toEqual(matching);
          const best = find(index, words.join(" "), 0);
          expect(best).toEqual(
            fields.flatMap((each, at) => (each.some((field) => field.startsWith(query.phrase)) ? [at] : [])),
          );
        },
      ),
    );
  });

  test("of more than one text finds what is in each of them, and at its place", () => {
    const name = "bond ".repeat(200);
    const all = Array.from({ length: 1_500 }, (_, at) => ({ id: `B-${at}`, name, symbol: "B", isPaused: false }));
    const index = indexOf(all);
    expect(find(index, "bond", 0)).toEqual(all.map((_, at) => at));
    expect(find(index, "bond", 0, 1_400)).toEqual(all.map((_, at) => at).slice(1_400));
    expect(find(index, "b 7", 0)).toEqual(all.flatMap(({ id }, at) => (id.startsWith("B-7") ? [at] : [])));
    expect(find(index, "1499 bond", 3)).toEqual([1_499]);
  });

  // Ten words of its last instruments had all of it gone through ten times.
  test("gives way within half a megabyte, however many words are looked for", () => {
    const name = "sample bond of the tenth series";
    const index = indexOf(
      Array.from({ length: 50_000 }, (_, at) => ({ id: `B-${at}`, name, symbol: "B", isPaused: false })),
    );
    const query = readQuery(Array.from({ length: 10 }, (_, at) => 49_999 - at).join(" "));
    const scans = [0];
    const scanned = (characters: number) => {
      scans.push(scans.pop()! + characters);
    };
    for (const _ of index.candidates(query, 3, { scanned })) scans.push(0);
    expect(scans.reduce((sum, each) => sum + each)).toBeGreaterThan(10 * 50_000 * name.length);
    expect(Math.max(...scans)).toBeLessThan(600 * 1_024);
  });

  test("goes on from where it was left", () => {
    const index = indexOf(
      Array.from({ length: 50 }, (_, at) => ({ id: `B-${at}`, name: "bond", symbol: "B", isPaused: at % 2 === 0 })),
    );
    expect(find(index, "bond", 0, 47)).toEqual([47, 48, 49]);
    expect(find(index, "", 0, 48)).toEqual([48, 49]);
    expect(find(index, "bond", 0, 50)).toEqual([]);
    expect([0, 1, 48, 49].map((at) => index.isPaused(at))).toEqual([true, false, true, false]);
  });
});
