import * as fc from "fast-check";
import { expect, test } from "vitest";
import { paginateInWeather, type Weather } from "../support/merged-pagination.ts";
import { runs } from "../support/thorough.ts";

const RUNS = runs(2, 60);

const weather: fc.Arbitrary<Weather> = fc.record({
  seed: fc.integer({ min: 1, max: 2 ** 31 - 1 }),
  churn: fc.constantFrom(0, 1, 4),
  ttl: fc.constantFrom("0s", "10ms", "30s"),
  reload: fc.constantFrom("nothing", "adds at the end", "adds in front", "removes the next", "turns the rest round"),
  maxPageSize: fc.constantFrom(9, 40, 150),
});

test("in any weather a pagination sees every instrument that stayed exactly once and in order, or is refused", async () => {
  const outcomes = { complete: 0, refused: 0 };
  await fc.assert(
    fc.asyncProperty(weather, async (now) => {
      const { outcome, seen, stayed } = await paginateInWeather(now);
      outcomes[outcome] += 1;
      expect(new Set(seen).size, "nothing is seen twice").toBe(seen.length);
      const due = new Set(stayed);
      if (outcome === "complete") expect(seen.filter((each) => due.has(each))).toEqual(stayed);
    }),
    { numRuns: RUNS, endOnFailure: true },
  );
  expect(outcomes.complete, JSON.stringify(outcomes)).toBeGreaterThan(RUNS / 6);
});
