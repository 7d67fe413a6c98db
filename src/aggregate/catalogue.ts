import { setImmediate } from "node:timers/promises";
import type { Clock, Instant } from "../clock.ts";
import type { EpochsPort } from "../sharing/ports.ts";
import type { RegistryMetadata } from "../registry/registry-metadata.ts";
import { type ListingBound, listingEpoch, softened, type WholeListing } from "../registry/whole-listing.ts";
import type { Upstreams } from "../upstream/upstreams.ts";
import type { Part } from "./composed-answer.ts";
import { readSupportedApis } from "./merged-info.ts";
import { indexed, SearchIndex } from "./search-index.ts";
import type { KnownListings } from "./single-instrument.ts";

/** What the instruments may cost that are kept in all, see {@link RegistryInstruments.size}. */
const MAX_SIZE = 128 * 1024 * 1024;

export interface CatalogueOptions {
  readonly clock: Clock;
  readonly epochs: EpochsPort;
  /** As they are configured now. */
  readonly upstreams: () => Pick<Upstreams, "all" | "byAdmin">;
}

/** Why instruments of a registry are missing: its listing met a bound, or the catalogue as a whole is full. */
export type CutShortBy = ListingBound | "catalogue";

/**
 * All instruments of all registries as their listings were last read in the background. Kept by admin, so that it
 * outlives reloads.
 */
export class Catalogue {
  private readonly clock: Clock;
  private readonly epochs: EpochsPort;
  private readonly upstreams: CatalogueOptions["upstreams"];
  private readonly registries = new Map<string, RegistryInstruments>();
  private bytes = 0;
  private taking: Promise<unknown> = Promise.resolve();

  constructor({ clock, epochs, upstreams }: CatalogueOptions) {
    this.clock = clock;
    this.epochs = epochs;
    this.upstreams = upstreams;
  }

  /** Takes in what was read in the background: one listing after the other, for each gets the room that is left. */
  take(listing: WholeListing): Promise<RegistryInstruments> {
    const taken = this.taking.then(() => this.takeNext(listing));
    this.taking = taken.catch(() => undefined);
    return taken;
  }

  private async takeNext(listing: WholeListing): Promise<RegistryInstruments> {
    const { admin } = listing;
    if (this.isCrowdedBy(listing)) this.forgetUnserved();
    const previous = this.registries.get(admin);
    const room = MAX_SIZE - this.bytes + (previous?.size ?? 0);
    const instruments = await takeInstruments(listing, room, previous);
    this.forget(admin);
    this.registries.set(admin, instruments);
    this.bytes += instruments.size;
    return instruments;
  }

  /** What is kept of a registry, whether or not it may still be served; undefined: nothing. */
  kept(admin: string): { readonly instruments: number; readonly cutShortBy: CutShortBy | undefined } | undefined {
    const known = this.registries.get(admin);
    return known && { instruments: known.texts.length, cutShortBy: known.listing.cutShortBy };
  }

  /** Whether what was configured once may be in the way: asked seldom, as registries are many. */
  private isCrowdedBy({ admin, pages }: WholeListing): boolean {
    // What is searched of instruments is mostly shorter than they are.
    const cost = pages.reduce((sum, { body, ids }) => sum + 2 * body.length + OVERHEAD * ids.length, 0);
    if (this.bytes + cost > MAX_SIZE) return true;
    return !this.registries.has(admin) && this.registries.size >= 2 * this.upstreams().all.length;
  }

  /** Lets registries go that no upstream is any more. */
  private forgetUnserved(): void {
    const upstreams = this.upstreams();
    for (const admin of this.registries.keys()) if (upstreams.byAdmin(admin) === undefined) this.forget(admin);
  }

  private forget(admin: string): void {
    this.bytes -= this.registries.get(admin)?.size ?? 0;
    this.registries.delete(admin);
  }

  /** What is known of a registry, unless it is disabled, was purged since, or is older than its pages may be served. */
  instrumentsOf({ upstream: { admin, isDisabled } }: RegistryMetadata): RegistryInstruments | undefined {
    const known = admin === undefined || isDisabled ? undefined : this.registries.get(admin);
    if (known === undefined || known.listing.epoch !== listingEpoch(this.epochs, known.listing.admin)) {
      return undefined;
    }
    const listing = softened(known.listing, this.epochs, this.clock);
    return this.clock.now() < listing.usableUntil ? { ...known, listing } : undefined;
  }

