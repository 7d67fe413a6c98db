import { expect, test } from "vitest";
import { ConcurrencyLimits } from "../../src/clients/concurrency.ts";
import type { Slot } from "../../src/clients/client.ts";
import type { Limits, SlotClaim } from "../../src/sharing/limits.ts";
import { ManualClock } from "../support/manual-clock.ts";

const tick = () => new Promise((resolve) => setImmediate(resolve));

/** Limits whose claims a test answers. */
function open() {
  const clock = new ManualClock();
  const claims: { wanted: number; answer: (held: number) => void }[] = [];
  const limits: Pick<Limits, "hold"> = {
    hold: ({ wanted }) => new Promise((answer) => claims.push({ wanted, answer })),
  };
  const concurrency = new ConcurrencyLimits(limits, clock);
  return { clock, claims, concurrency };
}

test("slots that are being given back are not used meanwhile: another replica may have them", async () => {
  const { claims, concurrency } = open();
  const enter = async () => concurrency.enter("client", 2);
  const entering = [enter(), enter()];
  claims.shift()!.answer(1);
  claims.shift()!.answer(2);
  const slots = (await Promise.all(entering)) as Slot[];
  for (const slot of slots) slot.leave();
  await tick();
  // The first that left said that one goes on: that slot is still held, the other one is not.
  expect(claims.map(({ wanted }) => wanted)).toEqual([1]);
  expect(concurrency.enter("client", 2)).not.toBeInstanceOf(Promise);
  const next = concurrency.enter("client", 2);
  expect(next).toBeInstanceOf(Promise);
  expect(claims.map(({ wanted }) => wanted)).toEqual([1, 2]);
  for (const { answer, wanted } of claims.splice(0)) answer(wanted);
  expect(await next).toBeDefined();
});

test("a client that left and came back meanwhile is not forgotten when the last answer about it comes", async () => {
  const { clock, claims, concurrency } = open();
  const enter = async () => concurrency.enter("client", 1);
  const entering = enter();
  claims.shift()!.answer(1);
  const slot = (await entering)!;
  slot.leave();
  clock.advance(1_000);
  await tick();
  const [givenBack, renewed] = claims.splice(0);
  givenBack!.answer(0);
  await tick();
  const again = enter();
  renewed!.answer(0);
  await tick();
  claims.shift()!.answer(1);
  expect(await again).toBeDefined();
  // It is still known: a second one is refused without a question for as long as the first one runs.
  const second = enter();
  await tick();
  for (let tries = 0; tries < 20 && claims.length > 0; tries += 1) {
    expect(claims[0]!.wanted).toBe(2);
    claims.shift()!.answer(1);
    await tick();
    clock.advance(100);
    await tick();
  }
  expect(await second).toBeUndefined();
});

test("two replicas together never have more in flight than a client's limit, and use all of it", async () => {
  const clock = new ManualClock();
  const held = new Map<string, number>();
  const replica = (name: string): ConcurrencyLimits => {
    const hold = async ({ running, wanted, max }: SlotClaim): Promise<number> => {
      let others = 0;
      for (const [other, slots] of held) if (other !== name) others += slots;
      const slots = Math.max(running, Math.min(wanted, max - others));
      held.set(name, slots);
      await tick();
      return slots;
    };
    return new ConcurrencyLimits({ hold }, clock);
  };
  const replicas = [replica("a"), replica("b")];
  const running = new Set<Slot>();
  let most = 0;
  const client = async (at: number): Promise<void> => {
    for (let i = 0; i < 40; i += 1) {
      const slot = await replicas[(at + i) % 2]!.enter("client", 5);
      if (slot !== undefined) {
        running.add(slot);
        most = Math.max(most, running.size);
        await tick();
        running.delete(slot);
        slot.leave();
      } else await tick();
    }
  };
  const done = Promise.all(Array.from({ length: 12 }, (_, i) => client(i)));
  for (let i = 0; i < 2_000; i += 1) {
    clock.advance(5);
    await tick();
  }
  await done;
  expect(most).toBe(5);
});
