import { type Clock, type Duration, TimedOut, withReply } from "../../clock.ts";
import { BASE, type Epoch, epochAfter, epochCount, type Epochs, type EpochSet } from "../epochs.ts";
import type { RedisConnection, RedisObserver } from "./connection.ts";
import type { PartitionView } from "./partition-views.ts";
import { type EpochChanges, type FoundEpochs, StoredEpochs } from "./stored-epochs.ts";

/** So often is tried to write while other replicas write too: each time one of them is done. */
const WRITE_ROUNDS = 64;

/** Epochs that are sealed with a key on its way out are sealed anew no more often. */
const SEAL_AGAIN_AFTER: Duration = 5_000;

/** How an epoch from elsewhere compares with the one known here. */
export type Comparison =
  /** It was newer, and counts from now on. */
  | "newer"
  | "known"
  /** It is older, or of the same age: Redis has to say what holds. */
  | "doubtful";

export interface EpochSyncOptions {
  readonly connection: RedisConnection;
  readonly epochs: Epochs;
  readonly clock: Clock;
  readonly observer: Pick<RedisObserver, "valueRejected">;
}

/**
 * Brings the epochs of this process and those in Redis together. Nothing known here ever gives way to something older.
 * This process decides and makes all epochs (Redis cannot seal them); Redis takes them if nothing changed meanwhile.
 */
export class EpochSync {
  private readonly connection: RedisConnection;
  private readonly epochs: Epochs;
  private readonly clock: Clock;
  private readonly stored: StoredEpochs;

  constructor({ connection, epochs, clock, observer }: EpochSyncOptions) {
    this.connection = connection;
    this.epochs = epochs;
    this.clock = clock;
    this.stored = new StoredEpochs(connection, observer);
  }

  /** Takes over one epoch of a scope, or of the base, if it is newer. */
  take(view: PartitionView, scope: string, epoch: Epoch): Comparison {
    const local = this.epochs.read(view.partition);
    const ours = scope === BASE ? local.base : local.scopes.get(scope);
    if (ours === epoch) return "known";
    if (!isNewer(epoch, ours)) return "doubtful";
    if (scope === BASE) this.epochs.replace(view.partition, { base: epoch, scopes: new Map() });
    else this.epochs.put(view.partition, scope, epoch);
    return "newer";
  }

  /**
   * Takes over epochs that came with an entry, as they are in Redis: the base, then one of each scope (undefined: none).
   * False when they do not agree with those here, or are none of ours.
   */
  observe(view: PartitionView, scopes: readonly string[], found: readonly (string | undefined)[]): boolean {
    if (found[0] === undefined || this.stored.open(view, BASE, found[0]) !== this.epochs.read(view.partition).base)
      return false;
    return scopes.every((scope, i) => {
      const text = found[i + 1];
      if (text === undefined) return !this.epochs.read(view.partition).scopes.has(scope);
      const theirs = this.stored.open(view, scope, text);
      return theirs !== undefined && this.take(view, scope, theirs) !== "doubtful";
    });
  }

  /** Begins to read several partitions, for {@link EpochSync.read}. */
  findAll(views: readonly PartitionView[]): readonly Promise<FoundEpochs>[] {
    return this.stored.findAll(views);
  }

  /** Reads, and mends what Redis lacks. Returns whether the reading took no longer than `limit`. */
  async read(view: PartitionView, limit: Duration, reading = this.stored.find(view)): Promise<boolean> {
    const isFast = withReply(reading, limit, this.clock).then(
      () => true,
      (error: unknown) => !(error instanceof TimedOut),
    );
    const found = await reading;
    view.clockOffset = found.time - this.clock.now();
    await this.agree(view, found);
    view.isKnown = true;
    return isFast;
  }

  /** Writes the purges that are not in Redis yet; those made while it is at it go with the next time. */
  flush(view: PartitionView): Promise<void> {
    view.flushing ??= this.flushOnce(view).finally(() => {
      view.flushing = undefined;
    });
    return view.flushing;
  }

  private async flushOnce(view: PartitionView): Promise<void> {
    if (view.pending.size === 0) return;
    const batch = [...view.pending];
    let found = await this.stored.find(view);
    for (let round = 0; round < WRITE_ROUNDS; round += 1) {
      this.takeAll(view, found);
      const { base } = this.epochs.read(view.partition);
      const isAnew = view.pending.has(BASE);
      if (!isAnew && found.epochs.get(BASE) !== base) {
        found = await this.agree(view, found);
        continue;
      }
      const current = found;
      const raised = new Map(batch.map(([scope, noted]) => [scope, raisedAbove(noted, current, scope)]));
      const told = [...raised].map(([scope, epoch]) => this.tell(view, scope, epoch));
      const next = await this.stored.write(view, found, { isAnew, epochs: new Map([[BASE, base], ...raised]) }, told);
      if (next === undefined) {
        for (const [scope, noted] of batch) {
          if (view.pending.get(scope) === noted) view.pending.delete(scope);
          this.take(view, scope, raised.get(scope)!);
        }
        return;
      }
      found = next;
    }
    throw new Error("other replicas write the same epochs without end");
  }

