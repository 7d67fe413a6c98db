import type { Clock, Duration } from "../clock.ts";
import { Recurrence } from "../recurrence.ts";
import { type Candidate, problemOf } from "./candidate.ts";
import { type Pin, proposalDigest } from "./pin.ts";
import type { MendedUrl } from "./prober.ts";
import type { RegistryState } from "./report.ts";

/** `partial`: some sources, or registries that they list, could not be read or proved. */
export const RUN_OUTCOMES = ["success", "partial", "failure"] as const;
export type RunOutcome = (typeof RUN_OUTCOMES)[number];

/** What is reported of a registry. */
export interface RegistryEvent {
  readonly name: string;
  readonly admin: string;
  readonly source: string;
  readonly nodes: number;
}

/** Is notified of what discovery does; for metrics and logs. Must not throw. */
export interface DiscoveryObserver {
  ran(outcome: RunOutcome): void;
  /** `fault`: a sentence; undefined: it was read. `isNew`: worth a line. */
  sourceRead(source: string, look: { readonly fault: string | undefined; readonly isNew: boolean }): void;
  /** A source lists fewer registries than before: those that are used stay. */
  sourceShrank(source: string, before: number, now: number): void;
  /** These are the sources from now on, and they are read so often. */
  sources(names: readonly string[], every: Duration): void;
  /** A search has ended: what it said of sources, registries and the file of the pins is so no more. */
  ended(): void;
  registries(counts: Readonly<Record<RegistryState, number>>): void;
  /** A registry is used from now on, or at other URLs. */
  pinned(event: RegistryEvent): void;
  /** A URL is published wrongly, and used as it was meant. */
  mended(name: string, url: MendedUrl): void;
  /** What is listed waits for an operator. */
  waiting(event: RegistryEvent): void;
  /** A URL that is listed for the registry is one of another admin. */
  stranger(name: string, named: string): void;
  /** Nothing at the URLs of a registry has proved its admin. */
  unproved(name: string, why: string): void;
  /** More registries are listed than may be used. */
  tooMany(max: number, listed: number): void;
  /** URLs that a reading did not ask, since their hosts were asked enough. */
  unasked(urls: number): void;
  /** The file of the pins: what is wrong with it; undefined: nothing any more. */
  pinFile(fault: string | undefined): void;
  /** There was no file of pins at the start; `fromRedis` pins came from what replicas share. */
  pinsBegunAnew(fromRedis: number): void;
  /** What was found cannot be put to use. */
  failed(why: string): void;
}

/** The same about the same registry is reported no more often: lists that go back and forth do not fill the log. */
const REMINDER: Duration = 3_600_000;
const MOST_REMEMBERED = 4_000;

/** Reports what becomes of registries, each thing once. */
export class DiscoveryEvents {
  private readonly observer: DiscoveryObserver;
  private readonly faulty = new Set<string>();
  private readonly recurrence: Recurrence;

  constructor(clock: Clock, observer: DiscoveryObserver) {
    this.observer = observer;
    this.recurrence = new Recurrence(clock, { every: REMINDER, most: MOST_REMEMBERED });
  }

  /** A source was read, or could not be: a fault is new when it begins, and when it is over. */
  sourceRead(source: string, fault: string | undefined): void {
    const isOver = fault === undefined && this.faulty.delete(source);
    const begins = fault !== undefined && !this.faulty.has(source) && this.recurrence.isDue(`fault ${source}`);
    if (begins) this.faulty.add(source);
    this.observer.sourceRead(source, { fault, isNew: isOver || begins });
  }

  sourceShrank(source: string, before: number, now: number): void {
    if (now < before && this.recurrence.isDue(`shrank ${source}`)) this.observer.sourceShrank(source, before, now);
  }

  pinned({ name, admin, source, urls, mended }: Pin): void {
    if (this.recurrence.isDue(`pinned ${admin} ${proposalDigest(urls)}`)) {
      this.observer.pinned({ name, admin, source, nodes: urls.length });
    }
    for (const url of mended) if (this.recurrence.isDue(`mended ${admin} ${url.from}`)) this.observer.mended(name, url);
  }

  /** What came of looking at a registry. */
  looked({ admin, name, offer, proof }: Candidate, isWaiting: boolean): void {
    if (offer === undefined) return;
    if (isWaiting && this.recurrence.isDue(`waiting ${admin}`)) {
      this.observer.waiting({ name, admin, source: offer.source, nodes: offer.urls.length });
    }
    const [reportedAt] = proof?.strangers.values() ?? [];
    if (reportedAt !== undefined && this.recurrence.isDue(`stranger ${admin}`))
      this.observer.stranger(name, reportedAt);
    // One that was not asked at all is said with all of them.
    const problem = proof?.unasked === offer.urls.length ? undefined : problemOf(proof);
    if (problem !== undefined && this.recurrence.isDue(`unproved ${admin}`)) this.observer.unproved(name, problem);
  }

  surplus(max: number, surplus: number): void {
    if (surplus > 0 && this.recurrence.isDue("surplus")) this.observer.tooMany(max, max + surplus);
  }

  /** URLs were not asked in a reading. */
  unasked(count: number): void {
    if (count > 0 && this.recurrence.isDue("unasked")) this.observer.unasked(count);
  }
}
