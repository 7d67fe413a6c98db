import type { Clock } from "../clock.ts";
import type { Coordinator } from "../coordination/coordinator.ts";
import { listingEpoch, type RegistryWalk } from "../registry/registry-walk.ts";
import { fillShelf, type Shelf, shelfPart } from "./catalogue-shelf.ts";
import type { Member } from "./registries.ts";
import type { KnownInstruments, Listed } from "./single-instrument.ts";

/** What the instruments may cost that are kept in all, see {@link Shelf.size}. */
const MAX_SIZE = 128 * 1024 * 1024;

/** Shelves of registries that were configured at some time; the least recently filled go first. */
const MAX_SHELVES = 1_000;

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
  private readonly shelves = new Map<string, Shelf>();

  constructor({ clock, coordinator }: CatalogueOptions) {
    this.clock = clock;
    this.coordinator = coordinator;
  }

  /** Takes in what the walker has read. */
  async take(walk: RegistryWalk): Promise<void> {
    const previous = this.shelves.get(walk.admin);
    const others = this.size - (previous?.size ?? 0);
    const shelf = await fillShelf(walk, MAX_SIZE - others, previous);
    this.shelves.delete(walk.admin);
    this.shelves.set(walk.admin, shelf);
    const [oldest] = this.shelves.keys();
    if (this.shelves.size > MAX_SHELVES && oldest !== undefined) this.shelves.delete(oldest);
  }

  /** What is known of a registry, unless it was purged since, or is older than could be served were it a page. */
  shelfOf({ upstream: { admin, config } }: Member): Shelf | undefined {
    const shelf = admin === undefined ? undefined : this.shelves.get(admin);
    if (shelf === undefined || shelf.walk.epoch !== listingEpoch(this.coordinator, shelf.walk.admin)) {
      return undefined;
    }
    return this.clock.now() < shelf.walk.freshUntil + config.cache.staleIfError ? shelf : undefined;
  }

  /** What can be said about one id without asking any registry. */
  known(members: readonly Member[], id: string): KnownInstruments {
    const now = this.clock.now();
    const fresh = new Map<Member, Listed>();
    const seen = new Set<Member>();
    for (const member of members) {
      const shelf = this.shelfOf(member);
      if (shelf === undefined) continue;
      const place = shelf.places.get(id);
      if (place !== undefined) seen.add(member);
      if (!shelf.walk.isWhole || now >= shelf.walk.freshUntil) continue;
      const text = place === undefined ? undefined : shelf.texts[place]!;
      fresh.set(member, { text, part: shelfPart(shelf, now) });
    }
    return { fresh, seen };
  }

  /** What the instruments that are kept cost: about as many bytes. */
  get size(): number {
    let size = 0;
    for (const shelf of this.shelves.values()) size += shelf.size;
    return size;
  }
}
