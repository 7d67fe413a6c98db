import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import {
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
});

function indexOf(instruments: readonly Searchable[]): SearchIndex {
  const index = new SearchIndex();
  for (const instrument of instruments) index.add(instrument);
  return index;
}

function find(index: SearchIndex, text: string, rank: Rank, from = 0): number[] {
  const query = readQuery(text);
  return [...index.candidates(query, rank, { from })].filter((at) => index.rankOf(at, query) === rank);
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
          const fields = all.map(({ id, name, symbol }) => [id, name, symbol].map(searchText));
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
