import { describe, expect, onTestFinished, test, vi } from "vitest";
import { BackgroundReader } from "../../src/registry/background-reader.ts";
import { get, instrumentsOf, useAggregates } from "../support/aggregate-registries.ts";
import { ManualClock } from "../support/manual-clock.ts";
import { openRegistryOf } from "../support/registry-metadata.ts";
import { startRegistry } from "../support/upstream-registries.ts";

const { startAggregate } = useAggregates();

const LISTING = "/registry/metadata/v1/instruments";

/** Waits for what the background brings. */
function eventually(check: () => void | Promise<void>): Promise<void> {
  return vi.waitFor(check, { timeout: 60_000, interval: 20 });
}

/** The queries of the listing that a registry was asked. */
function queries(calls: readonly { readonly operation: string; readonly url: string }[]): string[] {
  return calls.flatMap(({ operation, url }) => (operation === "instruments" ? [new URL(url, "http://x").search] : []));
}

describe("the background reader", () => {
  test("fills the cache at start with cache.warmUp: info, and pages as clients ask for them", async () => {
    const aggregate = await startAggregate(
      { amulet: { instruments: instrumentsOf("A", 60) } },
      { cache: { warmUp: true } },
    );
    const { calls } = aggregate.registries.amulet!;
    await eventually(() => expect(queries(calls.recent)).toEqual(["", "?pageToken=A-00024", "?pageToken=A-00049"]));
    await eventually(async () => {
      for (const path of [
        "/registry/metadata/v1/info",
        LISTING,
        `${LISTING}?pageToken=A-00049`,
        `${LISTING}/A-00033`,
      ]) {
        expect((await get(aggregate.url + path)).headers.get("cache-status")).toMatch(/hit/);
      }
    });
    expect(queries(calls.recent)).toHaveLength(3);
  });

  test("keeps the catalogue of warmed registries, whether or not anybody asks", async () => {
    const aggregate = await startAggregate({ amulet: {}, bonds: {} }, { cache: { warmUp: true } });
    const seen = () =>
      Object.values(aggregate.registries).map(({ calls }) => queries(calls.recent).includes("?pageSize=100"));
    await eventually(() => expect(seen()).toEqual([true, true]));
  });

  test("does nothing by itself", async () => {
    const aggregate = await startAggregate({ amulet: {}, bonds: {} });
    await get(`${aggregate.registrar("amulet")}${LISTING}`);
    await get(`${aggregate.url}${LISTING}?pageSize=1`);
    expect(aggregate.called("instruments")).toBe(2);
  });

  test("has nobody wait for a listing that is not asked for", async () => {
    const [quick, hanging] = [await startRegistry(), await startRegistry()];
    hanging.script(({ operation }) => (operation === "instruments" ? new Promise<never>(() => undefined) : undefined));
    const clock = new ManualClock();
    const registries = [quick, hanging].map((registry) => openRegistryOf([registry], {}, { clock }).metadata);
    let listed = 0;
    const reader = new BackgroundReader({
      clock,
      random: () => 0.5,
      registries: () => registries,
      isListing: () => true,
      listed: async () => void (listed += 1),
    });
    reader.start();
    onTestFinished(() => reader.stop());
    reader.wake();
    // Its clock stands still: it would wait for ever.
    await reader.whenRead(registries.slice(0, 1), clock.now() + 5_000);
    expect(listed).toBe(1);
    let isRead = false;
    const both = reader.whenRead(registries, clock.now() + 5_000).then(() => (isRead = true));
    await new Promise(setImmediate);
    expect(isRead).toBe(false);
    clock.advance(5_000);
    await both;
  });
});
