import { type Clock, type Duration, TimedOut, withReply } from "../../clock.ts";
import { BASE, type Epoch, type Epochs } from "../epochs.ts";
import type { Change } from "./changes.ts";
import type { RedisConnection } from "./connection.ts";
import { type Comparison, raisedAbove, repairsOf, takeEpoch, takeEpochs } from "./epoch-rules.ts";
import { isCurrent, MAX_WAIT, type PartitionView } from "./partitions.ts";
import { READ_EVERY } from "./poller.ts";
import type { Replicas } from "./replicas.ts";
import { SEAL_AGAIN_AFTER, type TableParts } from "./shared-table.ts";
import type { FoundTable, Tables } from "./tables.ts";

/** So often is tried to write while other replicas write too: each time one of them is done. */
const WRITE_ROUNDS = 64;

/** A Redis that takes longer in the background is too slow to be asked by requests. */
const TOO_SLOW: Duration = 200;

export interface EpochExchangeOptions extends Omit<TableParts, "poller"> {
  /** What this process knows. */
  readonly epochs: Epochs;
  /** Called for what was purged here and elsewhere. */
  readonly replicas: Pick<Replicas, "took" | "wrote">;
}

/** Brings the epochs that this process knows and those in Redis together, a partition at a time. */
export class EpochExchange {
  private readonly epochs: Epochs;
  private readonly connection: RedisConnection;
  private readonly clock: Clock;
  private readonly tables: Tables;
  private readonly replicas: EpochExchangeOptions["replicas"];

  constructor({ epochs, connection, clock, tables, replicas }: EpochExchangeOptions) {
    this.epochs = epochs;
    this.connection = connection;
    this.clock = clock;
    this.tables = tables;
    this.replicas = replicas;
  }

  /** Writes a partition's purges and reads its epochs; the breaker is told how that went. Never rejects. */
  async bringTogether(view: PartitionView, begun?: Promise<FoundTable>): Promise<void> {
    const { stalls } = view;
    const { session } = view.breaker;
    view.dueAt = this.clock.now() + READ_EVERY;
    view.missedMessage = false;
    try {
      while (view.pending.size > 0) await this.flush(view);
      // One that begins to be too slow is given up; one that was has to be fast again.
      const limit = isCurrent(view) ? TOO_SLOW : MAX_WAIT;
      const isFast = await this.read(view, limit, begun);
      // A purge was announced while the epochs were on their way: those may be older than the message.
      if (view.missedMessage) await this.read(view, limit);
      if (!isFast) view.breaker.fail(session);
      else if (view.breaker.regain(session)) view.session = session;
    } catch {
      view.breaker.fail(session);
    }
    view.settledStalls = stalls;
  }

  /** Reads, and mends what Redis lacks. Returns whether the reading took no longer than `limit`. */
  private async read(view: PartitionView, limit: Duration, reading = this.tables.read(view.table)): Promise<boolean> {
    const isFast = withReply(reading, limit, this.clock).then(
      () => true,
      (error: unknown) => !(error instanceof TimedOut),
    );
    const found = await reading;
    view.clockOffset = found.time - this.clock.now();
    await this.agree(view, found);
    view.isKnown = true;
    view.readAt = found.time;
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
    let found = await this.tables.read(view.table);
    for (let round = 0; round < WRITE_ROUNDS; round += 1) {
      this.takeAll(view, found);
      const { base } = this.epochs.read(view.partition);
      const isAnew = view.pending.has(BASE);
      if (!isAnew && found.rows.get(BASE) !== base) {
        found = await this.agree(view, found);
        continue;
      }
      const current = found;
      const raised = new Map(batch.map(([scope, noted]) => [scope, raisedAbove(noted, current, scope)]));
      const messages = [...raised].map(([scope, epoch]) => this.message(view, scope, epoch));
      const written = await this.tables.write(view.table, found, {
        isAnew,
        rows: new Map([[BASE, base], ...raised]),
        messages,
      });
      found = written.found;
      if (!written.isWritten) continue;
      for (const [scope, noted] of batch) {
        if (view.pending.get(scope) === noted) view.pending.delete(scope);
        this.take(view, scope, raised.get(scope)!);
        this.replicas.wrote({ table: view.tag, name: scope, text: raised.get(scope)! }, found.time);
      }
      return;
    }
    throw new Error("other replicas write the same epochs without end");
  }

  /**
   * Takes over what is newer in Redis, and writes there what is missing, older or foreign. Then the others are asked to
   * look: they may know of purges that Redis and this process do not.
   */
  private async agree(view: PartitionView, first: FoundTable): Promise<FoundTable> {
    let found = first;
    for (let round = 0; round < WRITE_ROUNDS; round += 1) {
      this.takeAll(view, found);
      const { isAnew, epochs } = repairsOf(this.epochs.read(view.partition), found);
      const isRepair = epochs.size > 0;
      const rows = isRepair || !this.mustSealAgain(view, found) ? epochs : found.rows;
      if (rows.size === 0 && !found.hasForeign) return found;
      const messages = isRepair ? [this.connection.message({ kind: "look", tag: view.tag })] : [];
      const written = await this.tables.write(view.table, found, { isAnew, rows, messages });
      found = written.found;
      if (!written.isWritten) continue;
      // What was purged here meanwhile is newer, and stays.
      for (const [scope, epoch] of epochs) this.take(view, scope, epoch);
      view.isKnown = true;
      return found;
    }
    throw new Error("other replicas write the same epochs without end");
  }

  /** Whether epochs that came with an entry, as they are in Redis, are those known here or newer. */
  agrees(view: PartitionView, scopes: readonly string[], found: readonly (string | undefined)[]): boolean {
    const { base, scopes: ours } = this.epochs.read(view.partition);
    if (found[0] === undefined || this.tables.openRow(view.table, BASE, found[0]) !== base) return false;
    return scopes.every((scope, i) => {
      const text = found[i + 1];
      if (text === undefined) return !ours.has(scope);
      const theirs = this.tables.openRow(view.table, scope, text);
      return theirs !== undefined && this.take(view, scope, theirs) !== "doubtful";
    });
  }

  /** Takes over one epoch that was announced, if it is newer. */
  take(view: PartitionView, scope: string, epoch: Epoch): Comparison {
    const taken = takeEpoch(this.epochs, view.partition, scope, epoch);
    if (taken === "newer") this.replicas.took({ table: view.tag, name: scope, text: epoch });
    return taken;
  }

  private takeAll(view: PartitionView, found: FoundTable): void {
    const { base, scopes } = this.epochs.read(view.partition);
    const before = new Map([[BASE, base], ...scopes]);
    takeEpochs(this.epochs, view, found);
    const after = this.epochs.read(view.partition);
    for (const [scope, epoch] of found.rows) {
      const ours = scope === BASE ? after.base : after.scopes.get(scope);
      if (ours !== epoch || before.get(scope) === epoch) continue;
      this.replicas.took({ table: view.tag, name: scope, text: epoch });
    }
  }

  private mustSealAgain(view: PartitionView, { isOutdated }: FoundTable): boolean {
    const now = this.clock.now();
    if (!isOutdated || now < view.sealAgainAt) return false;
    view.sealAgainAt = now + SEAL_AGAIN_AFTER;
    return true;
  }

  private message(view: PartitionView, scope: string, epoch: Epoch): string {
    const at = Math.floor(this.clock.now() + view.clockOffset);
    return this.connection.message({ kind: "epoch", tag: view.tag, scope, epoch, at });
  }

  /** This replica goes by a change of a partition that it does not use. */
  took(change: Change): void {
    this.replicas.took(change);
  }
}
