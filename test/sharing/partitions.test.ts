import { expect, test } from "vitest";
import { Epochs } from "../../src/sharing/epochs.ts";
import { notePending, PartitionViews } from "../../src/sharing/redis/partitions.ts";
import { Keys } from "../../src/sharing/redis/keys.ts";
import { ManualClock } from "../support/manual-clock.ts";

/** As many as are followed. */
const MOST = 16_384;

function fullViews() {
  const epochs = new Epochs();
  const views = new PartitionViews({ epochs, clock: new ManualClock(), keys: new Keys("rg:"), isCluster: false });
  for (let i = 0; i < MOST; i += 1) views.of(`admin-${i}`);
  const tags = (i: number) => [...views.all()].some(({ partition }) => partition === `admin-${i}`);
  return { epochs, views, isFollowed: tags };
}

test("a partition that is not asked for makes room for a new one, and what is asked for stays", () => {
  const { epochs, views, isFollowed } = fullViews();
  const dependencies = { partition: "admin-0", scopes: ["all"] };
  const before = epochs.epochOf(dependencies);
  // All are in use: the first makes room, and from then on only what was asked for since counts as in use.
  views.of("new-0");
  expect(isFollowed(0)).toBe(false);
  expect(epochs.epochOf(dependencies)).not.toBe(before);
  views.of("admin-1");
  views.of("new-1");
  expect([isFollowed(1), isFollowed(2), isFollowed(3)]).toEqual([true, false, true]);
  expect([...views.all()]).toHaveLength(MOST + 1);
});

test("purges that wait for Redis are not forgotten to make room", () => {
  const { views, isFollowed } = fullViews();
  for (let i = 0; i < MOST; i += 1) notePending(views.of(`admin-${i}`), { scope: "all", epoch: "1.a" });
  views.of("new");
  expect(isFollowed(0)).toBe(true);
  expect([...views.all()]).toHaveLength(MOST + 2);
});
