import { type Clock, type Duration, TimedOut, withReply } from "../../clock.ts";
import { BASE, type Epoch, type Epochs } from "../epochs.ts";
import type { RedisConnection } from "./connection.ts";
import { type Comparison, repairsOf, takeEpoch, takeEpochs } from "./epoch-rules.ts";
import { isCurrent, MAX_WAIT, type PartitionView } from "./partitions.ts";
import { READ_EVERY } from "./poller.ts";
import type { Replicas } from "./replicas.ts";
import { defineScript } from "./scripts.ts";
import type { TableParts } from "./shared-table.ts";
import type { FoundTable, Tables } from "./tables.ts";

/** A Redis that takes longer in the background is too slow to be asked by requests. */
const TOO_SLOW: Duration = 200;

/** A write that changes nothing, for no end is earlier than 1970. KEYS: where. */
const tryWrite = defineScript("write_try", "allow-oom", "return redis.call('PEXPIREAT', KEYS[1], 1, 'GT')");

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

  /** Reads a partition's epochs, writes its purges, and tries to write where that failed; reports to the breaker how that went. Never rejects. */
  async bringTogether(view: PartitionView, begun?: Promise<FoundTable>): Promise<void> {
    const { stalls } = view;
    const { session } = view.breaker;
    view.dueAt = this.clock.now() + READ_EVERY;
    view.missedMessage = false;
    try {
      // One that begins to be too slow is given up; one that was has to be fast again.
      const limit = isCurrent(view) ? TOO_SLOW : MAX_WAIT;
      const isFast = await this.read(view, limit, begun);
      // A purge was announced while the epochs were on their way: those may be older than the message.
      if (view.missedMessage) await this.read(view, limit);
      while (view.pending.size > 0) await this.flush(view);
      if (view.failedKey !== undefined) {
        await this.connection.run({ script: tryWrite, keys: [view.failedKey], args: [] }, MAX_WAIT);
      }
      if (!isFast) view.breaker.fail(session);
      else if (view.breaker.regain(session)) {
        view.session = session;
        view.failedKey = undefined;
      }
    } catch {
      view.breaker.fail(session);
    }
    view.settledStalls = stalls;
  }

  /** Reads, and writes what Redis lacks. Returns whether the reading took no longer than `limit`. */
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

  /** Writes the purges that are not in Redis yet; those made while it is at it may go with the next time. */
  flush(view: PartitionView): Promise<void> {
    view.flushing ??= this.flushOnce(view).finally(() => {
      view.flushing = undefined;
    });
    return view.flushing;
  }

  private async flushOnce(view: PartitionView): Promise<void> {
    await this.agree(view, await this.tables.read(view.table));
  }

  /**
   * Takes over what is newer in Redis, and writes there the purges of this process, and what is missing, older or foreign.
   * After such repairs the others are asked to look: they may know of purges that Redis and this process do not.
   */
  private async agree(view: PartitionView, first: FoundTable): Promise<void> {
    let purges: ReadonlyMap<string, Epoch> = new Map();
    let epochs: ReadonlyMap<string, Epoch> = new Map();
    await this.tables.settle(view.table, first, {
      decide: (found) => {
        this.takeAll(view, found);
        purges = new Map(view.pending);
        const repairs = repairsOf(this.epochs.read(view.partition), found, purges);
        ({ epochs } = repairs);
        const messages = [...purges.keys()].map((scope) => this.message(view, scope, epochs.get(scope)!));
        if (repairs.isMended) messages.push(this.connection.message({ kind: "look", tag: view.tag }));
        return { isAnew: repairs.isAnew, rows: epochs, messages };
      },
      written: (_changes, time) => {
        // What was purged here meanwhile is newer, and stays.
        for (const [scope, epoch] of epochs) this.take(view, scope, epoch);
        for (const [scope, noted] of purges) {
          if (view.pending.get(scope) === noted) view.pending.delete(scope);
          this.replicas.wrote({ table: view.tag, name: scope, text: epochs.get(scope)! }, time);
        }
        view.isKnown = true;
      },
    });
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

  private message(view: PartitionView, scope: string, epoch: Epoch): string {
    const at = Math.floor(this.clock.now() + view.clockOffset);
    return this.connection.message({ kind: "epoch", tag: view.tag, scope, epoch, at });
  }
}
