import type { AbortSignalLike, Clock } from "../clock.ts";
import type { Offer } from "./candidate.ts";
import type { DiscoveryObserver, SourceReport } from "./report.ts";
import type { Listing, Source } from "./sources.ts";

interface SourceReading {
  readonly source: Source;
  /** The last good one. */
  listing: Listing | undefined;
  /** Wall-clock time. */
  lastRun: number | undefined;
  lastError: string | undefined;
  /** The last reading was good, whatever is undecided in it. */
  isRead: boolean;
}

/** The sources with what each said last: one that cannot be read still says what it said before. */
export class SourceReadings {
  private readonly readings: readonly SourceReading[];
  private readonly clock: Clock;
  private readonly observer: DiscoveryObserver;

  constructor(sources: readonly Source[], clock: Clock, observer: DiscoveryObserver) {
    this.clock = clock;
    this.observer = observer;
    this.readings = sources.map((source) => ({
      source,
      listing: undefined,
      lastRun: undefined,
      lastError: undefined,
      isRead: false,
    }));
  }

  /** Each source was read at least once. */
  get areRead(): boolean {
    return this.readings.every(({ listing }) => listing !== undefined);
  }

  get faults(): number {
    return this.readings.filter(({ lastError }) => lastError !== undefined).length;
  }

  get size(): number {
    return this.readings.length;
  }

  /** Reads all of them anew. Never rejects. */
  async read(signal: AbortSignalLike): Promise<void> {
    await Promise.all(this.readings.map((reading) => this.readOne(reading, signal)));
  }

  /** What is listed for each admin: by the source that it was found by, if that one still does, else by the first. */
  offers(foundBy: (admin: string) => string | undefined): Map<string, Offer> {
    const offers = new Map<string, Offer>();
    for (const { source, listing, isRead } of this.readings) {
      for (const [admin, urls] of listing?.registries ?? []) {
        const isFirst = !offers.has(admin);
        if (isFirst || foundBy(admin) === source.name) offers.set(admin, { urls, source: source.name, isRead });
      }
    }
    return offers;
  }

  report(): SourceReport[] {
    return this.readings.map(({ source, listing, lastRun, lastError }) => ({
      name: source.name,
      lastRun: lastRun === undefined ? null : new Date(lastRun).toISOString(),
      lastError: lastError ?? null,
      found: listing?.registries.size ?? 0,
    }));
  }

  private async readOne(reading: SourceReading, signal: AbortSignalLike): Promise<void> {
    const { source, listing: before } = reading;
    let fault: string | undefined;
    reading.isRead = false;
    try {
      const listing = await source.read(signal);
      if (signal.aborted) return;
      reading.listing = withUndecided(listing, before);
      reading.isRead = true;
      // What is left out of a list for good is no reason to read it again sooner.
      fault = listing.undecided.size === 0 ? undefined : listing.problems[0];
      const [had, has] = [before?.registries.size ?? 0, reading.listing.registries.size];
      if (has < had) this.observer.sourceShrank(source.name, had, has);
    } catch (error) {
      if (signal.aborted) return;
      fault = (error as Error).message;
    }
    reading.lastRun = this.clock.wallNow();
    reading.lastError = fault;
    this.observer.sourceRead(source.name, fault);
  }
}

/** What could not be found out this time is as it was. */
function withUndecided(listing: Listing, before: Listing | undefined): Listing {
  const kept = [...listing.undecided].flatMap((admin) => {
    const urls = before?.registries.get(admin);
    return urls === undefined ? [] : [[admin, urls] as const];
  });
  return kept.length === 0 ? listing : { ...listing, registries: new Map([...listing.registries, ...kept]) };
}
