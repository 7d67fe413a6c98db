import { expect, test } from "vitest";
import { ConcurrencyLimits } from "../../src/clients/concurrency.ts";
import type { Slot } from "../../src/clients/client.ts";
import type { SharedLimits } from "../../src/coordination/shared-limits.ts";
import { ManualClock } from "../support/manual-clock.ts";

test("slots that are being given back are not used meanwhile: another process may have them", async () => {
  const clock = new ManualClock();
  const claims: { wanted: number; answer: (held: number) => void }[] = [];
  const shared: SharedLimits = {
    phase: "counted",
    processes: 2,
    shareOf: (whole) => whole / 2,
    takeTokens: async () => undefined,
    holdSlots: (_name, { wanted }) => new Promise((answer) => claims.push({ wanted, answer })),
    onReturned: () => undefined,
  };
  const limits = new ConcurrencyLimits(shared, clock);
  const enter = async () => limits.enter("client", 2);
  const entering = [enter(), enter()];
  claims.shift()!.answer(1);
  await Promise.resolve();
  await Promise.resolve();
  claims.shift()!.answer(2);
  const slots = (await Promise.all(entering)) as Slot[];
  for (const slot of slots) slot.leave();
  clock.advance(10);
  expect(claims.map(({ wanted }) => wanted)).toEqual([0]);
  const next = limits.enter("client", 2);
  expect(next).toBeInstanceOf(Promise);
  claims.shift()!.answer(0);
  await Promise.resolve();
  await Promise.resolve();
  expect(claims.map(({ wanted }) => wanted)).toEqual([1]);
  claims.shift()!.answer(1);
  expect(await next).toBeDefined();
});
