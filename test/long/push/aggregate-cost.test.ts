import { expect, test } from "vitest";
import { tenRegistries, useAggregates, readListing } from "../../support/aggregate-registries.ts";
import { IS_THOROUGH } from "../../support/thorough.ts";

const { startRegistries, startBefore } = useAggregates();

const LISTING = "/registry/metadata/v1/instruments";

const PAGE_SIZES = IS_THOROUGH ? [1_000, 25, 333, 100] : [1_000, 333];

test("walking 10,000 instruments of 10 registries at any page size costs one call for each upstream page", async () => {
  const registries = await startRegistries(tenRegistries());
  const gateway = await startBefore(registries, { cache: { ttl: { instruments: "10m" } } });
  for (const pageSize of PAGE_SIZES) {
    const seen = await readListing(gateway.url + LISTING, pageSize);
    expect(seen).toHaveLength(10_000);
    expect(seen[0]).toMatchObject({ admin: "r0::1220", id: "R0-00000" });
    expect(seen[9_999]).toMatchObject({ admin: "r9::1220", id: "R9-00999" });
    expect(gateway.called("instruments"), `at page size ${pageSize}`).toBe(100);
  }
});

test("a walk begun at one replica goes on at another", async () => {
  const registries = await startRegistries(tenRegistries());
  const [one, other] = await Promise.all([startBefore(registries), startBefore(registries)]);
  const ids = new Set<string>();
  let token = "";
  for (let page = 0; page === 0 || token !== ""; page++) {
    const replica = page % 2 === 0 ? one : other;
    const url = `${replica.url}${LISTING}?pageSize=470${token === "" ? "" : `&pageToken=${token}`}`;
    const body = (await (await fetch(url)).json()) as { instruments: { id: string }[]; nextPageToken?: string };
    for (const { id } of body.instruments) ids.add(id);
    token = body.nextPageToken ?? "";
  }
  expect(ids.size).toBe(10_000);
});
