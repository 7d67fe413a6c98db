import { describe, expect, test } from "vitest";
import { type ListingBound, ReadingBudget } from "../../src/registry/whole-listing.ts";
import { ManualClock } from "../support/manual-clock.ts";
import { get, type Got, instrumentsOf, listForEver, useAggregates } from "../support/aggregate-registries.ts";

const { startAggregate } = useAggregates();

const LISTING = "/registry/metadata/v1/instruments";
const REGISTRIES = "/catalog/v1/registries";
const INSTRUMENTS = "/catalog/v1/instruments";
const MIB = 1024 * 1024;

/** Waits until the catalogue has been read. */
async function catalogued(url: string): Promise<Got> {
  const counts = async () => {
    const { json } = await get(url + REGISTRIES);
    return (json.registries as { instrumentCount: number | null }[]).map(({ instrumentCount }) => instrumentCount);
  };
  await expect.poll(counts).not.toContain(null);
  return get(url + REGISTRIES);
}

describe("a registry that lists for ever", () => {
  test("is read up to a bound, and the catalogue says that it is not whole", async () => {
    const { url, registries } = await startAggregate({ endless: {}, amulet: {} });
    listForEver(registries.endless!, MIB);
    const listed = await catalogued(url);
    expect(listed.headers.get("x-registry-partial")).toBe("endless");
    expect(listed.json.registries).toMatchObject([{ instrumentCount: 32 }, { instrumentCount: 30 }]);
    const found = await get(`${url}${INSTRUMENTS}?query=instrument&pageSize=5`);
    expect([found.status, found.headers.get("x-registry-partial")]).toEqual([200, "endless"]);
    expect(found.headers.get("cache-control")).toBe("no-store");
    expect(registries.endless!.calls.count("instruments")).toBe(32);

    // A page of what is found costs its size, and no instrument is lost.
    const seen: string[] = [];
    for (let pageToken = ""; seen.length < 100;) {
      const { json } = await get(`${url}${INSTRUMENTS}?pageSize=1000${pageToken}`);
      const ids = (json.instruments as { id: string }[]).map(({ id }) => id);
      expect(ids.length).toBeGreaterThan(0);
      seen.push(...ids);
      if (json.nextPageToken === undefined) break;
      pageToken = `&pageToken=${json.nextPageToken as string}`;
    }
    expect(new Set(seen).size).toBe(62);
    expect(seen).toHaveLength(62);
  });

  test("costs a page of the merged listing its size, and no instrument", async () => {
    const { url, registries } = await startAggregate({ endless: {}, amulet: {} });
    listForEver(registries.endless!, MIB);
    const seen: string[] = [];
    let pageToken = "";
    for (let page = 0; page < 2; page++) {
      const { status, json } = await get(`${url}${LISTING}?pageSize=1000${pageToken}`);
      expect(status).toBe(200);
      const ids = (json.instruments as { id: string }[]).map(({ id }) => id);
      expect(ids.length).toBeGreaterThan(10);
      expect(ids.length).toBeLessThan(17);
      seen.push(...ids);
      pageToken = `&pageToken=${json.nextPageToken as string}`;
    }
    expect(seen).toEqual(seen.map((_id, at) => `ENDLESS-${at}`));
  });

  test("gets further with each page though one of its own costs more than a page may", async () => {
    const { url, registries } = await startAggregate(
      { endless: {}, amulet: {} },
      { limits: { responseBody: "32MiB" }, cache: { memory: { maxObject: "1MiB" } } },
    );
    listForEver(registries.endless!, 17 * MIB);
    const seen: string[] = [];
    for (let page = 0, pageToken = ""; page < 2; page++) {
      const { json } = await get(`${url}${LISTING}?pageSize=1000${pageToken}`);
      seen.push(...(json.instruments as { id: string }[]).map(({ id }) => id));
      pageToken = `&pageToken=${json.nextPageToken as string}`;
    }
    expect(seen).toEqual(["ENDLESS-0", "ENDLESS-1"]);
  });

  test("is not warmed up for ever", async () => {
    const aggregate = await startAggregate({ endless: {} }, { cache: { memory: { maxObject: "1KiB" } } });
    const registry = aggregate.registries.endless!;
    listForEver(registry, MIB);
    const config = structuredClone(aggregate.gateway.config);
    const upstreams = config.upstreams.map((each) => ({ ...each, cache: { ...each.cache, warmUp: true } }));
    await aggregate.gateway.reload({ ...config, upstreams });
    await expect.poll(() => registry.calls.count("instruments")).toBe(32);
  });
});

test("a page token that no URL can hold is refused", async () => {
  const { url, registries } = await startAggregate({ amulet: {}, bonds: {} });
  registries.amulet!.script(({ operation }) =>
    operation === "instruments"
      ? { status: 200, body: JSON.stringify({ instruments: instrumentsOf("A", 3), nextPageToken: "t".repeat(MIB) }) }
      : undefined,
  );
  const { status, json } = await get(url + LISTING);
  expect([status, json.error]).toEqual([
    502,
    expect.stringContaining("its nextPageToken is longer than 4096 characters"),
  ]);
});

describe("of a listing may be read", () => {
  /** Pages that are taken until one has to be the last. */
  function pagesOf(budget: ReadingBudget, bytes: number, each: () => void = () => undefined): [number, ListingBound] {
    const share = budget.begin();
    for (let pages = 1; ; pages++) {
      each();
      const bound = share.take(bytes);
      if (bound !== undefined) return [pages, bound];
    }
  }

  test("so many pages and so many bytes", () => {
    expect(pagesOf(new ReadingBudget(new ManualClock()), 100)).toEqual([2_000, "pages"]);
    expect(pagesOf(new ReadingBudget(new ManualClock()), 4 * MIB)).toEqual([8, "bytes"]);
  });

  test("for so long", () => {
    const clock = new ManualClock();
    expect(pagesOf(new ReadingBudget(clock), 100, () => clock.advance(15_000))).toEqual([20, "time"]);
  });

  test("no more than all listings together may hold, until another one has ended", () => {
    const budget = new ReadingBudget(new ManualClock());
    const others = [budget.begin(), budget.begin()];
    for (const other of others) for (let i = 0; i < 7; i++) other.take(4 * MIB);
    expect(pagesOf(budget, MIB)).toEqual([8, "bytes_of_all"]);
    for (const other of others) other.end();
    expect(pagesOf(budget, MIB)).toEqual([32, "bytes"]);
  });
});
