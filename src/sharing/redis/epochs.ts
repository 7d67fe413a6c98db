import { type Clock, type Duration, type Instant, valueWithin, withReply } from "../../clock.ts";
import type { Dependencies, EpochsPort, PurgeReach } from "../ports.ts";
import { BASE, type Epoch, Epochs } from "../epochs.ts";
import { type CircuitBreaker, Usability } from "./circuit-breaker.ts";
import type { RedisConnection } from "./connection.ts";
import type { RedisObserver } from "./observer.ts";
import { EpochExchange } from "./epoch-exchange.ts";
import { isCurrent, isDoubtful, MAX_WAIT, notePending, type PartitionView, PartitionViews } from "./partitions.ts";
import type { Poller } from "./poller.ts";
import type { Message } from "./messages.ts";
import type { ScriptCall } from "./scripts.ts";
import type { Replicas } from "./replicas.ts";
import type { TableParts } from "./shared-table.ts";
import type { FoundTable } from "./tables.ts";

export interface SharedEpochsOptions extends TableParts {
  observer: RedisObserver;
  /** Called for what was purged here and elsewhere. */
  replicas: Pick<Replicas, "took" | "wrote">;
  /** Called when {@link SharedEpochs.isUsable} changed. */
  changed: (isUsable: boolean) => void;
}

/**
 * Keeps the epochs of this process and those in Redis the same: written when purged, sent by message, read again in
 * short intervals and with every entry. Redis may be asked only after the purges made without it are written there and
 * its epochs were read since the last failure.
 */
export class SharedEpochs extends Epochs implements EpochsPort {
  private readonly connection: RedisConnection;
  private readonly clock: Clock;
  private readonly observer: RedisObserver;
  private readonly poller: Poller;
  private readonly exchange: EpochExchange;
  private readonly replicas: SharedEpochsOptions["replicas"];
  private readonly views: PartitionViews;
  private readonly usability: Usability;
  /** How long the last purge by another replica took to arrive; undefined before the first. */
  lastPurgeLag: Duration | undefined;

  constructor({ connection, tables, poller, clock, observer, replicas, changed }: SharedEpochsOptions) {
    super();
    this.connection = connection;
    this.poller = poller;
    this.exchange = new EpochExchange({ epochs: this, connection, clock, tables, replicas });
    this.replicas = replicas;
    this.clock = clock;
    this.observer = observer;
    this.usability = new Usability(observer, changed);
    const { keys, isCluster } = connection;
    this.views = new PartitionViews({ epochs: this, clock, keys, isCluster });
    poller.add(() => this.due());
    poller.onStall(() => this.doubt());
  }

  /** Whether Redis is there, fast enough, and agrees with this process. */
  get isUsable(): boolean {
    return this.connection.isConnected && isCurrent(this.views.everywhere);
  }

  /** Whether to ask for leases and facts, which in a cluster may lie on a shard that is gone. */
  get isUsableElsewhere(): boolean {
    return this.isUsable && this.views.elsewhere.mayTry;
  }

  /** How far Redis's clock is ahead of this process's, at least; 0 before it was first read. */
  get clockOffset(): Duration {
    return this.views.everywhere.clockOffset;
  }

  /** This process goes by all purges written before then (Unix ms by Redis's clock); -Infinity: it is not known. */
  get asOf(): Instant {
    let asOf = Infinity;
    for (const view of this.views.all()) asOf = Math.min(asOf, isCurrent(view) ? view.readAt : -Infinity);
    return asOf;
  }

  /** Purges that wait for Redis. */
  get pendingPurges(): number {
    let pending = 0;
    for (const view of this.views.all()) pending += view.pending.size;
    return pending;
  }

  /** Resolves with true once {@link SharedEpochs.isUsable}, with false after `timeout`. */
  async whenUsable(timeout: Duration): Promise<boolean> {
    if (!this.isUsable) await valueWithin(this.usability.up, timeout, this.clock);
    return this.isUsable;
  }

  override epochOf(dependencies: Dependencies): string | undefined {
    this.poller.noticeStall();
    // What is used is kept up to date, though Redis was away when it came into memory.
    const view = this.views.of(dependencies.partition);
    if (isDoubtful(view) || isDoubtful(this.views.everywhere)) return undefined;
    return super.epochOf(dependencies);
  }

  /**
   * Undefined: what is known of a partition holds. Else this process stood still, and it resolves once the epochs were read
   * since, or cannot be, or after 50 ms.
   */
  unsettled(partition: string): Promise<unknown> | undefined {
    const views = [this.views.everywhere, this.views.of(partition)];
    if (!views.some(isDoubtful)) return undefined;
    const settled = Promise.all(views.map((view) => this.settle(view)));
    return withReply(settled, MAX_WAIT, this.clock).catch(() => undefined);
  }

