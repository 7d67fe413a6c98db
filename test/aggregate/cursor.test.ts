import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import { type Cursor, decodeCursor, encodeCursor, shortDigest } from "../../src/aggregate/cursor.ts";
import { CODE_POINT } from "../support/code-point.ts";

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
