import type { Clock, Duration } from "../../clock.ts";
import type { RedisLink } from "./link.ts";
import type { Message } from "./message.ts";
import type { RedisObserver } from "./observer.ts";
import type { PurgeReach } from "../coordinator.ts";
import { EpochExchange } from "./epoch-exchange.ts";
import { BASE, type Epoch, type Epochs, type EpochSet } from "../epochs.ts";
import { isTrusted, notePending, type PartitionView, PartitionViews } from "./partition-views.ts";
import { PAUSE } from "./circuit-breaker.ts";

/**
 * How often epochs are read again, for messages that were lost: a purge holds everywhere within 2 s. So often that it
 * does even when Redis loses it a moment later, and another replica has to find that out first.
 */
const REVALIDATE_EVERY: Duration = 500;

/** How often it is looked whether something is due. */
const TICK: Duration = 100;

/** A Redis that takes longer in the background is too slow to be asked by requests. */
const TOO_SLOW: Duration = 200;

export interface SharedEpochsOptions {
  link: RedisLink;
  epochs: Epochs;
  clock: Clock;
  observer: RedisObserver;
  /** Told when {@link SharedEpochs.isUsable} changed. */
  changed: (isUsable: boolean) => void;
}

/**
 * Keeps the epochs of this process and those in Redis the same: written when purged, told by message, read again in
 * short intervals and with every entry. Knows when Redis may be asked: only after the purges made without it are written there
 * and its epochs were read since the last trouble.
 */
export class SharedEpochs {
  private readonly link: RedisLink;
  private readonly epochs: Epochs;
  private readonly clock: Clock;
  private readonly observer: RedisObserver;
  private readonly changed: (isUsable: boolean) => void;
  private readonly exchange: EpochExchange;
  private readonly views: PartitionViews;
  private readonly whenUp = new Set<() => void>();
  private isUp = false;
  /** How long the last purge by another replica took to arrive; undefined before the first. */
  lastPurgeLag: Duration | undefined;
  private isClosed = false;

  constructor({ link, epochs, clock, observer, changed }: SharedEpochsOptions) {
    this.link = link;
    this.epochs = epochs;
    this.clock = clock;
    this.observer = observer;
    this.changed = changed;
    this.exchange = new EpochExchange(link, epochs, clock);
    this.views = new PartitionViews({ epochs, clock, isCluster: link.isCluster });
    this.tick();
  }

  /** Whether Redis is there, fast enough, and agrees with this process. */
  get isUsable(): boolean {
    return this.link.isConnected && isTrusted(this.views.everywhere);
  }

  /** Whether to ask for leases and facts, which in a cluster may lie on a shard that is gone. */
  get isUsableElsewhere(): boolean {
    return this.isUsable && this.views.elsewhere.mayTry;
  }

  /** Purges that wait for Redis. */
  get pendingPurges(): number {
    let pending = 0;
    for (const view of this.views.all()) pending += view.pending.size;
    return pending;
  }

  /** Resolves with true once {@link SharedEpochs.isUsable}, with false after `timeout`. */
  whenUsable(timeout: Duration): Promise<boolean> {
    if (this.isUsable) return Promise.resolve(true);
    return new Promise((resolve) => {
      const done = (): void => {
        cancel();
        this.whenUp.delete(done);
        resolve(this.isUsable);
      };
      const cancel = this.clock.after(timeout, done);
      this.whenUp.add(done);
    });
  }

  /** The view of a partition that may be read now, or undefined. What it says may still have to be {@link learn}ed. */
  readable(partition: string): PartitionView | undefined {
    const view = this.view(partition);
    if (!this.isUsable) return undefined;
    return (view.isKnown ? isTrusted(view) : view.trust.mayTry) ? view : undefined;
  }

  /** Reads the partition's epochs; sent now, so that what is sent afterwards sees nothing older. Never rejects. */
  learn(view: PartitionView): Promise<void> {
    view.reading ??= this.readAll(view).finally(() => {
      view.reading = undefined;
    });
    return view.reading;
  }

  /** Redis failed or kept a request waiting that was begun in `session` of the view's trust. */
  fail(view: PartitionView | undefined, session: number): void {
    (view ?? this.views.everywhere).trust.fail(session);
    this.noteState();
  }

  /** A lease or fact was not to be had, asked for in this session. */
  failElsewhere(session: number): void {
    this.views.elsewhere.fail(session);
    this.noteState();
  }

