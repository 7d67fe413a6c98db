import type { Clock, Duration, Instant } from "../../clock.ts";
import { digestOf } from "../../digest.ts";
import { BASE, type Epoch, type Epochs, isEpoch, type Raised } from "../epochs.ts";
import { CircuitBreaker } from "./circuit-breaker.ts";
import type { Keys } from "./keys.ts";
import { newTable, type Table } from "./tables.ts";

/** No request waits longer for Redis. */
export const MAX_WAIT: Duration = 50;

/** One a registry, some kB each; the bound is for admins that come and go. */
const MAX_VIEWS = 16_384;

/** Stands for all partitions at once among tags. */
const EVERYWHERE = "*";

/** One partition's epochs in Redis as seen from here; of all partitions at once where `partition` is undefined. */
export interface PartitionView {
  readonly partition: string | undefined;
  /** Stands for the partition in keys and messages. */
  readonly tag: string;
  readonly breaker: CircuitBreaker;
  /** Its epochs have come from Redis, or gone there, at least once. */
  isKnown: boolean;
  /** The session of `breaker` in which they were last read. */
  session: number;
  /** When they were last read, by Redis's clock (Unix ms); -Infinity before. */
  readAt: Instant;
  /** When to read them again. */
  dueAt: Instant;
  /** A message came before the epochs were known. */
  missedMessage: boolean;
  /** How often this process stood still, and how often when a reading began that has ended: see {@link isDoubtful}. */
  stalls: number;
  settledStalls: number;
  reading: Promise<void> | undefined;
  flushing: Promise<void> | undefined;
  /** Redis's clock is at least this far ahead of ours. */
  clockOffset: number;
  /** The epochs in Redis: scope → epoch. */
  readonly table: Table;
  /** A key at which Redis failed a request: it has to take a write there before it is usable again. */
  failedKey: string | undefined;
  /** Purges that are not in Redis yet. */
  readonly pending: Map<string, Epoch>;
  /** Asked for since one was last dropped to make room. */
  isInUse: boolean;
}

/** Whether what was read of the partition holds: nothing failed since. */
export function isCurrent(view: PartitionView): boolean {
  return view.session === view.breaker.session;
}

/** This process stood still and has not read the epochs since: others may have purged, and wait for it. */
export function isDoubtful({ stalls, settledStalls }: PartitionView): boolean {
  return stalls !== settledStalls;
}

/** Notes a purge that has to go to Redis. */
export function notePending(view: PartitionView, { scope, epoch }: Raised): void {
  // A new base covers all purges within its partition.
  if (scope === BASE) view.pending.clear();
  view.pending.set(scope, epoch);
}

export interface PartitionViewsOptions {
  epochs: Epochs;
  clock: Clock;
  keys: Pick<Keys, "epochs">;
  /** Partitions lie on shards that fail alone. */
  isCluster: boolean;
}

/** The views of all partitions in use here. */
export class PartitionViews {
  /** Of all partitions at once. */
  readonly everywhere: PartitionView;
  /** Before leases and facts, which belong to no partition and in a cluster lie on any shard. */
  readonly elsewhere: CircuitBreaker;
  private readonly epochs: Epochs;
  private readonly keys: Pick<Keys, "epochs">;
  private readonly newBreaker: () => CircuitBreaker;
  private readonly views = new Map<string, PartitionView>();
  private readonly tags = new Map<string, PartitionView>();

  constructor({ epochs, clock, keys, isCluster }: PartitionViewsOptions) {
    const common = new CircuitBreaker(clock);
    this.epochs = epochs;
    this.keys = keys;
    this.newBreaker = () => (isCluster ? new CircuitBreaker(clock) : common);
    this.elsewhere = this.newBreaker();
    this.everywhere = this.newView(undefined, EVERYWHERE);
    this.tags.set(EVERYWHERE, this.everywhere);
  }

  /** The view of a partition, new when it is asked for the first time. */
  of(partition: string | undefined): PartitionView {
    if (partition === undefined) return this.everywhere;
    let view = this.views.get(partition);
    if (view === undefined) {
      if (this.views.size >= MAX_VIEWS) this.dropOldest();
      view = this.newView(partition, digestOf(partition));
      this.views.set(partition, view);
      this.tags.set(view.tag, view);
    }
    view.isInUse = true;
    return view;
  }

  /** The view behind a tag of a message; undefined where the partition is not in use here. */
  tagged(tag: string): PartitionView | undefined {
    return this.tags.get(tag);
  }

  all(): IterableIterator<PartitionView> {
    return this.tags.values();
  }

  private newView(partition: string | undefined, tag: string): PartitionView {
    return {
      partition,
      tag,
      breaker: this.newBreaker(),
      isKnown: false,
      session: 0,
      readAt: -Infinity,
      dueAt: -Infinity,
      missedMessage: false,
      stalls: 0,
      settledStalls: 0,
      reading: undefined,
      flushing: undefined,
      clockOffset: 0,
      // Without a version: replicas of earlier releases write there, too.
      table: newTable({
        kind: "epoch",
        key: this.keys.epochs(tag),
        isVersioned: false,
        accepts: (_scope, plain) => isEpoch(plain),
      }),
      failedKey: undefined,
      pending: new Map(),
      isInUse: false,
    };
  }

  /** Makes room: the first that was not in use since it was last passed over goes. */
  private dropOldest(): void {
    let left = 2 * this.views.size;
    for (const [partition, view] of this.views) {
      // All of them have purges that wait for Redis.
      if (left === 0) return;
      left -= 1;
      if (!view.isInUse && view.pending.size === 0) {
        this.views.delete(partition);
        this.tags.delete(view.tag);
        // Its epochs are not kept up to date from now on, so nothing stored under them may be used.
        this.epochs.renew(partition);
        return;
      }
      // A second chance, behind the others; what comes first then was passed over before.
      view.isInUse = false;
      this.views.delete(partition);
      this.views.set(partition, view);
    }
  }
}
