/** Stands for all parties, in the epochs of Redis as well. No party id is like it. */
export const EVERYBODY = "*";

/** Parties are those of the configuration; beyond so many a purge of one is a purge of all. */
const MOST_PARTIES = 10_000;

/** Later than any clock says (the year 33658): what is above is no epoch. */
const HIGHEST = 1e15;

/**
 * The known epochs by party, and one for all. An epoch only rises, and the higher one counts: replicas agree in whatever
 * order they learn of them. It is a time of the wall clock, so that one that nobody remembers is below the next.
 */
export class Epochs {
  private readonly known = new Map<string, number>();

  of(party: string): number {
    return Math.max(this.known.get(party) ?? 0, this.known.get(EVERYBODY) ?? 0);
  }

  /** Begins the next epoch of a party, or of {@link EVERYBODY}: above all that is known of those whose it is. */
  raise(party: string, wallNow: number): number {
    const known = party === EVERYBODY ? Math.max(0, ...this.known.values()) : this.of(party);
    const epoch = Math.max(known + 1, Math.floor(wallNow));
    this.learn(party, epoch);
    return epoch;
  }

  /** Takes an epoch that another replica began; one that is lower, or none at all, changes nothing. */
  learn(party: string, epoch: number): void {
    if (!Number.isSafeInteger(epoch) || epoch > HIGHEST) return;
    const whose = this.known.has(party) || this.known.size < MOST_PARTIES ? party : EVERYBODY;
    if (epoch > (this.known.get(whose) ?? 0)) this.known.set(whose, epoch);
  }

  /** Those that `stored` has not, or has lower: somebody lost them. */
  missingIn(stored: Readonly<Record<string, string>>): [party: string, epoch: number][] {
    return [...this.known].filter(([party, epoch]) => !(Number(stored[party]) >= epoch));
  }
}
