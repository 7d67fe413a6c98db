import { randomBytes } from "node:crypto";
import type { Clock, Duration, Instant } from "../clock.ts";
import { isWithin } from "../redis/deadline.ts";
import { digest } from "../redis/keys.ts";
import type { RedisLink } from "../redis/link.ts";
import type { Message } from "../redis/message.ts";
import type { RedisObserver } from "../redis/observer.ts";
import type { PurgeReach } from "./coordinator.ts";
import { mergeEpochs, parseEpochsReply, raiseEpochs, readEpochs } from "./epoch-scripts.ts";
import { BASE, type Epoch, epochCount, type Epochs, type EpochSet, type Raised } from "./epochs.ts";
import { Trust } from "./trust.ts";

/** No request waits longer for Redis. */
export const PAUSE: Duration = 50;

/**
 * How often epochs are read again, for messages that were lost: a purge holds everywhere within 2 s. So often that it
 * does even when Redis loses it a moment later, and another replica has to find that out first.
 */
const REVALIDATE_EVERY: Duration = 500;

/** How often it is looked whether something is due. */
const TICK: Duration = 100;

/** How long commands may take that no request waits for. */
const BACKGROUND_TIMEOUT: Duration = 1_000;

/** A Redis that takes longer in the background is too slow to be asked by requests. */
const TOO_SLOW: Duration = 200;

/** Partitions are few (one a registry); the bound is for admins that come and go. */
const MAX_VIEWS = 1_024;

/** One partition's epochs in Redis as seen from here; of all partitions at once where `partition` is undefined. */
export interface PartitionView {
  readonly partition: string | undefined;
  /** Stands for the partition in keys and messages. */
  readonly tag: string;
  readonly trust: Trust;
  /** Its epochs have come from Redis, or gone there, at least once. */
  isKnown: boolean;
  /** The session of `trust` in which they were last read. */
  session: number;
  /** When to read them again. */
  dueAt: Instant;
  /** A message came before the epochs were known. */
  missedMessage: boolean;
  reading: Promise<void> | undefined;
  flushing: Promise<void> | undefined;
  /** Redis's clock is at least this far ahead of ours. */
  clockOffset: number;
  /** Purges that are not in Redis yet. */
  readonly pending: Map<string, Epoch>;
}

export interface SharedEpochsOptions {
  link: RedisLink;
  epochs: Epochs;
  clock: Clock;
  observer: RedisObserver;
  /** Told when {@link SharedEpochs.isUsable} changed. */
  changed: (isUsable: boolean) => void;
}

/**
 * Keeps the epochs of this process and those in Redis the same: written when purged, told by message, read again every
 * second and with every entry. Knows when Redis may be asked: only after the purges made without it are written there
 * and its epochs were read since the last trouble.
 */
export class SharedEpochs {
  private readonly link: RedisLink;
  private readonly epochs: Epochs;
  private readonly clock: Clock;
  private readonly observer: RedisObserver;
  private readonly changed: (isUsable: boolean) => void;
  private readonly trust: Trust;
  private readonly everywhere: PartitionView;
  private readonly views = new Map<string, PartitionView>();
  private readonly byTag = new Map<string, PartitionView>();
  private readonly whenUp = new Set<() => void>();
  private isUp = false;
  private isClosed = false;

  constructor({ link, epochs, clock, observer, changed }: SharedEpochsOptions) {
    this.link = link;
    this.epochs = epochs;
    this.clock = clock;
    this.observer = observer;
    this.changed = changed;
    this.trust = new Trust(clock);
    this.everywhere = this.newView(undefined, "*");
    this.byTag.set("*", this.everywhere);
    this.tick();
  }

  /** Whether Redis is there, fast enough, and agrees with this process. */
  get isUsable(): boolean {
    return this.link.isConnected && this.everywhere.session === this.everywhere.trust.session;
  }

  /** Purges that wait for Redis. */
  get pendingPurges(): number {
    let pending = this.everywhere.pending.size;
    for (const view of this.views.values()) pending += view.pending.size;
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
    if (view.isKnown) return view.session === view.trust.session ? view : undefined;
    return view.trust.mayTry ? view : undefined;
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
    (view ?? this.everywhere).trust.fail(session);
    this.noteState();
  }

  /** The session to give to {@link SharedEpochs.fail}, taken before asking. */
  sessionOf(view: PartitionView | undefined): number {
    return (view ?? this.everywhere).trust.session;
  }

