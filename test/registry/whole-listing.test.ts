import { expect, test } from "vitest";
import { readWholeListing, ReadingBudget } from "../../src/registry/whole-listing.ts";
import { Abort, systemClock } from "../../src/clock.ts";
import { instrumentsOf } from "../support/aggregate-registries.ts";
import { localCoordinator } from "../../src/sharing/alone.ts";
import { RemoteStore } from "../support/cache-fixture.ts";
import { clientRequest, openRegistryOf } from "../support/registry-metadata.ts";
import { ADMIN, startRegistry } from "../support/upstream-registries.ts";

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

test("an instrument on a page that another process fetched takes the place of one received before, however slow the registry's clock", async () => {
  let now = 3_600_000;
  const clock = { ...systemClock(), now: () => now };
  const registry = await startRegistry({ clock });
  const [instrument] = instrumentsOf("A", 1);
  const text = (supply: string) => JSON.stringify({ ...instrument, totalSupply: supply });
  registry.script(({ operation }) => {
    const headers = ["content-type", "application/json", "date", new Date(Date.now() - 3_600_000).toUTCString()];
    if (operation === "instruments") return { status: 200, headers, body: `{"instruments":[${text("2.0")}]}` };
    return operation === "instrument" ? { status: 200, headers, body: text("1.0") } : undefined;
  });
  const options = { clock, coordinator: localCoordinator(clock), shared: new RemoteStore() };
  const [one, other] = [openRegistryOf([registry], {}, options), openRegistryOf([registry], {}, options)];
  const get = ({ metadata }: typeof one) =>
    metadata.get(
      ADMIN,
      { operation: "instrument", id: instrument!.id },
      { ...clientRequest(), deadline: now + 10_000 },
    );
  expect(String((await get(one)).body)).toBe(text("1.0"));
  now += 1_000;
  for (const { metadata } of [one, other]) {
    const request = () => metadata.backgroundRequest(clock, new Abort());
    await readWholeListing(metadata, { clock, request, share: new ReadingBudget(clock).begin() });
  }
  expect(registry.calls.count("instruments")).toBe(1);
  expect(String((await get(other)).body)).toBe(text("2.0"));
});