  /**
   * Takes over what is newer in Redis, and writes there what is missing, older or foreign. Nothing in Redis: this
   * process's epochs are written back, all in one go: a base without its scopes would let entries through that a scope's
   * purge had ended. An older or foreign epoch: neither is right for certain (a failover lost a purge, two groups of
   * replicas went on alone, or gateways without this one's seal key purged), so the scope gets one that is newer than
   * both. Either way the others are asked to look: they may know of purges that Redis and this process do not.
   */
  private async agree(view: PartitionView, first: FoundEpochs): Promise<FoundEpochs> {
    let found = first;
    for (let round = 0; round < WRITE_ROUNDS; round += 1) {
      this.takeAll(view, found);
      const changes = this.repairs(view, found);
      const isRepair = changes.epochs.size > 0;
      const epochs = isRepair || !this.mustSealAgain(view, found) ? changes.epochs : found.epochs;
      if (epochs.size === 0) return found;
      const told = isRepair ? [this.connection.message({ kind: "look", tag: view.tag })] : [];
      const next = await this.stored.write(view, found, { ...changes, epochs }, told);
      if (next === undefined) {
        // What was purged here meanwhile is newer, and stays.
        for (const [scope, epoch] of changes.epochs) this.take(view, scope, epoch);
        view.isKnown = true;
        const sealed = [...epochs].map(([scope, epoch]) => [scope, this.stored.seal(view, scope, epoch)] as const);
        return this.stored.parse(view, found.time, new Map([...(changes.isAnew ? [] : found.texts), ...sealed]));
      }
      found = next;
    }
    throw new Error("other replicas write the same epochs without end");
  }

  private takeAll(view: PartitionView, { epochs }: FoundEpochs): void {
    const base = epochs.get(BASE);
    if (base === undefined) return;
    const ours = this.epochs.read(view.partition);
    if (base !== ours.base) {
      if (view.isKnown && !isNewer(base, ours.base)) return;
      this.epochs.replace(view.partition, { base, scopes: withoutBase(epochs) });
      return;
    }
    for (const [scope, epoch] of epochs) this.take(view, scope, epoch);
  }

  /** What Redis lacks, after all that is newer there was taken over. */
  private repairs(view: PartitionView, { texts, epochs }: FoundEpochs): EpochChanges {
    const ours: EpochSet = this.epochs.read(view.partition);
    const base = epochs.get(BASE);
    if (base !== ours.base) {
      const text = texts.get(BASE);
      const isGone = text === undefined;
      return isGone
        ? { isAnew: true, epochs: new Map([[BASE, ours.base], ...ours.scopes]) }
        : { isAnew: true, epochs: new Map([[BASE, epochAfter(ours.base, base ?? text)]]) };
    }
    const changed = new Map<string, Epoch>();
    for (const scope of new Set([...ours.scopes.keys(), ...texts.keys()])) {
      if (scope === BASE) continue;
      const [own, text] = [ours.scopes.get(scope), texts.get(scope)];
      if (epochs.has(scope) && epochs.get(scope) === own) continue;
      changed.set(scope, text === undefined ? own! : epochAfter(own, epochs.get(scope) ?? text));
    }
    return { isAnew: false, epochs: changed };
  }

  private mustSealAgain(view: PartitionView, { isOutdated }: FoundEpochs): boolean {
    const now = this.clock.now();
    if (!isOutdated || now < view.sealAgainAt) return false;
    view.sealAgainAt = now + SEAL_AGAIN_AFTER;
    return true;
  }

  private tell(view: PartitionView, scope: string, epoch: Epoch): string {
    const at = Math.floor(this.clock.now() + view.clockOffset);
    return this.connection.message({ kind: "epoch", tag: view.tag, scope, epoch, at });
  }
}

function isNewer(epoch: Epoch, than: Epoch | undefined): boolean {
  return than === undefined || epochCount(epoch) > epochCount(than);
}

/** The epoch of a purge: the one that was noted for it, unless Redis has one that is as new. */
function raisedAbove(noted: Epoch, { texts, epochs }: FoundEpochs, scope: string): Epoch {
  const last = epochs.get(scope) ?? texts.get(scope);
  return last === undefined || last === noted || epochCount(last) < epochCount(noted) ? noted : epochAfter(noted, last);
}

function withoutBase(epochs: ReadonlyMap<string, Epoch>): Map<string, Epoch> {
  return new Map([...epochs].filter(([scope]) => scope !== BASE));
}