  /** The session to give to {@link SharedEpochs.failElsewhere}, taken before asking. */
  get sessionElsewhere(): number {
    return this.views.elsewhere.session;
  }

  /** The session to give to {@link SharedEpochs.fail}, taken before asking. */
  sessionOf(view: PartitionView | undefined): number {
    return (view ?? this.views.everywhere).trust.session;
  }

  /**
   * Takes over epochs that came with an entry: the base, then one of each scope (undefined: none). False when Redis
   * and this process do not agree and have to be brought together first, which then is under way.
   */
  observe(view: PartitionView, scopes: readonly string[], found: readonly (Epoch | undefined)[]): boolean {
    if (this.exchange.observe(view, scopes, found)) return true;
    void this.learn(view);
    return false;
  }

  /** The epochs of a partition as this process knows them. */
  read(view: PartitionView): EpochSet {
    return this.epochs.read(view.partition);
  }

  /** See {@link Coordinator.purge}. */
  async purge(partition: string | undefined, scopes: readonly string[]): Promise<PurgeReach> {
    const view = this.view(partition);
    for (const raised of this.epochs.raise(partition, scopes).raised) notePending(view, raised);
    if (!this.link.isConnected) return "pending";
    const { session } = view.trust;
    try {
      while (scopes.some((scope) => view.pending.has(scope)) || view.pending.has(BASE)) await this.exchange.flush(view);
      return "fleet";
    } catch {
      view.trust.fail(session);
      this.noteState();
      return "pending";
    }
  }

  received(message: Extract<Message, { kind: "epoch" }>): void {
    const view = this.views.tagged(message.tag);
    if (view === undefined) return;
    if (!view.isKnown) {
      view.missedMessage = true;
      return;
    }
    const taken = this.exchange.take(view, message.scope, message.epoch);
    if (taken === "doubtful") view.dueAt = this.clock.now();
    if (taken !== "newer") return;
    this.lastPurgeLag = Math.max(0, this.clock.now() + view.clockOffset - message.at);
    this.observer.purgeArrived(this.lastPurgeLag);
  }

  /** Somebody mended these epochs. */
  look(tag: string): void {
    const view = this.views.tagged(tag);
    if (view === undefined) return;
    view.dueAt = this.clock.now();
    this.readDue();
  }

  /** The view of a token's partition, for messages. */
  partitionOf(tag: string): string | undefined {
    return this.views.tagged(tag)?.partition;
  }

  /** The connection is new or gone: all that was read through the last one has to be read again. */
  connectionChanged(): void {
    for (const view of this.views.all()) view.trust.reset();
    this.noteState();
    if (this.link.isConnected) this.readDue();
  }

  close(): void {
    this.isClosed = true;
    for (const done of this.whenUp) done();
  }

  /** The view of a partition, which is kept up to date from now on. */
  view(partition: string | undefined): PartitionView {
    return this.views.of(partition);
  }

  private tick(): void {
    if (this.isClosed) return;
    this.readDue();
    this.clock.after(TICK, () => this.tick());
  }

  private readDue(): void {
    if (!this.link.isConnected) return;
    const now = this.clock.now();
    for (const view of this.views.all()) {
      const isDue = isTrusted(view) ? now >= view.dueAt : view.trust.mayTry;
      if (isDue) void this.learn(view);
    }
  }

  private async readAll(view: PartitionView): Promise<void> {
    const { session } = view.trust;
    view.dueAt = this.clock.now() + REVALIDATE_EVERY;
    view.missedMessage = false;
    try {
      while (view.pending.size > 0) await this.exchange.flush(view);
      // One that begins to be too slow is given up; one that was has to be fast again.
      const limit = isTrusted(view) ? TOO_SLOW : PAUSE;
      const isFast = await this.exchange.read(view, limit);
      // Told of a purge while the epochs were on their way: those may be older than the message.
      if (view.missedMessage) await this.exchange.read(view, limit);
      if (!isFast) view.trust.fail(session);
      else if (view.trust.regain(session)) view.session = session;
    } catch {
      view.trust.fail(session);
    }
    this.noteState();
  }

  private noteState(): void {
    const isUp = this.isUsable;
    if (isUp === this.isUp || this.isClosed) return;
    this.isUp = isUp;
    this.observer.stateChanged(
      isUp ? "up" : "away",
      isUp ? "connected and up to date" : (this.link.lastError ?? "too slow"),
    );
    this.changed(isUp);
    if (isUp) for (const done of this.whenUp) done();
  }
}
