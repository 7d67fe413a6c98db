import type { Clock, Duration, Instant } from "../../clock.ts";
import { digestOf } from "../../digest.ts";
import { BASE, type Epoch, type Epochs, type Raised } from "../epochs.ts";

/** No request waits longer for Redis. */
export const MAX_WAIT: Duration = 50;

const FIRST_PAUSE: Duration = 250;
const MAX_PAUSE: Duration = 1_000;

/** After this long without a failure, the next failure counts as the first. */
const STEADY: Duration = 10_000;

/**
 * The breaker before a part of Redis that fails as one: a server, or the shard of one partition in a cluster. The first
 * failure ends its session; what was learned in an earlier session has to be learned again before it counts.
 */
export class CircuitBreaker {
  private readonly clock: Clock;
  private sessionNumber = 1;
  private failures = 0;
  private steadySince: Instant | undefined;
  private pauseUntil: Instant = -Infinity;

  constructor(clock: Clock) {
    this.clock = clock;
  }

  /** Changes with every failure. */
  get session(): number {
    return this.sessionNumber;
  }

  /** Whether it may be tried (again) now. */
  get mayTry(): boolean {
    return this.clock.now() >= this.pauseUntil;
  }

  /** Notes a failure of something begun in `session`; those of an earlier session are known already. */
  fail(session: number): void {
    if (session !== this.sessionNumber) return;
    const now = this.clock.now();
    if (this.steadySince !== undefined && now - this.steadySince > STEADY) this.failures = 0;
    this.sessionNumber += 1;
    this.pauseUntil = now + Math.min(FIRST_PAUSE * 2 ** this.failures, MAX_PAUSE);
    this.steadySince = undefined;
    this.failures = Math.min(this.failures + 1, 10);
  }

  /** Notes a success of something begun in `session`; false when it failed in between. */
  regain(session: number): boolean {
    if (session !== this.sessionNumber) return false;
    this.steadySince ??= this.clock.now();
    return true;
  }

  /** A new connection: nothing known holds, and it may be tried at once. */
  reset(): void {
    this.sessionNumber += 1;
    this.steadySince = undefined;
    this.pauseUntil = -Infinity;
  }
}

/** One a registry, some kB each; the bound is for admins that come and go. */
const MAX_VIEWS = 16_384;

/** Stands for all partitions at once among tags. */
const EVERYWHERE = "*";

/** A text in Redis, and the epoch in it; undefined where it is none of ours. */
interface OpenedEpoch {
  readonly text: string;
  /** Of the seal keys. */
  readonly version: object | undefined;
  readonly epoch: Epoch | undefined;
  readonly isOutdated: boolean;
}

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
  /** When to read them again. */
  dueAt: Instant;
  /** A message came before the epochs were known. */
  missedMessage: boolean;
  reading: Promise<void> | undefined;
  flushing: Promise<void> | undefined;
  /** Redis's clock is at least this far ahead of ours. */
  clockOffset: number;
  /** What was last found there of each scope: opening it again costs more than comparing its text. */
  readonly opened: Map<string, OpenedEpoch>;
  /** When epochs may be sealed with another key. */
  sealAgainAt: Instant;
  /** Purges that are not in Redis yet. */
  readonly pending: Map<string, Epoch>;
  /** Asked for since one was last dropped to make room. */
  isInUse: boolean;
}

/** Whether what was read of the partition holds: nothing failed since. */
export function isCurrent(view: PartitionView): boolean {
  return view.session === view.breaker.session;
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
  private readonly newBreaker: () => CircuitBreaker;
  private readonly views = new Map<string, PartitionView>();
  private readonly tags = new Map<string, PartitionView>();

  constructor({ epochs, clock, isCluster }: PartitionViewsOptions) {
    const common = new CircuitBreaker(clock);
    this.epochs = epochs;
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
      dueAt: -Infinity,
      missedMessage: false,
      reading: undefined,
      flushing: undefined,
      clockOffset: 0,
      opened: new Map(),
      sealAgainAt: -Infinity,
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
