import { expect, test } from "vitest";
import { readWholeListing, ReadingBudget } from "../../src/registry/whole-listing.ts";
import { Abort, systemClock } from "../../src/clock.ts";
import { instrumentsOf } from "../support/aggregate-registries.ts";
import { openRegistryOf } from "../support/registry-metadata.ts";
import { startRegistry } from "../support/upstream-registries.ts";

/** A registry of one page with this `Cache-Control`, whose listing is read. */
async function scene(cacheControl: string) {
  let now = 3_600_000;
  // It stands still unless it is put forward; timers take their real time.
  const clock = { ...systemClock(), now: () => now };
  const registry = await startRegistry({ clock });
  const page = JSON.stringify({ instruments: instrumentsOf("A", 1) });
  registry.script(({ operation }) => {
    if (operation !== "instruments") return undefined;
    return { status: 200, headers: ["content-type", "application/json", "cache-control", cacheControl], body: page };
  });
  const opened = openRegistryOf([registry], { retry: { attempts: 1 } }, { clock });
  const { metadata } = opened;
  const advance = (seconds: number) => {
    now += seconds * 1_000;
  };
  const began = now;
  /** Seconds from the beginning for which the listing is fresh, and usable. */
  const read = async () => {
    const share = new ReadingBudget(clock).begin();
    const request = () => metadata.backgroundRequest(clock, new Abort());
    const { freshUntil, usableUntil } = await readWholeListing(metadata, { clock, request, share });
    return [freshUntil, usableUntil].map((until) => (until - began) / 1_000);
  };
  return { ...opened, registry, advance, read };
}

test.each([
  ["max-age=60", [60, 660]],
  ["max-age=60, stale-if-error=10", [60, 70]],
  ["max-age=60, must-revalidate", [60, 60]],
  ["s-maxage=60", [60, 60]],
  // It stands for the five seconds in which it is not read again.
  ["no-cache", [0, 5]],
  ["max-age=60, no-store", [0, 5]],
  ["max-age=60, private", [0, 5]],
])("a listing of pages that say %s is fresh, and usable, as long as they are", async (cacheControl, seconds) => {
  const { read } = await scene(cacheControl);
  expect(await read()).toEqual(seconds);
});

test("a listing that is made of stale pages lasts no longer than they do", async () => {
  const { registry, advance, read } = await scene("max-age=60");
  await read();
  registry.script(({ operation }) => (operation === "instruments" ? { status: 503 } : undefined));
  advance(500);
  expect(await read()).toEqual([60, 660]);
});

test("in cache-only mode a listing is made of pages however stale", async () => {
  const { advance, read, environment, upstreams } = await scene("max-age=60");
  await read();
  const action = { upstream: "amulet", mode: "cache-only", by: "no token", from: "loopback" } as const;
  await environment.coordinator.actions.act({ action, lasts: undefined });
  upstreams.followActions();
  advance(5_000);
  expect(await read()).toEqual([60, 5_600]);
});