  /**
   * Takes over epochs that came with an entry: the base, then one of each scope (undefined: none). False when Redis
   * and this process do not agree and have to be brought together first, which then is under way.
   */
  observe(view: PartitionView, scopes: readonly string[], found: readonly (Epoch | undefined)[]): boolean {
    const local = this.epochs.read(view.partition);
    if (found[0] !== local.base) return this.disagree(view);
    for (const [i, scope] of scopes.entries()) {
      const theirs = found[i + 1];
      const ours = local.scopes.get(scope);
      if (theirs === ours) continue;
      if (theirs === undefined || !isNewer(theirs, ours)) return this.disagree(view);
      this.epochs.put(view.partition, scope, theirs);
    }
    return true;
  }

  /** The epochs of a partition as this process knows them. */
  read(view: PartitionView): EpochSet {
    return this.epochs.read(view.partition);
  }

  /** See {@link Coordinator.purge}. */
  async purge(partition: string | undefined, scopes: readonly string[]): Promise<PurgeReach> {
    const view = this.view(partition);
    for (const raised of this.epochs.raise(partition, scopes)) notePending(view, raised);
    if (!this.link.isConnected) return "pending";
    const { session } = view.trust;
    try {
      while (scopes.some((scope) => view.pending.has(scope)) || view.pending.has(BASE)) await this.flush(view);
      return "fleet";
    } catch {
      view.trust.fail(session);
      this.noteState();
      return "pending";
    }
  }

  received(message: Extract<Message, { kind: "epoch" }>): void {
    const view = this.byTag.get(message.tag);
    if (view === undefined) return;
    if (!view.isKnown) {
      view.missedMessage = true;
      return;
    }
    const local = this.epochs.read(view.partition);
    const ours = message.scope === BASE ? local.base : local.scopes.get(message.scope);
    if (ours === message.epoch) return;
    if (!isNewer(message.epoch, ours)) {
      view.dueAt = this.clock.now();
      return;
    }
    if (message.scope === BASE) this.epochs.replace(view.partition, { base: message.epoch, scopes: new Map() });
    else this.epochs.put(view.partition, message.scope, message.epoch);
    this.observer.purgeArrived(Math.max(0, this.clock.now() + view.clockOffset - message.at));
  }

  /** Somebody mended these epochs. */
  look(tag: string): void {
    const view = this.byTag.get(tag);
    if (view === undefined) return;
    view.dueAt = this.clock.now();
    this.readDue();
  }

  /** The view of a token's partition, for messages. */
  partitionOf(tag: string): string | undefined {
    return this.byTag.get(tag)?.partition;
  }

  /** The connection is new or gone: all that was read through the last one has to be read again. */
  connectionChanged(): void {
    for (const view of this.byTag.values()) view.trust.reset();
    this.noteState();
    if (this.link.isConnected) this.readDue();
  }

  close(): void {
    this.isClosed = true;
    for (const done of this.whenUp) done();
  }

  /** The view of a partition, which is kept up to date from now on. */
  view(partition: string | undefined): PartitionView {
    if (partition === undefined) return this.everywhere;
    let view = this.views.get(partition);
    if (view === undefined) {
      if (this.views.size >= MAX_VIEWS) this.dropOldest();
      view = this.newView(partition, digest(partition));
      this.views.set(partition, view);
      this.byTag.set(view.tag, view);
    }
    return view;
  }

  private newView(partition: string | undefined, tag: string): PartitionView {
    return {
      partition,
      tag,
      trust: this.link.isCluster ? new Trust(this.clock) : this.trust,
      isKnown: false,
      session: 0,
      dueAt: -Infinity,
      missedMessage: false,
      reading: undefined,
      flushing: undefined,
      clockOffset: 0,
      pending: new Map(),
    };
  }

  private dropOldest(): void {
    for (const [partition, view] of this.views) {
      if (view.pending.size > 0) continue;
      this.views.delete(partition);
      this.byTag.delete(view.tag);
      // Nobody keeps its epochs up to date from now on, so nothing stored under them may be used.
      this.epochs.renew(partition);
      return;
    }
  }

  private tick(): void {
    if (this.isClosed) return;
    this.readDue();
    this.clock.after(TICK, () => this.tick());
  }

  private readDue(): void {
    if (!this.link.isConnected) return;
    const now = this.clock.now();
    for (const view of this.byTag.values()) {
      const isDue = view.session === view.trust.session ? now >= view.dueAt : view.trust.mayTry;
      if (isDue) void this.learn(view);
    }
  }

