import { Counter, type CounterConfiguration } from "@prometheus-io/client";

/** An amount that grows for the price of an addition. */
export class Tally {
  private pending = 0;

  add(amount: number): void {
    this.pending += amount;
  }

  /** What was added since the last time. */
  take(): number {
    const { pending } = this;
    this.pending = 0;
    return pending;
  }
}

/**
 * A counter for the hit path: finding a child by its labels costs more than the rest of a memory hit's bookkeeping, so
 * what is counted there gathers in tallies and moves into the counter when it is read.
 */
export class TalliedCounter extends Counter<string> {
  private readonly tallies: { readonly labels: Readonly<Record<string, string>>; readonly tally: Tally }[] = [];

  constructor(configuration: CounterConfiguration<string>) {
    super({
      ...configuration,
      collect() {
        (this as TalliedCounter).gather();
      },
    });
  }

  /** A new tally of the child with these labels. Take one for each set of labels and keep it. */
  tally(labels: Readonly<Record<string, string>>): Tally {
    const tally = new Tally();
    this.tallies.push({ labels, tally });
    return tally;
  }

  /** Lets go of the tallies whose labels match. */
  dropTallies(isDropped: (labels: Readonly<Record<string, string>>) => boolean): void {
    const kept = this.tallies.filter(({ labels }) => !isDropped(labels));
    this.tallies.splice(0, this.tallies.length, ...kept);
  }

  private gather(): void {
    for (const { labels, tally } of this.tallies) {
      const amount = tally.take();
      if (amount > 0) this.inc({ ...labels }, amount);
    }
  }
}
