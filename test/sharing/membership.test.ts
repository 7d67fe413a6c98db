import { expect, test } from "vitest";
import type { Row } from "../../src/sharing/ports.ts";
import { BEAT_EVERY, CHANGING_OVER, Membership, SILENT_AFTER } from "../../src/sharing/redis/membership.ts";
import { ManualClock } from "../support/manual-clock.ts";

/** By Redis's clock. */
const START = 1_800_000_000_000;

/** The row of a replica that said at `saidAt` of Redis's clock that it lives. */
function row(name: string, saidAt: number): Row {
  const text = JSON.stringify({ name, version: "1", revision: "1", since: "2026-11-20T00:00:00Z", taken: [] });
  return { version: 1, until: saidAt + SILENT_AFTER, text };
}

/** A replica that has seen two others, at `START`. */
function acquainted(): { clock: ManualClock; members: Membership } {
  const clock = new ManualClock();
  const members = new Membership(clock);
  members.connected();
  clock.advance(CHANGING_OVER);
  members.merge(rowsOf(members, START), START);
  return { clock, members };
}

/** What Redis has where this replica said last at `ownSaidAt` that it lives, and the others at `saidAt`. */
function rowsOf(members: Membership, ownSaidAt: number, saidAt = ownSaidAt): Map<string, Row> {
  return new Map([
    [members.id, row("own", ownSaidAt)],
    ["replica-one-", row("one", saidAt)],
    ["replica-two-", row("two", saidAt)],
  ]);
}

const BOTH = ["replica-one-", "replica-two-"];

test("others that say nothing any more are gone, and their shares are shared out", () => {
  const { members } = acquainted();
  expect(members.count).toBe(3);
  const time = START + SILENT_AFTER;
  expect(members.merge(rowsOf(members, time - BEAT_EVERY, START), time)).toEqual(BOTH);
  expect(members.shareOf(120)).toBe(120);
  expect(members.lost().map(({ name }) => name)).toEqual(["two", "one"]);
});

// Each of three replicas took the whole limit: all rows had ended, its own among them.
test("in a Redis that is read and takes no writes, the others stay those that were last seen", () => {
  const { clock, members } = acquainted();
  for (const passed of [2 * BEAT_EVERY, SILENT_AFTER, 60_000]) {
    expect(members.merge(rowsOf(members, START), START + passed)).toEqual([]);
    expect(members.shareOf(120)).toBe(40);
    expect([...members.others.keys()]).toEqual(BOTH);
    expect(members.lost()).toEqual([]);
  }
  // It takes writes again, and this replica is the first to say something.
  const time = START + 60_000;
  members.merge(rowsOf(members, time, START), time);
  expect(members.shareOf(120)).toBe(40);
  // The others may have been lost meanwhile.
  clock.advance(CHANGING_OVER);
  expect(members.merge(rowsOf(members, time + CHANGING_OVER, START), time + CHANGING_OVER)).toEqual(BOTH);
  expect(members.shareOf(120)).toBe(120);
});

test("a replica that never could write takes a quarter, whoever seems to live", () => {
  const clock = new ManualClock();
  const members = new Membership(clock);
  members.connected();
  clock.advance(10 * SILENT_AFTER);
  expect(members.merge(new Map(), START)).toEqual([]);
  expect(members.shareOf(120)).toBe(30);
  // Of a limit smaller than the replicas that there may be, one each.
  expect(members.shareOf(2)).toBe(1);
});
