import { describe, expect, test } from "vitest";
import type { CacheAnswer } from "../../src/cache/resource.ts";
import { failedListing, Listing } from "../../src/registry/listing.ts";
import { instrumentsOf } from "../support/aggregate-registries.ts";
import { clientRequest, openRegistryMetadata } from "../support/registry-metadata.ts";
import type { SampleRegistry } from "../support/sample-registry.ts";
import { ADMIN, startRegistry } from "../support/upstream-registries.ts";

function answer(status: number, retryAfter: string): CacheAnswer {
  return {
    status,
    fields: ["retry-after", retryAfter],
    body: undefined,
    outcome: "miss",
    tier: "upstream",
    age: 0,
    ttl: undefined,
    usableUntil: undefined,
    windowUsed: undefined,
  };
}

test.each([
  ["7", 7],
  ["0", 1],
  ["1e308", 1],
  ["0x10", 1],
  ["-5", 1],
  ["9".repeat(400), 1],
  ["Fri, 31 Dec 9999 23:59:59 GMT", 1],
])("a listing that is refused with Retry-After: %s is to be tried again in %d s", (asked, seconds) => {
  for (const status of [429, 503]) expect(failedListing("a", answer(status, asked)).retryAfter).toBe(seconds);
});

/** A listing before a sample registry. */
function listingOf(registry: SampleRegistry): Listing {
  return new Listing(openRegistryMetadata(registry), ADMIN);
}

/** Every page of a listing; `between` happens after each. */
async function readAll(listing: Listing, between: () => void = () => undefined): Promise<string[][]> {
  const pages: string[][] = [];
  let found = await listing.first(clientRequest());
  for (;;) {
    pages.push([...found.page.ids]);
    between();
    const after = await listing.after(found, clientRequest());
    if (after === undefined) return pages;
    found = after.found;
  }
}

/** What the registry was asked. */
function queries({ calls }: SampleRegistry): string[] {
  return calls.recent.flatMap(({ operation, url }) =>
    operation === "instruments" ? [new URL(url, "http://x").search] : [],
  );
}

describe("a listing", () => {
  test("is read at one size whatever clients ask, from the cache where its pages are there", async () => {
    const registry = await startRegistry({ instruments: instrumentsOf("A", 250) });
    const listing = listingOf(registry);
    const pages = await readAll(listing);
    expect(pages.map((ids) => ids.length)).toEqual([100, 100, 50]);
    expect(new Set(pages.flat()).size).toBe(250);
    expect(await readAll(listing)).toEqual(pages);
    expect(queries(registry)).toEqual([
      "?pageSize=100",
      "?pageSize=100&pageToken=A-00099",
      "?pageSize=100&pageToken=A-00199",
    ]);
  });

  test("is read in smaller pages where the registry refuses larger ones, found out once", async () => {
    const instruments = instrumentsOf("A", 60);
    const registry = await startRegistry({ instruments, maxPageSize: { limit: 30, beyond: "400" } });
    const listing = listingOf(registry);
    expect((await readAll(listing)).map((ids) => ids.length)).toEqual([25, 25, 10]);
    expect(queries(registry).filter((query) => !query.includes("pageToken"))).toEqual([
      "?pageSize=100",
      "?pageSize=50",
      "?pageSize=25",
    ]);
  });

  test("by index is read with an overlap, so that an instrument that goes makes none be passed over", async () => {
    const registry = await startRegistry({ instruments: instrumentsOf("A", 150), paging: "index" });
    const { catalogue } = registry;
    const remove = () => catalogue.remove(catalogue.list()[0]!.id);
    const [first, second] = await readAll(listingOf(registry), remove);
    expect(queries(registry)).toEqual(["?pageSize=100", "?pageSize=104&pageToken=96"]);
    expect(second!.slice(0, 3)).toEqual(first!.slice(-3));
    expect(new Set([...first!, ...second!]).size).toBe(150);
  });

  test("by index is read without an overlap where the registry takes no token but its own", async () => {
    const registry = await startRegistry({ instruments: instrumentsOf("A", 250), paging: "index" });
    registry.script(({ url }) => {
      const token = new URL(url, "http://x").searchParams.get("pageToken");
      const isOwn = token === null || Number(token) % 100 === 0;
      return isOwn ? undefined : { status: 400, body: '{"error":"bad token"}' };
    });
    expect((await readAll(listingOf(registry))).map((ids) => ids.length)).toEqual([100, 100, 50]);
    expect(queries(registry)).toEqual([
      "?pageSize=100",
      "?pageSize=104&pageToken=96",
      "?pageSize=100&pageToken=96",
      "?pageSize=100&pageToken=100",
      "?pageSize=100&pageToken=200",
    ]);
  });

  test("has lost the position whose token the registry does not take any more", async () => {
    const registry = await startRegistry({ instruments: instrumentsOf("A", 150) });
    registry.script(({ url }) => (url.includes("pageToken") ? { status: 400, body: '{"error":"gone"}' } : undefined));
    await expect(readAll(listingOf(registry))).rejects.toMatchObject({ status: 400, code: "listing_changed" });
  });

  test("that goes round in circles is refused", async () => {
    const registry = await startRegistry();
    const page = { instruments: instrumentsOf("A", 3), nextPageToken: "same" };
    registry.script(({ operation }) =>
      operation === "instruments" ? { status: 200, body: JSON.stringify(page) } : undefined,
    );
    await expect(readAll(listingOf(registry))).rejects.toMatchObject({ status: 502 });
  });

  test("that cannot be read says what was sent", async () => {
    const registry = await startRegistry();
    registry.script(({ operation }) =>
      operation === "instruments" ? { status: 200, body: '{"instruments":7}' } : undefined,
    );
    await expect(readAll(listingOf(registry))).rejects.toMatchObject({
      status: 502,
      message: expect.stringContaining("a page that cannot be read: it has no list of instruments") as string,
    });
  });
});
