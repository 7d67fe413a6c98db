import { expect, test } from "vitest";
import { Catalogue } from "../../../src/aggregate/catalogue.ts";
import { indexed } from "../../../src/aggregate/search-index.ts";
import { ListedPage, readPage } from "../../../src/bodies/page.ts";
import { localCoordinator } from "../../../src/sharing/alone.ts";
import type { WholeListing } from "../../../src/registry/whole-listing.ts";
import type { Upstream } from "../../../src/upstream/upstream.ts";
import { get, useAggregates } from "../../support/aggregate-registries.ts";
import { parseExposition } from "../../support/exposition.ts";
import { ManualClock } from "../../support/manual-clock.ts";

const { startAggregate } = useAggregates();

const MIB = 1024 * 1024;

/** A busy machine reads them for longer than they would be fresh. */
const LONG = { cache: { ttl: { instruments: "10m", info: "10m" } } };

test("a listing of more instruments than are searched is cut short, and answers and a metric say so", async () => {
  const { url, registries, gateway } = await startAggregate({ amulet: {}, vast: {} }, LONG);
  registries.vast!.script(({ operation, url: asked }) => {
    if (operation !== "instruments") return undefined;
    const at = Number(new URL(asked, "http://x").searchParams.get("pageToken")?.slice(1) ?? 0);
    const instruments = Array.from({ length: 5_000 }, (_, i) => ({ id: `V-${at}-${i}` }));
    return { status: 200, body: JSON.stringify({ instruments, nextPageToken: `t${at + 1}` }) };
  });
  const search = () => get(`${url}/catalog/v1/instruments?query=V&admin=vast&pageSize=1`);
  await expect.poll(async () => (await search()).json.instruments).toHaveLength(1);
  expect((await search()).headers.get("x-registry-partial")).toBe("vast");
  const { json } = await get(`${url}/catalog/v1/registries`);
  expect(json.registries).toMatchObject([{ instrumentCount: 30 }, { instrumentCount: 100_000 }]);

  const series = parseExposition(await gateway.registry.metrics());
  const valuesOf = (name: string) =>
    series
      .filter((each) => each.name === `registry_gateway_catalogue_${name}`)
      .map(({ labels, value }) => [labels, value]);
  expect(valuesOf("cut_short").filter(([, value]) => value !== 0)).toEqual([
    [{ upstream: "vast", reason: "instruments" }, 1],
  ]);
  expect(valuesOf("cut_short")).toHaveLength(12);
  expect(valuesOf("bytes")[0]![1]).toBeGreaterThan(100_000 * 200);
});

/** A listing of so many instruments of a MiB. */
function largeListing(count = 30): WholeListing {
  const note = "x".repeat(MIB);
  return listingOf(Array.from({ length: count }, (_, at) => `{"id":"I-${at}","note":"${note}"}`));
}

function listingOf(texts: readonly string[]): WholeListing {
  const body = Buffer.from(`{"instruments":[${texts.join()}]}`);
  const parts = readPage(body);
  if (typeof parts === "string") throw new Error(parts);
  const times = {
    epoch: "",
    softEpoch: "",
    asOf: 0,
    newestAsOf: 0,
    infoAsOf: 0,
    freshUntil: 60_000,
    usableUntil: 60_000,
  };
  const said = { info: undefined, cacheControl: [], digest: "1", cutShortBy: undefined };
  return { admin: "", pages: [new ListedPage(body, parts)], ...said, ...times };
}

function catalogueOf(configured: ReadonlySet<string>): Catalogue {
  const clock = new ManualClock();
  return new Catalogue({
    clock,
    epochs: localCoordinator(clock).epochs,
    upstreams: () => ({
      all: [...configured].map((admin) => ({ admin }) as Upstream),
      byAdmin: (admin) => (configured.has(admin) ? ({ admin } as Upstream) : undefined),
    }),
  });
}

