import { expect, test } from "vitest";
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

test("closing releases those who wait", async () => {
  const clock = new ManualClock();
  const coordinator = localCoordinator(clock);
  await coordinator.leases.acquire("key");
  const waiting = coordinator.leases.whenReleased("key", clock.now() + 60_000);
  await coordinator.close();
  expect(await waiting).toBe("failed");
});
