import { LRUCache } from "lru-cache";
import type { Clock, Duration } from "../clock.ts";
import { type Candidate, problemOf } from "./candidate.ts";
import type { DiscoveryObserver } from "./observer.ts";
import { type Pin, proposalDigest } from "./pin.ts";

/** The same about the same registry is reported no more often: lists that go back and forth do not fill the log. */
const REMINDER: Duration = 3_600_000;
const MOST_REMEMBERED = 4_000;

/** Reports what becomes of registries, each thing once. */
export class DiscoveryEvents {
  private readonly clock: Clock;
  private readonly observer: DiscoveryObserver;
  private readonly reportedAt = new LRUCache<string, number>({ maxSize: MOST_REMEMBERED, sizeCalculation: () => 1 });

  constructor(clock: Clock, observer: DiscoveryObserver) {
    this.clock = clock;
    this.observer = observer;
  }

  pinned({ name, admin, source, urls, mended }: Pin): void {
    if (this.isDue(`pinned ${admin} ${proposalDigest(urls)}`)) {
      this.observer.pinned({ name, admin, source, nodes: urls.length });
    }
    for (const url of mended) if (this.isDue(`mended ${admin} ${url.from}`)) this.observer.mended(name, url);
  }

  /** What came of looking at a registry. */
  looked({ admin, name, offer, proof }: Candidate, isWaiting: boolean): void {
    if (offer === undefined) return;
    if (isWaiting && this.isDue(`waiting ${admin}`)) {
      this.observer.waiting({ name, admin, source: offer.source, nodes: offer.urls.length });
    }
    const [reportedAt] = proof?.strangers.values() ?? [];
    if (reportedAt !== undefined && this.isDue(`stranger ${admin}`)) this.observer.stranger(name, reportedAt);
    // One that was not asked at all is said with all of them.
    const problem = proof?.unasked === offer.urls.length ? undefined : problemOf(proof);
    if (problem !== undefined && this.isDue(`unproved ${admin}`)) this.observer.unproved(name, problem);
  }

  surplus(max: number, surplus: number): void {
    if (surplus > 0 && this.isDue("surplus")) this.observer.tooMany(max, max + surplus);
  }

  /** So many URLs were not asked in a reading. */
  unasked(count: number): void {
    if (count > 0 && this.isDue("unasked")) this.observer.unasked(count);
  }

  private isDue(what: string): boolean {
    const now = this.clock.now();
    if (now - (this.reportedAt.get(what) ?? -Infinity) < REMINDER) return false;
    this.reportedAt.set(what, now);
    return true;
  }
}