  /** The view of a partition that may be read now, or undefined. What it says may still have to be {@link learn}ed. */
  readable(partition: string): PartitionView | undefined {
    const view = this.view(partition);
    if (!this.isUsable) return undefined;
    return (view.isKnown ? isCurrent(view) : view.breaker.mayTry) ? view : undefined;
  }

  /**
   * Reads the partition's epochs; sent now, so that what is sent afterwards sees nothing older. Never rejects.
   *
   * @param begun the reading, where it was begun just now
   */
  learn(view: PartitionView, begun?: Promise<FoundTable>): Promise<void> {
    view.reading ??= this.exchange.bringTogether(view, begun).then(() => {
      this.noteState();
      view.reading = undefined;
    });
    return view.reading;
  }

  /** The breaker before what concerns all partitions at once. */
  get breakerEverywhere(): CircuitBreaker {
    return this.views.everywhere.breaker;
  }

  /** Redis failed, or kept a request waiting that was begun in `session` of the breaker; at this key, if not at epochs. */
  fail(breaker: CircuitBreaker, session: number, key?: string): void {
    breaker.fail(session);
    const { everywhere } = this.views;
    if (key !== undefined && breaker === everywhere.breaker) everywhere.failedKey = key;
    this.noteState();
  }

  /** Runs a script on a lease or fact, for a request that waits for it. */
  async askElsewhere(call: ScriptCall): Promise<unknown> {
    const { elsewhere } = this.views;
    const { session } = elsewhere;
    try {
      return await this.connection.run(call, MAX_WAIT);
    } catch (error) {
      this.fail(elsewhere, session, call.keys[0]);
      throw error;
    }
  }

  /**
   * Takes over epochs that came with an entry: the base, then one of each scope (undefined: none). False when Redis
   * and this process do not agree and have to be brought together first, which then is under way.
   */
  observe(view: PartitionView, scopes: readonly string[], found: readonly (Epoch | undefined)[]): boolean {
    if (this.exchange.agrees(view, scopes, found)) return true;
    void this.learn(view);
    return false;
  }

  async purge(partition: string | undefined, scopes: readonly string[]): Promise<PurgeReach> {
    const view = this.view(partition);
    // Not always what was asked for: there is a bound to the scopes that have an epoch of their own.
    const raised = this.raise(partition, scopes, this.clock.wallNow());
    for (const each of raised) notePending(view, each);
    if (!this.connection.isConnected) return "pending";
    const { session } = view.breaker;
    try {
      const isPending = () => view.pending.has(BASE) || raised.some(({ scope }) => view.pending.has(scope));
      while (isPending()) await this.exchange.flush(view);
      return "fleet";
    } catch {
      this.fail(view.breaker, session);
      return "pending";
    }
  }

  received(message: Extract<Message, { kind: "epoch" }>): void {
    const view = this.views.tagged(message.tag);
    if (view === undefined) {
      // Nothing of this partition is kept here.
      this.replicas.took({ table: message.tag, name: message.scope, text: message.epoch });
      return;
    }
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

  /** A replica mended these epochs. */
  look(tag: string): void {
    const view = this.views.tagged(tag);
    if (view === undefined) return;
    view.dueAt = this.clock.now();
    this.poller.look();
  }

  /** The view of a token's partition, for messages. */
  partitionOf(tag: string): string | undefined {
    return this.views.tagged(tag)?.partition;
  }

  /** The connection is new or gone: all that was read through the last one has to be read again. */
  connectionChanged(): void {
    for (const view of this.views.all()) view.breaker.reset();
    this.noteState();
    this.poller.look();
  }

  close(): void {
    this.usability.close();
  }

  protected override canAsk(partition: string): boolean {
    return this.readable(partition) !== undefined;
  }

  /** The view of a partition, which is kept up to date from now on. */
  view(partition: string | undefined): PartitionView {
    return this.views.of(partition);
  }

  private due() {
    const now = this.clock.now();
    const isDue = (view: PartitionView) =>
      isCurrent(view) ? now >= view.dueAt || isDoubtful(view) : view.breaker.mayTry;
    return [...this.views.all()]
      .filter((view) => view.reading === undefined && isDue(view))
      .map((view) => ({ table: view.table, take: (reading: Promise<FoundTable>) => this.learn(view, reading) }));
  }

  /** This process stood still: what it knew held then. While Redis is away it goes on by what it knows, as before. */
  private doubt(): void {
    if (!this.connection.isConnected) return;
    for (const view of this.views.all()) if (isCurrent(view)) view.stalls += 1;
    this.poller.look();
  }

  private async settle(view: PartitionView): Promise<void> {
    // A reading that runs may have begun before.
    while (isDoubtful(view)) await this.learn(view);
  }

  private noteState(): void {
    this.usability.note(this.isUsable, this.connection.lastError);
  }
}