  /** What can be said about one id without asking any registry. */
  known(registries: readonly RegistryMetadata[], id: string): KnownListings {
    const now = this.clock.now();
    const absent = new Map<RegistryMetadata, number>();
    const seen = new Set<RegistryMetadata>();
    for (const registry of registries) {
      const instruments = this.instrumentsOf(registry);
      if (instruments === undefined) continue;
      if (instruments.indexes.has(id)) seen.add(registry);
      else if (isWhole(instruments) && now < instruments.listing.freshUntil) {
        absent.set(registry, partOf(instruments, now).age);
      }
    }
    return { absent, seen };
  }

  /** What the instruments that are kept cost: about as many bytes. */
  get size(): number {
    return this.bytes;
  }
}

/** Characters of instruments that are taken in without letting anything else run: a few milliseconds' worth. */
const BATCH = 512 * 1024;

/** What an instrument costs besides its texts: slots in lists and maps. */
const OVERHEAD = 200;

/** The instruments of one registry as they were when its listing was last read from end to end. */
export interface RegistryInstruments {
  /** Without what is taken over from it. */
  readonly listing: Omit<WholeListing, "pages" | "info" | "cutShortBy"> & {
    readonly cutShortBy: CutShortBy | undefined;
  };
  readonly ids: readonly string[];
  readonly texts: readonly string[];
  /** Where each id stands in {@link texts}. */
  readonly indexes: ReadonlyMap<string, number>;
  readonly index: SearchIndex;
  /** Characters of all texts, twice those that are searched, and what each instrument costs besides. */
  readonly size: number;
  readonly supportedApis: object | undefined;
}

/** Whether they are all that the registry listed. */
export function isWhole({ listing }: RegistryInstruments): boolean {
  return listing.cutShortBy === undefined;
}

/**
 * Takes the instruments out of a listing.
 *
 * @param maxSize characters beyond which instruments are left out
 * @param previous what was made of the same registry before: where no page has changed, its index is used again
 */
async function takeInstruments(
  { pages, info, ...listing }: WholeListing,
  maxSize: number,
  previous: RegistryInstruments | undefined,
): Promise<RegistryInstruments> {
  const supportedApis = info?.body === undefined ? undefined : readSupportedApis(info.body);
  const isSame = previous?.listing.digest === listing.digest && listing.cutShortBy === undefined;
  if (isSame && isWhole(previous)) return { ...previous, listing, supportedApis };
  const texts: string[] = [];
  const indexes = new Map<string, number>();
  const index = new SearchIndex();
  let size = 0;
  const taken = (cutShortBy: CutShortBy | undefined): RegistryInstruments => {
    const ids = [...indexes.keys()];
    return { listing: { ...listing, cutShortBy }, ids, texts, indexes, index, size, supportedApis };
  };
  let batch = 0;
  for (const page of pages) {
    const { ids, names, symbols, paused } = page.parts;
    for (const [at, id] of ids.entries()) {
      const text = page.text(at);
      const instrument = indexed({ id, name: names[at]!, symbol: symbols[at]!, isPaused: paused[at]! });
      const cost = text.length + 2 * (id.length + instrument.text.length + instrument.symbol.length) + OVERHEAD;
      batch += cost;
      if (batch > BATCH) {
        await setImmediate();
        batch = 0;
      }
      // An overlapping page repeats the end of the one before it.
      if (indexes.has(id)) continue;
      if (size + cost > maxSize) return taken("catalogue");
      size += cost;
      indexes.set(id, texts.length);
      texts.push(text);
      index.add(instrument);
    }
  }
  return taken(listing.cutShortBy);
}

/** What they say about an answer made of them: as old as the oldest page of the listing. */
export function partOf({ listing }: RegistryInstruments, now: Instant): Part {
  const ttl = Math.floor((listing.freshUntil - now) / 1000);
  return {
    age: Math.max(0, Math.floor((now - listing.asOf) / 1000)),
    ttl,
    outcome: ttl < 0 ? "stale" : "hit",
    fields: listing.cacheControl.flatMap((value) => ["cache-control", value]),
    windowUsed: undefined,
  };
}
