/** Name that stands for all parties, in Redis as well. It is no party id. */
export const EVERYBODY = "*";

/** Parties and groups that are remembered; beyond it a purge of one is a purge of all. */
const MOST_PARTIES = 10_000;

/** Highest epoch, later than any clock says (the year 33658). */
const HIGHEST = 1e15;

/**
 * The known epochs by party, and one for all. An epoch only rises, and the higher one counts: replicas agree in whatever
 * order they learn of them. Epochs are times of the wall clock: where all forget one, the next is above it all the same.
 */
export class Epochs {
  private readonly known = new Map<string, number>();

  of(party: string): number {
    return Math.max(this.known.get(party) ?? 0, this.known.get(EVERYBODY) ?? 0);
  }

  /** Gives the next epoch of a party, or of {@link EVERYBODY}: above all that are known of whom it concerns. */
  next(party: string, wallNow: number): number {
    const known = party === EVERYBODY ? Math.max(0, ...this.known.values()) : this.of(party);
    return Math.max(known + 1, Math.floor(wallNow));
  }

  /** Begins the next epoch. */
  raise(party: string, wallNow: number): number {
    const epoch = this.next(party, wallNow);
    this.learn(party, epoch);
    return epoch;
  }

  /** Takes an epoch that another replica began; one that is lower, or none at all, changes nothing. */
  learn(party: string, epoch: number): void {
    if (!Number.isSafeInteger(epoch) || epoch > HIGHEST) return;
    const whose = this.known.has(party) || this.known.size < MOST_PARTIES ? party : EVERYBODY;
    if (epoch > (this.known.get(whose) ?? 0)) this.known.set(whose, epoch);
  }

  /** Epochs that `stored` lacks, or has lower: Redis lost them. */
  missingIn(stored: Readonly<Record<string, string>>): [party: string, epoch: number][] {
    return [...this.known].filter(([party, epoch]) => !(Number(stored[party]) >= epoch));
  }
}
