import type { CancelTimer, Clock, Duration, Instant } from "../../clock.ts";
import type { RedisConnection } from "./connection.ts";
import type { FoundTable, Table, Tables } from "./tables.ts";

/**
 * How often tables are read again, for messages that were lost: what is decided holds everywhere within 2 s. Often enough
 * for that even when Redis loses it a moment later, which another replica has to find out first.
 */
export const READ_EVERY: Duration = 500;

/** How often due tables are looked for. */
const TICK: Duration = 100;

/** A process that did not run for longer has messages before it that it has not read, and requests that came with them. */
const STALLED: Duration = 1_000;

/** A table that is due to be read. */
export interface DueTable {
  readonly table: Table;
  /** Takes what comes of the reading, which may fail. Never rejects. */
  take(reading: Promise<FoundTable>): Promise<void>;
}

/** Reads all tables of this process that are due, together in one round trip. */
export class Poller {
  private readonly connection: RedisConnection;
  private readonly tables: Tables;
  private readonly clock: Clock;
  private readonly sources: ((now: Instant) => readonly DueTable[])[] = [];
  private readonly stalled: (() => void)[] = [];
  private ranAt: Instant;
  private cancelTimer: CancelTimer = () => undefined;

  constructor({ connection, tables, clock }: { connection: RedisConnection; tables: Tables; clock: Clock }) {
    this.connection = connection;
    this.tables = tables;
    this.clock = clock;
    this.ranAt = clock.now();
    this.tick();
  }

  /** Has `due` asked which tables are to be read now. */
  add(due: (now: Instant) => readonly DueTable[]): void {
    this.sources.push(due);
  }

  /** Has `stalled` called when this process begins to run again after it did not for a while: it was frozen, or busy. */
  onStall(stalled: () => void): void {
    this.stalled.push(stalled);
  }

  /** Looks whether this process stood still. Cheap: it is asked on every hit. */
  noticeStall(): void {
    const now = this.clock.now();
    if (now - this.ranAt <= STALLED) return;
    this.ranAt = now;
    for (const stalled of this.stalled) stalled();
  }

  /** Reads what is due, at once. */
  look(): void {
    if (!this.connection.isConnected) return;
    const now = this.clock.now();
    const due = this.sources.flatMap((source) => source(now));
    const readings = this.tables.readAll(due.map(({ table }) => table));
    for (const [at, each] of due.entries()) void each.take(readings[at]!);
  }

  close(): void {
    this.cancelTimer();
  }

  private tick(): void {
    this.cancelTimer = this.clock.after(TICK, () => {
      this.noticeStall();
      this.ranAt = this.clock.now();
      this.look();
      this.tick();
    });
  }
}
