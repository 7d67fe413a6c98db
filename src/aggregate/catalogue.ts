import { setImmediate } from "node:timers/promises";
import type { Clock, Instant } from "../clock.ts";
import type { Coordinator } from "../coordination/coordinator.ts";
import type { RegistryMetadata } from "../registry/registry-metadata.ts";
import { listingEpoch, type WholeListing } from "../registry/whole-listing.ts";
import type { Part } from "./composed-answer.ts";
import { readSupportedApis } from "./merged-info.ts";
import { SearchIndex } from "./search-index.ts";
import type { KnownInstruments, Listed } from "./single-instrument.ts";

/** What the instruments may cost that are kept in all, see {@link RegistryInstruments.size}. */
const MAX_SIZE = 128 * 1024 * 1024;

/** Registries that were configured at some time; the least recently read go first. */
const MAX_REGISTRIES = 1_000;

export interface CatalogueOptions {
  readonly clock: Clock;
  readonly coordinator: Coordinator;
}

/**
 * All instruments of all registries as their listings were last read in the background. Kept by admin, so that it
 * outlives reloads.
 */
export class Catalogue {
  private readonly clock: Clock;
  private readonly coordinator: Coordinator;
  private readonly registries = new Map<string, RegistryInstruments>();

  constructor({ clock, coordinator }: CatalogueOptions) {
    this.clock = clock;
    this.coordinator = coordinator;
  }

  /** Takes in what was read in the background. */
  async take(listing: WholeListing): Promise<void> {
    const previous = this.registries.get(listing.admin);
    const others = this.size - (previous?.size ?? 0);
    const instruments = await takeInstruments(listing, MAX_SIZE - others, previous);
    this.registries.delete(listing.admin);
    this.registries.set(listing.admin, instruments);
    const [oldest] = this.registries.keys();
    if (this.registries.size > MAX_REGISTRIES && oldest !== undefined) this.registries.delete(oldest);
  }

  /** What is known of a registry, unless it was purged since, or is older than could be served were it a page. */
  instrumentsOf({ upstream: { admin, config } }: RegistryMetadata): RegistryInstruments | undefined {
    const known = admin === undefined ? undefined : this.registries.get(admin);
    if (known === undefined || known.listing.epoch !== listingEpoch(this.coordinator, known.listing.admin)) {
      return undefined;
    }
    return this.clock.now() < known.listing.freshUntil + config.cache.staleIfError ? known : undefined;
  }

  /** What can be said about one id without asking any registry. */
  known(registries: readonly RegistryMetadata[], id: string): KnownInstruments {
    const now = this.clock.now();
    const fresh = new Map<RegistryMetadata, Listed>();
    const seen = new Set<RegistryMetadata>();
    for (const registry of registries) {
      const instruments = this.instrumentsOf(registry);
      if (instruments === undefined) continue;
      const { indexes, listing, texts } = instruments;
      const index = indexes.get(id);
      if (index !== undefined) seen.add(registry);
      if (!listing.isWhole || now >= listing.freshUntil) continue;
      fresh.set(registry, { text: index === undefined ? undefined : texts[index]!, part: partOf(instruments, now) });
    }
    return { fresh, seen };
  }

  /** What the instruments that are kept cost: about as many bytes. */
  get size(): number {
    let size = 0;
    for (const instruments of this.registries.values()) size += instruments.size;
    return size;
  }
}

/** Characters of instruments that are taken in without letting anything else run: a few milliseconds' worth. */
const BATCH = 512 * 1024;

/** What an instrument costs besides its text: slots in lists and maps, and in what is searched. */
const OVERHEAD = 200;

/** The instruments of one registry as they were when its listing was last read from end to end. */
export interface RegistryInstruments {
  /** Without what is taken over from it. */
  readonly listing: Omit<WholeListing, "pages" | "info">;
  readonly ids: readonly string[];
  readonly texts: readonly string[];
  /** Where each id stands in {@link texts}. */
  readonly indexes: ReadonlyMap<string, number>;
  readonly index: SearchIndex;
  /** Characters of all texts, and what each costs besides. */
  readonly size: number;
  readonly supportedApis: object | undefined;
}

/**
 * Takes the instruments out of a listing.
 *
 * @param maxSize characters beyond which instruments are left out; the listing then does not count as whole
 * @param previous what was made of the same registry before: where no page has changed, its index is used again
 */
async function takeInstruments(
  { pages, info, ...listing }: WholeListing,
  maxSize: number,
  previous: RegistryInstruments | undefined,
): Promise<RegistryInstruments> {
  const supportedApis = info?.body === undefined ? undefined : readSupportedApis(info.body);
  if (previous?.listing.isWhole === true && previous.listing.digest === listing.digest && listing.isWhole) {
    return { ...previous, listing, supportedApis };
  }
  const texts: string[] = [];
  const indexes = new Map<string, number>();
  const index = new SearchIndex();
  let size = 0;
  const taken = (isWhole: boolean): RegistryInstruments => {
    return { listing: { ...listing, isWhole }, ids: [...indexes.keys()], texts, indexes, index, size, supportedApis };
  };
  let batch = 0;
  for (const page of pages) {
    for (const [at, id] of page.ids.entries()) {
      const text = page.text(at);
      const cost = text.length + OVERHEAD;
      batch += cost;
      if (batch > BATCH) {
        await setImmediate();
        batch = 0;
      }
      // An overlapping page repeats the end of the one before it.
      if (indexes.has(id)) continue;
      if (size + cost > maxSize) return taken(false);
      size += cost;
      indexes.set(id, texts.length);
      texts.push(text);
      index.add({ id, name: page.names[at]!, symbol: page.symbols[at]!, isPaused: page.paused[at]! });
    }
  }
  return taken(listing.isWhole);
}

/** What they say about an answer made of them: as old as the oldest page of the listing. */
export function partOf({ listing }: RegistryInstruments, now: Instant): Part {
  const ttl = Math.floor((listing.freshUntil - now) / 1000);
  return {
    age: Math.max(0, Math.floor((now - listing.asOf) / 1000)),
    ttl,
    outcome: ttl < 0 ? "stale" : "hit",
    fields: listing.cacheControl.flatMap((value) => ["cache-control", value]),
  };
}
