import { describe, expect, test } from "vitest";
import { nextPages, type PageAddress } from "../../src/registry/pagination.ts";

/** A page of so many instruments whose last id is `last`. */
function page(count: number, nextPageToken: string | undefined, last = "Z") {
  const ids = Array.from({ length: count }, (_, at) => (at === count - 1 ? last : `I${at}`));
  return { ids, nextPageToken };
}

const first: PageAddress = { pageSize: 50, pageToken: undefined };

describe("the page after a page", () => {
  test("is none after the last", () => {
    expect(nextPages(page(50, undefined), first)).toEqual([]);
  });

  test.each([
    ["is the last id", page(50, "Z"), first],
    ["is the last id, though it reads like an index", page(50, "50", "50"), first],
    ["is opaque", page(50, "b3BhcXVl"), first],
    ["is a number, but not that of the instruments read", page(50, "51"), first],
    ["is an index with a leading zero", page(50, "050"), first],
    ["is longer than any index", page(50, "9".repeat(30)), first],
    ["is an index after a page whose own is none", page(50, "100"), { pageSize: 50, pageToken: "b3BhcXVl" }],
    ["is an index after a page that is too short to overlap", page(4, "4"), first],
  ])("is asked for plainly where the token %s", (_, before, address) => {
    expect(nextPages(before, address)).toEqual([
      { address: { pageSize: 50, pageToken: before.nextPageToken }, overlaps: false },
    ]);
  });

  test("begins four instruments sooner where the token is an index: wider, else as wide, else plainly", () => {
    expect(nextPages(page(50, "50"), first)).toEqual([
      { address: { pageSize: 54, pageToken: "46" }, overlaps: true },
      { address: { pageSize: 50, pageToken: "46" }, overlaps: true },
      { address: { pageSize: 50, pageToken: "50" }, overlaps: false },
    ]);
  });

  test("is no wider than the one before it that overlapped already", () => {
    expect(nextPages(page(54, "100"), { pageSize: 54, pageToken: "46" })).toEqual([
      { address: { pageSize: 54, pageToken: "96" }, overlaps: true },
      { address: { pageSize: 50, pageToken: "96" }, overlaps: true },
      { address: { pageSize: 50, pageToken: "100" }, overlaps: false },
    ]);
  });

  test("leaves the size to the registry where the page before it did", () => {
    const next = nextPages(page(30, "30"), { pageSize: undefined, pageToken: undefined });
    expect(next.map(({ address }) => address)).toEqual([
      { pageSize: undefined, pageToken: "26" },
      { pageSize: undefined, pageToken: "26" },
      { pageSize: undefined, pageToken: "30" },
    ]);
  });
});
