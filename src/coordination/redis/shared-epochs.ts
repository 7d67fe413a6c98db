import { type Clock, type Duration, valueWithin } from "../../clock.ts";
import type { Dependencies, PurgeReach } from "../coordinator.ts";
import { BASE, chainName, type Epoch, Epochs } from "../epochs.ts";
import type { RedisConnection, RedisObserver } from "./connection.ts";
import { EpochSync } from "./epoch-sync.ts";
import {
  type CircuitBreaker,
  isCurrent,
  MAX_WAIT,
  notePending,
  type PartitionView,
  PartitionViews,
} from "./partition-views.ts";
import { defineScript, type Message, PLAIN, type ScriptCall } from "./protocol.ts";
import type { FoundEpochs } from "./stored-epochs.ts";

/**
 * How often epochs are read again, for messages that were lost: a purge holds everywhere within 2 s. Often enough for
 * that even when Redis loses the purge a moment later, which another replica has to find out first.
 */
const REVALIDATE_EVERY: Duration = 500;

/** How often due partitions are looked for. */
const TICK: Duration = 100;

/** A Redis that takes longer in the background is too slow to be asked by requests. */
const TOO_SLOW: Duration = 200;

export interface SharedEpochsOptions {
  connection: RedisConnection;
  clock: Clock;
  observer: RedisObserver;
  /** Told when {@link SharedEpochs.isUsable} changed. */
  changed: (isUsable: boolean) => void;
}

/**
 * Keeps the epochs of this process and those in Redis the same: written when purged, told by message, read again in
 * short intervals and with every entry. Redis may be asked only after the purges made without it are written there and
 * its epochs were read since the last failure.
 */
export class SharedEpochs {
  /** What this process knows. */
  readonly table = new Epochs();
  private readonly connection: RedisConnection;
  private readonly clock: Clock;
  private readonly observer: RedisObserver;
  private readonly changed: (isUsable: boolean) => void;
  private readonly sync: EpochSync;
  private readonly views: PartitionViews;
  private up = Promise.withResolvers<void>();
  private isUp = false;
  /** How long the last purge by another replica took to arrive; undefined before the first. */
  lastPurgeLag: Duration | undefined;
  private isClosed = false;

