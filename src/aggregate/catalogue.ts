import { setImmediate } from "node:timers/promises";
import { instrumentBytes, type ListedInstrument } from "../bodies/page.ts";
import type { Found } from "../cache/types.ts";
import type { Clock } from "../clock.ts";
import type { Registry, RegistryWait } from "../registry/registry.ts";
import {
  boundedWait,
  compose,
  type Composed,
  failureOf,
  getPage,
  identityOf,
  isRegistryFailure,
  joined,
  withAdmin,
} from "./compose.ts";

/** Most pages and instruments that one search reads, of all registries together. */
const MAX_PAGES = 200;
const MAX_INSTRUMENTS = 10_000;

/** A search in the catalogue: an instrument has to fit all that is given. */
interface CatalogueQuery {
  /** Part of an id, name or symbol, in any case; empty: all. */
  readonly query: string;
  /** The whole symbol, in any case; undefined: any. */
  readonly symbol: string | undefined;
  /** Whether a registry that fails is left out and named, in place of failing the search. */
  readonly isPartial: boolean;
}

/** Lists the registries as a wallet needs them: `GET /catalog/v1/registries`. */
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

/** Pages and instruments that the walks of one search may still read. */
interface Budget {
  pages: number;
  instruments: number;
}

/** A way through one registry's pages, and what it found there. */
interface Walk {
  readonly parts: Found[];
  readonly texts: (readonly Buffer[])[];
  /** False where the budget ended, or the registry failed. */
  isComplete: boolean;
}

/**
 * Finds the instruments that fit, each with its `admin`, on the pages of all registries as the cache has or gets them:
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
        // The search fails: the other walks end with the page that they read.
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
    const { found, listed, next } = await getPage(registry, { token }, wait);
    walk.parts.push(found);
    const read = listed.instruments.slice(0, budget.instruments);
    budget.instruments -= read.length;
    if (read.length < listed.instruments.length) walk.isComplete = false;
    for (const each of read.filter(fits))
      walk.texts.push(withAdmin(instrumentBytes(listed, each), identityOf(registry)));
    token = next;
    // Pages out of memory come without a turn of the event loop: other requests get theirs here.
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
