import { setImmediate } from "node:timers/promises";
import { instrumentBytes, type ListedInstrument } from "../bodies/page.ts";
import type { Found } from "../cache/types.ts";
import type { Clock } from "../clock.ts";
import type { Registry, RegistryWait } from "../registry/registry.ts";
import {
  compose,
  type Composed,
  failureOf,
  identityOf,
  isRegistryFailure,
  joined,
  unexpectedStatus,
  withAdmin,
} from "./compose.ts";
import { boundedWait } from "./merged-listing.ts";

/** The most that one request to the catalogue reads, of all registries together. */
const MAX_PAGES = 200;
const MAX_INSTRUMENTS = 10_000;

/** A search in the catalogue: everything that is given has to fit. */
export interface CatalogueQuery {
  /** Part of an id, name or symbol, in any case; empty: all. */
  readonly query: string;
  /** The whole symbol, in any case; undefined: any. */
  readonly symbol: string | undefined;
  readonly isPartial: boolean;
}

/** The registries as a wallet needs them: `GET /catalog/v1/registries`. */
export function listRegistries(
  registries: readonly Registry[],
  basePathOf: (registry: Registry) => string,
  clock: Clock,
): Composed {
  const listed = registries.map((registry) => {
    const { name, admin = null, mode, state } = registry.upstream.status();
    return { name, admin, basePath: basePathOf(registry), mode, state };
  });
  return compose(Buffer.from(JSON.stringify({ registries: listed })), [], [], clock.now());
}

/** All that is still to be read and given, by all walks of one request. */
interface Budget {
  pages: number;
  instruments: number;
}

/** Finds of one registry's pages. */
interface Walk {
  readonly parts: Found[];
  readonly texts: (readonly Buffer[])[];
  /** A bound was met, or the registry failed. */
  isComplete: boolean;
}

/**
 * The instruments that fit, each with its `admin`, from the pages of all registries as the cache has or gets them:
 * `{ "instruments": […], "isComplete": true }`. Pages that are fetched for it are kept as minor ones.
 *
 * @param registries those that are searched, and that the client may see
 * @throws GatewayError 502 that names a registry that fails
 */
export async function searchInstruments(
  registries: readonly Registry[],
  query: CatalogueQuery,
  wait: RegistryWait,
  clock: Clock,
): Promise<Composed> {
  const budget: Budget = { pages: MAX_PAGES, instruments: MAX_INSTRUMENTS };
  const fits = matcher(query);
  const missing: string[] = [];
  const walks = await Promise.all(
    registries.map(async (registry) => {
      const walk: Walk = { parts: [], texts: [], isComplete: true };
      try {
        await walkPages({ registry, walk, budget, fits }, { ...boundedWait(registry, wait, clock), isMinor: true });
      } catch (error) {
        // Nobody waits for the others then: they end with the page that they read.
        if (!query.isPartial || !isRegistryFailure(error)) budget.pages = 0;
        if (!isRegistryFailure(error)) throw error;
        if (!query.isPartial) throw failureOf(registry.upstream.name, error);
        missing.push(registry.upstream.name);
        walk.isComplete = false;
      }
      return walk;
    }),
  );
  const listed = joined(walks.flatMap(({ texts }) => texts));
  const end = `],"isComplete":${walks.every(({ isComplete }) => isComplete)}}`;
  const body = Buffer.concat([Buffer.from('{"instruments":['), ...listed, Buffer.from(end)]);
  const parts = walks.flatMap((walk) => walk.parts);
  return compose(body, parts, missing, clock.now());
}

interface Walking {
  readonly registry: Registry;
  readonly walk: Walk;
  readonly budget: Budget;
  readonly fits: (instrument: ListedInstrument) => boolean;
}

async function walkPages({ registry, walk, budget, fits }: Walking, wait: RegistryWait): Promise<void> {
  let token: string | undefined;
  do {
    if (budget.pages === 0 || budget.instruments === 0) {
      walk.isComplete = false;
      return;
    }
    budget.pages -= 1;
    const pageToken = token === undefined ? undefined : encodeURIComponent(token);
    const found = await registry.get({ operation: "instruments", pageToken }, wait);
    if (found.entry.status !== 200) throw unexpectedStatus(registry.upstream.name, found.entry);
    const page = registry.readPage(found.entry);
    walk.parts.push(found);
    const read = page.instruments.slice(0, budget.instruments);
    budget.instruments -= read.length;
    if (read.length < page.instruments.length) walk.isComplete = false;
    for (const each of read.filter(fits)) walk.texts.push(withAdmin(instrumentBytes(page, each), identityOf(registry)));
    // A page that goes on with itself would never end.
    token = page.nextPageToken === token ? undefined : page.nextPageToken;
    // Pages out of memory come without a turn of the loop: others have theirs between.
    await setImmediate();
  } while (token !== undefined);
}

function matcher({ query, symbol }: CatalogueQuery): (instrument: ListedInstrument) => boolean {
  const wanted = query.toLowerCase();
  const exact = symbol?.toLowerCase();
  return (each) =>
    (exact === undefined || each.symbol.toLowerCase() === exact) &&
    (wanted === "" || [each.id, each.name, each.symbol].some((text) => text.toLowerCase().includes(wanted)));
}
