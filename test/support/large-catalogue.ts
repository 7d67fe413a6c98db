import { ListedPage, readPage } from "../../src/bodies/page.ts";
import { Catalogue } from "../../src/aggregate/catalogue.ts";
import {
  type CataloguePage,
  type CatalogueQuery,
  CatalogueSearch,
  type SearchTerms,
} from "../../src/aggregate/catalogue-search.ts";
import { type Clock, systemClock } from "../../src/clock.ts";
import { localCoordinator } from "../../src/sharing/alone.ts";
import type { RegistryMetadata } from "../../src/registry/registry-metadata.ts";
import { listingEpoch, type WholeListing } from "../../src/registry/whole-listing.ts";
import { mulberry32 } from "../../src/sandbox/random.ts";
import type { Upstream } from "../../src/upstream/upstream.ts";

const WORDS =
  "sample bond treasury bill note equity fund digital coin token gold silver euro dollar yen wrapped staked usd eur amulet series class growth income".split(
    " ",
  );

/** A catalogue in memory, to search in. */
export interface LargeCatalogue {
  readonly instruments: number;
  readonly search: (query: string, options?: Partial<CatalogueQuery & SearchTerms>) => Promise<CataloguePage>;
  /** Has a registry list its instruments from this one on alone. */
  readonly listFrom: (registry: number, first: number) => Promise<unknown>;
}

/** Builds the catalogue of so many registries with so many instruments each, as their listings would have brought them. */
export async function buildLargeCatalogue(
  registries: number,
  instruments: number,
  clock: Clock = systemClock(),
): Promise<LargeCatalogue> {
  const { epochs } = localCoordinator(clock);
  const catalogue = new Catalogue({ clock, epochs, upstreams: () => upstreams });
  const searches = new CatalogueSearch(catalogue, clock);
  const all: RegistryMetadata[] = [];
  const upstreams = {
    get all(): Upstream[] {
      return all.map(({ upstream }) => upstream);
    },
    byAdmin: (admin: string) => upstreams.all.find((upstream) => upstream.admin === admin),
  };
  const listFrom = (at: number, first: number) => {
    const { admin } = all[at]!.upstream as { admin: string };
    const epoch = listingEpoch(epochs, admin);
    return catalogue.take(listingOf({ admin, instruments, first, seed: at + 1, epoch, asOf: clock.now() }));
  };
  for (let at = 0; at < registries; at++) {
    const upstream = { name: `registry-${at}`, admin: `registry-${at}::1220` } as Upstream;
    all.push({ upstream } as RegistryMetadata);
    await listFrom(at, 0);
  }
  return {
    instruments: registries * instruments,
    search: (query, { deadline = Infinity, signal, ...options } = {}) =>
      searches.page(
        all,
        {
          query,
          symbol: undefined,
          paused: undefined,
          pageSize: 25,
          pageToken: undefined,
          view: "",
          ...options,
        },
        { deadline, signal },
      ),
    listFrom,
  };
}

function listingOf({
  admin,
  instruments,
  first,
  seed,
  epoch,
  asOf,
}: {
  admin: string;
  instruments: number;
  first: number;
  seed: number;
  epoch: string;
  asOf: number;
}): WholeListing {
  const random = mulberry32(seed);
  const word = () => WORDS[Math.floor(random() * WORDS.length)]!;
  const texts: string[] = [];
  for (let at = 0; at < instruments; at++) {
    const id = `${word()}-${2020 + (at % 10)}-${seed}-${at}`.toUpperCase();
    const symbol = `${word().slice(0, 3)}${at}`.toUpperCase();
    texts.push(
      JSON.stringify({
        id,
        name: `${word()} ${word()} ${word()} ${at}`,
        symbol,
        decimals: 10,
        totalSupply: "12345678901234567890.10",
        totalSupplyAsOf: "2026-09-10T06:31:01.421109",
        supportedApis: { "splice-api-token-metadata-v1": 1, "splice-api-token-transfer-instruction-v1": 1 },
      }),
    );
  }
  return {
    admin,
    info: undefined,
    pages: [readWhole(`{"instruments":[${texts.slice(first).join()}]}`)],
    cacheControl: ["no-cache"],
    digest: `${seed} ${first}`,
    cutShortBy: undefined,
    epoch,
    softEpoch: "",
    asOf,
    newestAsOf: asOf,
    infoAsOf: asOf,
    freshUntil: asOf + 600_000,
    usableUntil: asOf + 600_000,
  };
}

function readWhole(text: string): ListedPage {
  const body = Buffer.from(text);
  const parts = readPage(body);
  if (typeof parts === "string") throw new Error(parts);
  return new ListedPage(body, parts);
}