test("a full catalogue says of which registry it lacks instruments, until one that is no longer configured makes room", async () => {
  const names = ["a", "b", "c", "d", "e"];
  const configured = new Set(names);
  const catalogue = catalogueOf(configured);
  const listing = largeListing();
  for (const admin of names) await catalogue.take({ ...listing, admin });
  expect(names.map((admin) => catalogue.kept(admin)?.cutShortBy)).toEqual([
    undefined,
    undefined,
    undefined,
    undefined,
    "catalogue",
  ]);
  expect(catalogue.kept("e")?.instruments).toBe(7);
  expect(catalogue.size).toBeLessThanOrEqual(128 * MIB);

  // What is full stays so for those that are configured.
  await catalogue.take({ ...listing, admin: "e" });
  expect(catalogue.kept("e")?.cutShortBy).toBe("catalogue");
  configured.delete("a");
  await catalogue.take({ ...listing, admin: "e" });
  expect(catalogue.kept("a")).toBeUndefined();
  expect(catalogue.kept("e")).toEqual({ instruments: 30, cutShortBy: undefined });
});

// The texts of instruments counted alone: what is searched of them took nine times their place, and had no bound.
test("what is searched of instruments counts, and fills the catalogue", async () => {
  const field = "\ufdfa".repeat(1_000);
  const instruments = Array.from({ length: 1_500 }, (_, at) => ({ id: `I-${at}`, name: field, symbol: field }));
  const listing = listingOf(instruments.map((each) => JSON.stringify(each)));
  const kept = instruments.map(
    (each) => JSON.stringify(each).length + 2 * indexed({ ...each, isPaused: false }).text.length,
  );
  const catalogue = catalogueOf(new Set("abcde"));
  const { size, index } = await catalogue.take({ ...listing, admin: "a" });
  expect(index.size).toBe(1_500);
  expect(size).toBeGreaterThan(kept.reduce((sum, each) => sum + each));
  expect(catalogue.size).toBe(size);

  const large = largeListing(40);
  for (const admin of "bcd") await catalogue.take({ ...large, admin });
  await catalogue.take({ ...listing, admin: "e" });
  expect(catalogue.kept("e")?.cutShortBy).toBe("catalogue");
  expect(catalogue.size).toBeLessThanOrEqual(128 * MIB);
});

test("listings that are read at the same time do not fill the same room twice", async () => {
  const names = ["a", "b", "c", "d", "e", "f"];
  const catalogue = catalogueOf(new Set(names));
  const listing = largeListing();
  await Promise.all(names.map((admin) => catalogue.take({ ...listing, admin })));
  expect(catalogue.size).toBeLessThanOrEqual(128 * MIB);
  expect(names.map((admin) => catalogue.kept(admin)?.instruments)).toEqual([30, 30, 30, 30, 7, 0]);
});

test("a listing that cannot be taken does not keep the next from being taken", async () => {
  const catalogue = catalogueOf(new Set(["a", "b"]));
  const listing = largeListing(2);
  const broken = {
    ...listing,
    admin: "a",
    pages: [{ ids: ["I"], body: listing.pages[0]!.body } as unknown as ListedPage],
  };
  const [first, second] = await Promise.allSettled([
    catalogue.take(broken),
    catalogue.take({ ...listing, admin: "b" }),
  ]);
  expect(first.status).toBe("rejected");
  expect(second.status).toBe("fulfilled");
  expect(catalogue.kept("b")?.instruments).toBe(2);
});

test("what once was configured does not add up", async () => {
  const clock = new ManualClock();
  const present = { admin: "now" } as Upstream;
  const catalogue = new Catalogue({
    clock,
    epochs: localCoordinator(clock).epochs,
    upstreams: () => ({ all: [present], byAdmin: (admin) => (admin === "now" ? present : undefined) }),
  });
  const listing = { ...largeListing(0), pages: [] };
  const gone = Array.from({ length: 10 }, (_, at) => `gone-${at}`);
  for (const admin of ["now", ...gone]) await catalogue.take({ ...listing, admin });
  expect(gone.filter((admin) => catalogue.kept(admin) !== undefined).length).toBeLessThanOrEqual(2);
  expect(catalogue.kept("now")).toBeDefined();
});
