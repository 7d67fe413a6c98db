import { describe, expect, test } from "vitest";
import { PageChains } from "../../src/registry/registry-metadata.ts";

describe("the pagination that a page belongs to", () => {
  test("is that of the page which issued its token", () => {
    const chains = new PageChains();
    const first = chains.paginationOf(undefined);
    chains.follow(undefined, "5 t1");
    expect(chains.paginationOf("5 t1")).toBe(first);
    chains.follow("5 t1", "5 t2");
    expect(chains.paginationOf("5 t2")).toBe(first);
  });

  test("is its own for a token that no page issued, and a new one with every first page", () => {
    const chains = new PageChains();
    const first = chains.paginationOf(undefined);
    chains.follow(undefined, "5 t1");
    const unknown = chains.paginationOf("5 x");
    expect(unknown).not.toBe(first);
    expect(chains.paginationOf("5 x")).toBe(unknown);
    const second = chains.paginationOf(undefined);
    expect(second).not.toBe(first);
    expect(chains.paginationOf("5 t1")).toBe(first);
  });
});

describe("what a page teaches of the pages behind it", () => {
  test("is told once for each digest, whatever else is known of the token", () => {
    const chains = new PageChains();
    chains.paginationOf("5 t1");
    expect(chains.isNewlyIssued("5 t1", "A")).toBe(true);
    expect(chains.isNewlyIssued("5 t1", "A")).toBe(false);
    expect(chains.isNewlyIssued("5 t1", "B")).toBe(true);
    expect(chains.isNewlyIssued("5 t1", "A")).toBe(true);
  });

  test("is forgotten of the tokens that were named longest ago", () => {
    const chains = new PageChains();
    chains.isNewlyIssued("5 old", "A");
    for (let i = 0; i < 10_000; i++) chains.paginationOf(`5 invented ${i}`);
    expect(chains.isNewlyIssued("5 old", "A")).toBe(true);
  });
});
