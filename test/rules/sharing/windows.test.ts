import * as fc from "fast-check";
import { expect, it } from "vitest";
import type { Rate } from "../../../src/config/schema.ts";
import { SLOTS, WindowLimiter } from "../../../src/sharing/windows.ts";
import { TestClock } from "../../support/clock.ts";
import { runs } from "../../support/thorough.ts";

const rates = fc.uniqueArray(
  fc.record({ requests: fc.integer({ min: 1, max: 8 }), per: fc.integer({ min: 40, max: 5_000 }) }),
  {
    minLength: 1,
    maxLength: 2,
    selector: ({ per }) => per,
  },
);
/** Milliseconds that pass before each call; many calls come at once. */
const pauses = fc.array(fc.oneof(fc.constant(0), fc.integer({ min: 0, max: 3_000 })), { maxLength: 80 });

interface Call {
  readonly at: number;
  readonly isGranted: boolean;
}

async function call(windows: readonly Rate[], times: readonly number[]): Promise<Call[]> {
  const clock = TestClock.standing();
  const limiter = new WindowLimiter(clock);
  const calls: Call[] = [];
  for (const pause of times) {
    clock.advance(pause);
    const grant = await limiter.take("a", windows);
    calls.push({ at: clock.now(), isGranted: grant.granted });
    if (grant.granted) continue;
    // Who comes when it was told to gets its call; a moment before, nobody does.
    clock.advance(Math.max(0, grant.retryIn - 1.5));
    expect(await limiter.take("a", windows)).toMatchObject({ granted: false });
    clock.advance(1.5);
    const again = await limiter.take("a", windows);
    expect(again).toEqual({ granted: true });
    calls.push({ at: clock.now(), isGranted: true });
  }
  return calls;
}

it("grants never more calls in any window than it says", async () => {
  const property = fc.asyncProperty(rates, pauses, async (windows, times) => {
    const granted = (await call(windows, times)).filter(({ isGranted }) => isGranted).map(({ at }) => at);
    for (const { requests, per } of windows) {
      for (const [i, at] of granted.entries()) {
        const next = granted[i + requests];
        if (next !== undefined) expect(next - at).toBeGreaterThanOrEqual(per);
      }
    }
  });
  await fc.assert(property, { numRuns: runs(150, 3_000) });
});

it("grants whatever fits in windows that are a twentieth longer", async () => {
  const property = fc.asyncProperty(rates, pauses, async (windows, times) => {
    const calls = await call(windows, times);
    for (const [i, { at, isGranted }] of calls.entries()) {
      const before = calls.slice(0, i).filter((each) => each.isGranted);
      const isFull = windows.some(
        ({ requests, per }) => before.filter((each) => at - each.at < per * (1 + 1 / SLOTS)).length >= requests,
      );
      if (!isGranted) expect(isFull).toBe(true);
    }
  });
  await fc.assert(property, { numRuns: runs(150, 3_000) });
});

it("counts each key by itself, and only in the windows that it has now", async () => {
  const clock = TestClock.standing();
  const limiter = new WindowLimiter(clock);
  const take = async (key: string, requests: number, per: number) =>
    (await limiter.take(key, [{ requests, per }])).granted;
  expect([await take("a", 1, 1_000), await take("a", 1, 1_000), await take("b", 1, 1_000)]).toEqual([
    true,
    false,
    true,
  ]);
  // As by a reload: more calls, then another window.
  expect([await take("a", 2, 1_000), await take("a", 2, 1_000), await take("a", 1, 2_000)]).toEqual([
    true,
    false,
    true,
  ]);
  // Calls that wait since before the reload forget nothing of those behind it.
  clock.advance(1_100);
  expect([await take("a", 2, 1_000), await take("a", 1, 2_000)]).toEqual([true, false]);
});