  constructor({ connection, clock, observer, changed }: SharedEpochsOptions) {
    this.connection = connection;
    this.clock = clock;
    this.observer = observer;
    this.changed = changed;
    this.sync = new EpochSync({ connection, epochs: this.table, clock, observer });
    this.views = new PartitionViews({ epochs: this.table, clock, isCluster: connection.isCluster });
    this.tick();
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

  /** Purges that wait for Redis. */
  get pendingPurges(): number {
    let pending = 0;
    for (const view of this.views.all()) pending += view.pending.size;
    return pending;
  }

  /** Resolves with true once {@link SharedEpochs.isUsable}, with false after `timeout`. */
  async whenUsable(timeout: Duration): Promise<boolean> {
    if (!this.isUsable) await valueWithin(this.up.promise, timeout, this.clock);
    return this.isUsable;
  }

  /** See {@link Coordinator.epochOf}. */
  epochOf(dependencies: Dependencies): string | undefined {
    // What is used is kept up to date, though Redis was away when it came into memory.
    this.views.of(dependencies.partition);
    return this.table.epochOf(dependencies);
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
  learn(view: PartitionView, begun?: Promise<FoundEpochs>): Promise<void> {
    view.reading ??= this.readAll(view, begun).finally(() => {
      view.reading = undefined;
    });
    return view.reading;
  }

  /** The breaker before what concerns all partitions at once. */
  get breakerEverywhere(): CircuitBreaker {
    return this.views.everywhere.breaker;
  }

  /** Redis failed, or kept a request waiting that was begun in `session` of the breaker. */
  fail(breaker: CircuitBreaker, session: number): void {
    breaker.fail(session);
    this.noteState();
  }

  /** Runs a script on a lease or fact, for a request that waits for it. */
  async askElsewhere(call: ScriptCall): Promise<unknown> {
    const { elsewhere } = this.views;
    const { session } = elsewhere;
    try {
      return await this.connection.run(call, MAX_WAIT);
    } catch (error) {
      this.fail(elsewhere, session);
      throw error;
    }
  }

  /**
   * Takes over epochs that came with an entry: the base, then one of each scope (undefined: none). False when Redis
   * and this process do not agree and have to be brought together first, which then is under way.
   */
  observe(view: PartitionView, scopes: readonly string[], found: readonly (Epoch | undefined)[]): boolean {
    if (this.sync.observe(view, scopes, found)) return true;
    void this.learn(view);
    return false;
  }

  /** See {@link Coordinator.purge}. */
  async purge(partition: string | undefined, scopes: readonly string[]): Promise<PurgeReach> {
    const view = this.view(partition);
    for (const raised of this.table.raise(partition, scopes, this.clock.wallNow()).raised) notePending(view, raised);
    if (!this.connection.isConnected) return "pending";
    const { session } = view.breaker;
    try {
      while (scopes.some((scope) => view.pending.has(scope)) || view.pending.has(BASE)) await this.sync.flush(view);
      return "fleet";
    } catch {
      this.fail(view.breaker, session);
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
    const taken = this.sync.take(view, message.scope, message.epoch);
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
    this.readDue();
  }

  /** The view of a token's partition, for messages. */
  partitionOf(tag: string): string | undefined {
    return this.views.tagged(tag)?.partition;
  }

  /** The connection is new or gone: all that was read through the last one has to be read again. */
  connectionChanged(): void {
    for (const view of this.views.all()) view.breaker.reset();
    this.noteState();
    if (this.connection.isConnected) this.readDue();
  }

  close(): void {
    this.isClosed = true;
    this.up.resolve();
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
    if (!this.connection.isConnected) return;
    const now = this.clock.now();
    const isDue = (view: PartitionView) => (isCurrent(view) ? now >= view.dueAt : view.breaker.mayTry);
    const due = [...this.views.all()].filter((view) => view.reading === undefined && isDue(view));
    // The others write their purges first.
    const together = due.filter(({ pending }) => pending.size === 0);
    for (const [at, begun] of this.sync.findAll(together).entries()) void this.learn(together[at]!, begun);
    for (const view of due) if (view.pending.size > 0) void this.learn(view);
  }

  private async readAll(view: PartitionView, begun?: Promise<FoundEpochs>): Promise<void> {
    const { session } = view.breaker;
    view.dueAt = this.clock.now() + REVALIDATE_EVERY;
    view.missedMessage = false;
    try {
      while (view.pending.size > 0) await this.sync.flush(view);
      // One that begins to be too slow is given up; one that was has to be fast again.
      const limit = isCurrent(view) ? TOO_SLOW : MAX_WAIT;
      const isFast = await this.sync.read(view, limit, begun);
      // Told of a purge while the epochs were on their way: those may be older than the message.
      if (view.missedMessage) await this.sync.read(view, limit);
      if (!isFast) view.breaker.fail(session);
      else if (view.breaker.regain(session)) view.session = session;
    } catch {
      view.breaker.fail(session);
    }
    this.noteState();
  }

  private noteState(): void {
    const isUp = this.isUsable;
    if (isUp === this.isUp || this.isClosed) return;
    this.isUp = isUp;
    this.observer.stateChanged(
      isUp ? "up" : "away",
      isUp ? "connected and up to date" : (this.connection.lastError ?? "too slow"),
    );
    this.changed(isUp);
    if (isUp) this.up.resolve();
    else this.up = Promise.withResolvers();
  }
}

/** A token stays known for as long after its page was last fetched: longer than a listing takes, and any entry lives. */
const TOKEN_LIFETIME: Duration = 24 * 60 * 60 * 1_000;

/** Issued tokens that wait for Redis; older ones are forgotten there, and their pages stay unshared. */
const MAX_UNWRITTEN = 10_000;

/**
 * Notes an issued token. KEYS: chain. ARGV: digest, sealed; how long it is kept (ms), channel, message. Tells the others
 * when the digest is another than before.
 */
const issueToken = defineScript(
  "chain_issue",
  "allow-oom",
  `${PLAIN}
local last = redis.pcall('GET', KEYS[1])
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
if type(last) == 'string' and plain(last) ~= plain(ARGV[1]) then redis.call('PUBLISH', ARGV[3], ARGV[4]) end`,
);

/** The page tokens issued by any replica. */
export class SharedChains {
  private readonly connection: RedisConnection;
  private readonly epochs: SharedEpochs;
  private readonly table: Epochs;
  /** Not known to be in Redis as they are here, by partition and chain. */
  private readonly unwritten = new Map<string, string>();

  constructor(connection: RedisConnection, epochs: SharedEpochs) {
    this.connection = connection;
    this.epochs = epochs;
    this.table = epochs.table;
  }

  issue(partition: string, chain: string, digest: string): void {
    this.table.issueChain(partition, chain, digest);
    void this.write(partition, chain, digest);
  }

  /**
   * Takes over the digest that came with an entry; `sent` is the one known here when it was asked for. What was issued
   * here in the meantime, or could not be written, is the newer one.
   */
  observe(view: PartitionView, chain: string, answer: { sent: string | undefined; found: string | undefined }): void {
    const partition = view.partition!;
    const ours = this.table.chainDigest(partition, chain);
    if (answer.found === ours) return;
    if (ours !== answer.sent) return;
    if (ours !== undefined && (answer.found === undefined || this.unwritten.has(chainName(partition, chain)))) {
      void this.write(partition, chain, ours);
    } else if (answer.found !== undefined) {
      this.table.issueChain(partition, chain, answer.found);
    }
  }

  received(message: Extract<Message, { kind: "chain" }>): void {
    const partition = this.epochs.partitionOf(message.tag);
    if (partition !== undefined) this.table.issueChain(partition, message.chain, message.digest);
  }

  private async write(partition: string, chain: string, digest: string): Promise<void> {
    const name = chainName(partition, chain);
    this.unwritten.set(name, digest);
    if (this.unwritten.size > MAX_UNWRITTEN) this.unwritten.delete(this.unwritten.keys().next().value!);
    if (!this.connection.isConnected) return;
    const { tag } = this.epochs.view(partition);
    const { keys, seals } = this.connection;
    const key = keys.chain(tag, chain);
    const sealed = seals.seal({ kind: "chain", key }, digest);
    const args = [sealed, TOKEN_LIFETIME, keys.channel, this.connection.message({ kind: "chain", tag, chain, digest })];
    try {
      await this.connection.run({ script: issueToken, keys: [key], args });
      if (this.unwritten.get(name) === digest) this.unwritten.delete(name);
    } catch {
      // It stays unwritten, and is written when the page behind it is next looked for.
    }
  }
}
