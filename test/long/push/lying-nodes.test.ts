import { test } from "vitest";
import { checkLiars, checkLyingListings } from "../../support/lying-nodes.ts";
import { runs } from "../../support/thorough.ts";

const RUNS = runs(1_000, 10_000);

test(`${RUNS} times 13 nodes, some of which lie: none is believed alone, and enough honest ones are`, async () => {
  await checkLiars(RUNS);
});

test(`${RUNS} times 13 nodes, some of which lie and all of which cut pages in their own ways: the same`, async () => {
  await checkLyingListings(RUNS);
});
