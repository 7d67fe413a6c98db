import { expect, test } from "vitest";
import { CountedWindow } from "../../src/sharing/redis/counted-limit.ts";
import { ManualClock } from "../support/manual-clock.ts";

const PER = 60_000;

test("where replicas came or went, a share is of what Redis had left first, until that is out of the window", () => {
  const clock = new ManualClock();
  const members = { agreedAt: clock.steadyNow(), likelyCount: 2, shareOf: (whole: number) => whole / 2 } as never;
  const window = new CountedWindow({ name: "calls", per: PER }, undefined, clock.steadyNow());
  window.requests = 20;
  const share = () => window.shareOf(members, clock.steadyNow());
  // It has not asked for any.
  expect(share()).toBe(10);
  const start = clock.steadyNow();
  window.own.add(start, 3);
  window.learn(15, members, start);
  expect(share()).toBe(3 + 2);
  clock.advance(PER / 2);
  // Others may have called meanwhile, by what they were told first.
  window.learn(3, members, clock.steadyNow());
  expect(share()).toBe(3 + 2);
  clock.advance(PER / 2 - 1);
  expect(share()).toBe(3 + 2);
  clock.advance(1);
  expect(share()).toBe(10);
});

test("until all replicas go by the same ones, a share is of what Redis had left last", () => {
  const clock = new ManualClock();
  const start = clock.steadyNow();
  const members = { agreedAt: start + 1_500, likelyCount: 2, shareOf: (whole: number) => whole / 2 } as never;
  const window = new CountedWindow({ name: "calls", per: PER }, undefined, start);
  window.requests = 20;
  for (const [known, share] of [
    [4, 8],
    [18, 1],
  ] as const) {
    window.learn(known, members, clock.steadyNow());
    expect(window.shareOf(members, clock.steadyNow())).toBe(share);
    clock.advance(1_000);
  }
});
