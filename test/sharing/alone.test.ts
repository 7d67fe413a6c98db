import { expect, onTestFinished, test, vi } from "vitest";
import { systemClock } from "../../src/clock.ts";
import type { LimitAnswer } from "../../src/sharing/limits.ts";
import { localCoordinator } from "../../src/sharing/alone.ts";
import { ManualClock } from "../support/manual-clock.ts";
import { describeCoordinator } from "../support/coordinator-suite.ts";

describeCoordinator("local coordinator", () => {
  const clock = new ManualClock();
  const coordinator = localCoordinator(clock);
  return Promise.resolve({
    coordinator,
    now: () => clock.now(),
    pass: (milliseconds) => Promise.resolve(clock.advance(milliseconds)),
    close: () => coordinator.close(),
  });
});

test("a purge reaches this replica", async () => {
  const coordinator = localCoordinator(new ManualClock());
  expect(await coordinator.epochs.purge("p::1220", ["all"])).toBe("replica");
});

test("more partitions than are remembered never bring an entry back", async () => {
  const coordinator = localCoordinator(new ManualClock());
  const key = { partition: "first::1220", scopes: ["all"] };
  const before = coordinator.epochs.epochOf(key);
  for (let i = 0; i < 10_000; i += 1) await coordinator.epochs.purge(i === 0 ? key.partition : `p${i}::1220`, ["all"]);
  expect(coordinator.epochs.epochOf(key)).not.toBe(before);
});

// A wall clock that was set forward made what had been called older than it was, and gave the window away again.
test.each([2_000, 120_000])("a limit holds when the wall clock is set forward by %i ms", (step) => {
  vi.useFakeTimers({ toFake: ["Date"] });
  onTestFinished(() => void vi.useRealTimers());
  const { limits } = localCoordinator(systemClock());
  const windows = [{ name: "calls", requests: 10, per: step / 2 }];
  const take = () => (limits.take({ kind: "upstream", id: "budget", windows }) as LimitAnswer).granted;
  for (let i = 0; i < 10; i += 1) expect(take()).toBe(true);
  vi.setSystemTime(Date.now() + step);
  expect(take()).toBe(false);
});

test("closing releases those who wait", async () => {
  const clock = new ManualClock();
  const coordinator = localCoordinator(clock);
  await coordinator.leases.acquire("key");
  const waiting = coordinator.leases.whenReleased("key", clock.now() + 60_000);
  await coordinator.close();
  expect(await waiting).toBe("failed");
});
