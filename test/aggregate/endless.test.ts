import { describe, expect, test } from "vitest";
import { type ListingBound, ReadingBudget } from "../../src/registry/whole-listing.ts";
import { ManualClock } from "../support/manual-clock.ts";
import { get, instrumentsOf, useAggregates } from "../support/aggregate-registries.ts";

const { startAggregate } = useAggregates();

const LISTING = "/registry/metadata/v1/instruments";
const MIB = 1024 * 1024;

test("a page token that no URL can hold is refused", async () => {
  const { url, registries } = await startAggregate({ amulet: {}, bonds: {} });
  registries.amulet!.script(({ operation }) =>
    operation === "instruments"
      ? { status: 200, body: JSON.stringify({ instruments: instrumentsOf("A", 3), nextPageToken: "t".repeat(5_000) }) }
      : undefined,
  );
  const { status, json } = await get(url + LISTING);
  expect([status, json.error]).toEqual([
    502,
    expect.stringContaining("its nextPageToken is longer than 4096 characters"),
  ]);
});

describe("of a listing may be read", () => {
  /** Pages that are taken until one has to be the last. */
  function pagesOf(budget: ReadingBudget, bytes: number, each: () => void = () => undefined): [number, ListingBound] {
    const share = budget.begin();
    for (let pages = 1; ; pages++) {
      each();
      const bound = share.take(bytes);
      if (bound !== undefined) return [pages, bound];
    }
  }

  test("so many pages and so many bytes", () => {
    expect(pagesOf(new ReadingBudget(new ManualClock()), 100)).toEqual([2_000, "pages"]);
    expect(pagesOf(new ReadingBudget(new ManualClock()), 4 * MIB)).toEqual([8, "bytes"]);
  });

  test("for so long", () => {
    const clock = new ManualClock();
    expect(pagesOf(new ReadingBudget(clock), 100, () => clock.advance(15_000))).toEqual([20, "time"]);
  });

  test("no more than all listings together may hold, until another one has ended", () => {
    const budget = new ReadingBudget(new ManualClock());
    const others = [budget.begin(), budget.begin()];
    for (const other of others) for (let i = 0; i < 7; i++) other.take(4 * MIB);
    expect(pagesOf(budget, MIB)).toEqual([8, "bytes_of_all"]);
    for (const other of others) other.end();
    expect(pagesOf(budget, MIB)).toEqual([32, "bytes"]);
  });
});
