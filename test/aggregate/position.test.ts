import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import {
  advance,
  type Cursor,
  decodeCursor,
  encodeCursor,
  enter,
  findPosition,
  type Position,
  shortDigest,
} from "../../src/aggregate/position.ts";
import { ListedPage, type PageParts, readPage } from "../../src/bodies/page.ts";
import type { FoundPage } from "../../src/registry/listing.ts";
import { CODE_POINT } from "../support/code-point.ts";

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

const position = fc.record({
  address: fc.record({
    pageSize: fc.option(fc.integer({ min: 1, max: 2 ** 31 - 1 }), { nil: undefined }),
    pageToken: fc.option(fc.string({ unit: CODE_POINT, maxLength: 300 }), { nil: undefined }),
  }),
  anchors: fc.array(fc.string().map(shortDigest), { maxLength: 4 }),
  mayBegin: fc.boolean(),
  pages: fc.nat(),
  checkpoint: fc.string().map(shortDigest),
});

const cursor: fc.Arbitrary<Cursor> = fc.record({
  done: fc.nat(1_000),
  doneDigest: fc.string().map(shortDigest),
  within: fc.option(fc.record({ registry: fc.string().map(shortDigest), position }), { nil: undefined }),
});

const plain: Cursor = {
  done: 3,
  doneDigest: shortDigest("done"),
  within: {
    registry: shortDigest("DSO::1220"),
    position: {
      address: { pageSize: 100, pageToken: "BOND-2028-024" },
      anchors: ["a", "b", "c", "d"].map(shortDigest),
      mayBegin: false,
      pages: 5,
      checkpoint: shortDigest("mark"),
    },
  },
};

describe("a cursor", () => {
  test("comes back as it was from a token that needs no encoding in a URL", () => {
    fc.assert(
      fc.property(cursor, (each) => {
        const token = encodeCursor(each);
        expect(token).toMatch(/^[A-Za-z0-9_-]+$/);
        expect(decodeCursor(token)).toEqual(each);
      }),
    );
  });

  test("is short", () => {
    expect(encodeCursor(plain).length).toBeLessThan(180);
  });

  test("is refused with any one character changed, added or left out", () => {
    const token = encodeCursor(plain);
    for (let at = 0; at < token.length; at++) {
      const other = token[at] === "A" ? "B" : "A";
      for (const spoiled of [
        token.slice(0, at) + other + token.slice(at + 1),
        token.slice(0, at) + token.slice(at + 1),
        token.slice(0, at) + other + token.slice(at),
      ]) {
        if (spoiled !== token) expect(() => decodeCursor(spoiled), spoiled).toThrow(/pageToken/);
      }
    }
  });

  test("is refused with 400, never anything else, when it is any other text", () => {
    fc.assert(
      fc.property(fc.string(), (text) => {
        expect(() => decodeCursor(text)).toThrow(expect.objectContaining({ status: 400 }));
      }),
    );
  });

  test.each([
    "null",
    "[]",
    '[[1,"x"]]',
    '[[-1,"x"],null]',
    '[[1,"x"],["r",0,null,"abc",true,1,""]]',
    "{}",
    "[[1e99,1],3]",
    "x",
    String.raw`[[0,"x"],["r",0,"\ud800","",true,1,""]]`,
  ])("is refused when its checksum is right and it says %s", (text) => {
    const sum = Buffer.from(shortDigest(`registry-gateway cursor 1 ${text}`), "base64url");
    const token = Buffer.concat([Buffer.from([1]), sum, Buffer.from(text)]).toString("base64url");
    expect(() => decodeCursor(token)).toThrow(expect.objectContaining({ status: 400 }));
  });
});