  private async readAll(view: PartitionView): Promise<void> {
    const { session } = view.trust;
    view.dueAt = this.clock.now() + REVALIDATE_EVERY;
    view.missedMessage = false;
    try {
      while (view.pending.size > 0) await this.flush(view);
      // One that begins to be too slow is given up; one that was has to be fast again.
      const limit = view.session === session ? TOO_SLOW : PAUSE;
      const isFast = await this.readOnce(view, limit);
      // Told of a purge while the epochs were on their way: those may be older than the message.
      if (view.missedMessage) await this.readOnce(view, limit);
      if (!isFast) view.trust.fail(session);
      else if (view.trust.regain(session)) view.session = session;
    } catch {
      view.trust.fail(session);
    }
    this.noteState();
  }

  /** Reads, and brings together what differs. Returns whether the reading took no longer than `limit`. */
  private async readOnce(view: PartitionView, limit: Duration): Promise<boolean> {
    const reading = this.run(view, readEpochs, []);
    const isFast = isWithin(reading, limit, this.clock);
    const reply = parseEpochsReply(await reading);
    view.clockOffset = reply.time - this.clock.now();
    if (!this.takeOver(view, reply.epochs)) await this.merge(view);
    view.isKnown = true;
    return isFast;
  }

  private async merge(view: PartitionView): Promise<void> {
    const { base, scopes } = this.epochs.read(view.partition);
    const known = view.isKnown ? "1" : "0";
    const args = [known, randomPart(), this.link.keys.channel, view.tag, base, ...[...scopes].flat()];
    this.takeOver(view, parseEpochsReply(await this.run(view, mergeEpochs, args)).epochs);
    view.isKnown = true;
  }

  /** Takes over what is newer in Redis. False when Redis lacks something. */
  private takeOver(view: PartitionView, theirs: EpochSet | undefined): boolean {
    if (theirs === undefined) return false;
    const ours = this.epochs.read(view.partition);
    if (theirs.base !== ours.base) {
      if (view.isKnown && !isNewer(theirs.base, ours.base)) return false;
      this.epochs.replace(view.partition, theirs);
      return true;
    }
    let isComplete = true;
    for (const [scope, epoch] of theirs.scopes) {
      const own = ours.scopes.get(scope);
      if (own === epoch) continue;
      if (isNewer(epoch, own)) this.epochs.put(view.partition, scope, epoch);
      else isComplete = false;
    }
    for (const scope of ours.scopes.keys()) {
      if (!theirs.scopes.has(scope)) isComplete = false;
    }
    return isComplete;
  }

  /** Writes the purges that are not in Redis yet; those made while it is at it go with the next time. */
  private flush(view: PartitionView): Promise<void> {
    view.flushing ??= this.flushOnce(view).finally(() => {
      view.flushing = undefined;
    });
    return view.flushing;
  }

  private async flushOnce(view: PartitionView): Promise<void> {
    if (view.pending.size === 0) return;
    const batch = [...view.pending];
    const args = [this.link.keys.channel, view.tag, randomPart(), ...batch.flat()];
    let raised = await this.run(view, raiseEpochs, args);
    if (raised === null) {
      await this.merge(view);
      raised = await this.run(view, raiseEpochs, args);
    }
    const epochs = raised as Epoch[];
    for (const [i, [scope, noted]] of batch.entries()) {
      if (view.pending.get(scope) === noted) view.pending.delete(scope);
      const epoch = epochs[i]!;
      const local = this.epochs.read(view.partition);
      if (!isNewer(epoch, scope === BASE ? local.base : local.scopes.get(scope))) continue;
      if (scope === BASE) this.epochs.replace(view.partition, { base: epoch, scopes: new Map() });
      else this.epochs.put(view.partition, scope, epoch);
    }
  }

  private run(view: PartitionView, script: typeof readEpochs, args: string[]): Promise<unknown> {
    return this.link.run({ script, keys: [this.link.keys.epochs(view.tag)], args }, BACKGROUND_TIMEOUT);
  }

  private disagree(view: PartitionView): false {
    void this.learn(view);
    return false;
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

function isNewer(epoch: Epoch, than: Epoch | undefined): boolean {
  return than === undefined || epochCount(epoch) > epochCount(than);
}

function notePending(view: PartitionView, { scope, epoch }: Raised): void {
  // A new base covers whatever was purged within it.
  if (scope === BASE) view.pending.clear();
  view.pending.set(scope, epoch);
}

function randomPart(): string {
  return randomBytes(9).toString("base64url");
}
