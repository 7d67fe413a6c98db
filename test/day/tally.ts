import type { Verdict } from "./truth.ts";

/** What became of some requests. */
export interface Outcome extends Readonly<Record<Verdict, number>> {
  /** Milliseconds until right answers were there. */
  readonly p50: number;
  readonly p95: number;
  readonly p99: number;
  /** How many errors were of each status; 0: no answer. */
  readonly statuses: Readonly<Record<number, number>>;
}

/** One answered request. */
export interface Noted {
  readonly verdict: Verdict;
  readonly latency: number;
  readonly status: number;
}

/** Counts requests while they are answered. */
export class Tally {
  private readonly verdicts: Record<Verdict, number> = { right: 0, error: 0, wrong: 0, stale: 0 };
  private readonly latencies: number[] = [];
  private readonly statuses: Record<number, number> = {};

  note({ verdict, latency, status }: Noted): void {
    this.verdicts[verdict] += 1;
    if (verdict === "right") this.latencies.push(latency);
    if (verdict === "error") this.statuses[status] = (this.statuses[status] ?? 0) + 1;
  }

  outcome(): Outcome {
    const sorted = Float64Array.from(this.latencies).sort();
    const quantile = (share: number) => sorted[Math.ceil(sorted.length * share) - 1] ?? 0;
    const { verdicts, statuses } = this;
    return { ...verdicts, p50: quantile(0.5), p95: quantile(0.95), p99: quantile(0.99), statuses };
  }
}

/** One tally for each name, made when it is first asked for. */
export class Tallies {
  private readonly byName = new Map<string, Tally>();

  note(names: readonly string[], noted: Noted): void {
    for (const name of names) {
      let tally = this.byName.get(name);
      if (tally === undefined) this.byName.set(name, (tally = new Tally()));
      tally.note(noted);
    }
  }

  outcomes(): Readonly<Record<string, Outcome>> {
    return Object.fromEntries([...this.byName].map(([name, tally]) => [name, tally.outcome()]));
  }
}
