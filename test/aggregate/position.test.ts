import { describe, expect, test } from "vitest";
import { shortDigest } from "../../src/aggregate/cursor.ts";
import { ListedPage, type PageParts, readPage } from "../../src/bodies/page.ts";
import { advance, enter, findPosition, type Position } from "../../src/aggregate/position.ts";
import type { FoundPage } from "../../src/registry/listing.ts";

function pageOf(ids: string): FoundPage {
  const instruments = ids.split("").map((id) => ({ id }));
  const body = Buffer.from(JSON.stringify({ instruments, nextPageToken: "next" }));
  return {
    address: { pageSize: 10, pageToken: undefined },
    page: new ListedPage(body, readPage(body) as PageParts),
    answer: {
      status: 200,
      fields: [],
      body: Buffer.alloc(0),
      outcome: "hit",
      tier: "memory",
      age: 0,
      ttl: undefined,
      usableUntil: undefined,
      windowUsed: undefined,
    },
  };
}

const start: Position = {
  address: { pageSize: 10, pageToken: undefined },
  anchors: [],
  mayBegin: true,
  pages: 1,
  checkpoint: "",
};

/** The position after the first `count` instruments of a page. */
function placeAfter(ids: string, count: number): Position {
  return advance(start, pageOf(ids), [0, count]);
}

describe("a position on a page", () => {
  test.each([
    ["nothing has changed", "ABCDEFGH", 3, "ABCDEFGH", "DEFGH"],
    ["something came before it", "ABCDEFGH", 3, "0AB1CDEFGH", "DEFGH"],
    ["something came right behind it", "ABCDEFGH", 3, "ABC1DEFGH", "1DEFGH"],
    ["something before it went", "ABCDEFGH", 3, "CDEFGH", "DEFGH"],
    ["the one before it went", "ABCDEFGH", 3, "ABDEFGH", "DEFGH"],
    ["the one behind it went", "ABCDEFGH", 3, "ABCEFGH", "EFGH"],
    ["all before it went, and it was near the beginning", "ABCDEFGH", 3, "DEFGH", "DEFGH"],
    ["three of the four before it went", "ABCDEFGH", 6, "ABCGH", "GH"],
    ["all four before it went, deep in the page", "ABCDEFGH", 6, "ABGH", undefined],
    ["the page is another one", "ABCDEFGH", 6, "UVWXYZ", undefined],
    ["the page is empty now", "ABCDEFGH", 2, "", ""],
  ])("is found when %s", (_, before, count, after, left) => {
    const at = findPosition(pageOf(after), placeAfter(before, count));
    expect(at === undefined ? undefined : after.slice(at)).toBe(left);
  });

  test("keeps the instruments before it over a page border", () => {
    const turned = enter(placeAfter("ABCDEFGH", 8), { address: { pageSize: 10, pageToken: "4" }, overlaps: true });
    expect(turned?.anchors).toEqual(["H", "G", "F", "E"].map(shortDigest));
    expect(findPosition(pageOf("EFGHIJ"), turned!)).toBe(4);
    expect(findPosition(pageOf("GHIJ"), turned!)).toBe(2);
    expect(findPosition(pageOf("IJKL"), turned!)).toBeUndefined();
  });

  test("goes to the beginning of a page that does not overlap, but not over what was read", () => {
    const turned = enter(placeAfter("ABCD", 4), { address: { pageSize: 10, pageToken: "D" }, overlaps: false });
    expect(findPosition(pageOf("EFGH"), turned!)).toBe(0);
    expect(findPosition(pageOf("DEFGH"), turned!)).toBe(1);
  });
});

test.each([1, 2, 3, 7, 50])("a circle of %i pages is noticed before it is gone through four times", (length) => {
  let position: Position | undefined = start;
  let pages = 0;
  for (; position !== undefined && pages < 10_000; pages++) {
    const pageToken = pages < 5 ? `way in ${pages}` : `circle ${pages % length}`;
    position = enter(position, { address: { pageSize: 10, pageToken }, overlaps: false });
  }
  expect(position).toBeUndefined();
  expect(pages).toBeLessThanOrEqual(4 * (length + 8));
});

test("a long listing that ends is no circle", () => {
  let position: Position | undefined = start;
  for (let page = 1; page < 3_000 && position !== undefined; page++) {
    position = enter(position, { address: { pageSize: 10, pageToken: String(page) }, overlaps: false });
  }
  expect(position?.pages).toBe(3_000);
});
