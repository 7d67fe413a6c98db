/** More purges than this are forgotten by purging everything. */
const MAX_PURGES = 4_096;

/** One purge: who did it and which of theirs it was, what it was about. */
export interface Purge {
  readonly by: string;
  readonly count: number;
  /** Undefined: every partition. */
  readonly partition: string | undefined;
  readonly scopes: readonly string[];
}

/** All that was purged, for a process that joins. */
export interface PurgeRecord {
  readonly base: number;
  readonly purges: readonly Purge[];
}

/** The purges of one scope, as part of a generation. */
type Mark = Map<string, number>;

/**
 * What was purged on this machine. The processes know the same purges, though not at the same instant and in the same
 * order; who knows the same ones has the same generations, so that an entry is good in one process exactly when it is
 * in another that has heard of the same purges.
 */
export class ClusterEpochs {
  private base = 0;
  private size = 0;
  private readonly everywhere = new Map<string, Mark>();
  private readonly partitions = new Map<string, Map<string, Mark>>();

  /** Equal strings mean: nothing of this was purged in between. */
  generation(partition: string, scopes: readonly string[]): string {
    const own = this.partitions.get(partition);
    if (own === undefined && this.everywhere.size === 0) return String(this.base);
    let generation = String(this.base);
    for (const scope of scopes) {
      const mark = own?.get(scope);
      if (mark !== undefined) generation += `,${scope}:${textOf(mark)}`;
      const common = this.everywhere.get(scope);
      if (common !== undefined) generation += `;${scope}:${textOf(common)}`;
    }
    return generation;
  }

  /** Notes a purge; noting it again changes nothing. */
  note({ by, count, partition, scopes }: Purge): void {
    const share = this.shareOf(partition);
    for (const scope of scopes) {
      const mark = share.get(scope) ?? new Map<string, number>();
      if (!mark.has(by)) this.size += 1;
      mark.set(by, Math.max(count, mark.get(by) ?? 0));
      share.set(scope, mark);
    }
  }

  /** Whether there is too much to remember; see {@link ClusterEpochs.renew}. */
  get isFull(): boolean {
    return this.size > MAX_PURGES;
  }

  /** Purges everything, and with it all that was remembered of earlier purges. */
  renew(base: number = this.base + 1): void {
    if (base <= this.base) return;
    this.base = base;
    this.size = 0;
    this.everywhere.clear();
    this.partitions.clear();
  }

  record(): PurgeRecord {
    const purges: Purge[] = [];
    const shares: [string | undefined, Map<string, Mark>][] = [[undefined, this.everywhere], ...this.partitions];
    for (const [partition, share] of shares) {
      for (const [scope, mark] of share) {
        for (const [by, count] of mark) purges.push({ by, count, partition, scopes: [scope] });
      }
    }
    return { base: this.base, purges };
  }

  /** Learns what another process knew. */
  learn({ base, purges }: PurgeRecord): void {
    this.renew(base);
    for (const purge of purges) this.note(purge);
  }

  private shareOf(partition: string | undefined): Map<string, Mark> {
    if (partition === undefined) return this.everywhere;
    const share = this.partitions.get(partition) ?? new Map<string, Mark>();
    this.partitions.set(partition, share);
    return share;
  }
}

function textOf(mark: Mark): string {
  if (mark.size === 1) {
    for (const [by, count] of mark) return `${by}${count}`;
  }
  return [...mark]
    .map(([by, count]) => `${by}${count}`)
    .sort()
    .join("+");
}
