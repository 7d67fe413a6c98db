import { type Clock, type Duration, type Instant, valueWithin } from "../../clock.ts";
import type { Row, SharedRows } from "../ports.ts";
import type { RedisConnection } from "./connection.ts";
import { type Poller, READ_EVERY } from "./poller.ts";
import type { RedisValue } from "./observer.ts";
import type { Replicas } from "./replicas.ts";
import { type FoundTable, newTable, type Table, type Tables } from "./tables.ts";

/** A row in Redis: its version, when it ends by Redis's clock (Unix ms, or `-`), and its text. */
const ROW = /^(\d{1,15}) (\d{1,15}|-) (.*)$/s;

/** What all tables of this process go by. */
export interface TableParts {
  readonly connection: RedisConnection;
  readonly tables: Tables;
  readonly poller: Poller;
  readonly clock: Clock;
}

export interface SharedTableOptions extends TableParts {
  readonly kind: RedisValue;
  readonly key: string;
  /** Stands for the table in messages. */
  readonly tag: string;
  /** Whether a gateway could have written the text of this row. */
  readonly accepts: (name: string, text: string) => boolean;
  /** Called for what was changed here and elsewhere. */
  readonly replicas?: Pick<Replicas, "took" | "wrote"> | undefined;
}

/** See {@link SharedRows.follow}. */
type Merge = Parameters<SharedRows["follow"]>[0];

/**
 * A table of rows with versions that replicas share: read when a message says so, and in short intervals with all others;
 * written where nothing changed meanwhile. What this process holds and Redis lacks is decided by whose rows they are.
 */
export class SharedTable implements SharedRows {
  private readonly options: SharedTableOptions;
  private readonly table: Table;
  /** Rows that count here, as they are in Redis. */
  private readonly taken = new Map<string, string>();
  private readonly firstRead = Promise.withResolvers<void>();
  private merge: Merge = () => ({ rows: new Map() });
  /** Rows as they were read last: a table that has not changed comes as the very same map. */
  private parsed: { readonly of: FoundTable["rows"]; readonly rows: ReadonlyMap<string, Row> } | undefined;
  private running: Promise<void> | undefined;
  private next: Promise<void> | undefined;
  private readAt: Instant = -Infinity;
  private dueAt: Instant = -Infinity;

  constructor(options: SharedTableOptions) {
    const { kind, key, accepts, poller } = options;
    this.options = options;
    const isRow = (name: string, plain: string) => {
      const row = readRow(plain);
      return row !== undefined && accepts(name, row.text);
    };
    this.table = newTable({ kind, key, isVersioned: true, accepts: isRow });
    poller.add((now) => this.due(now));
  }

  follow(merge: Merge): void {
    this.merge = merge;
  }

  /** This process goes by all that was written before then (Unix ms by Redis's clock); -Infinity: it is not known. */
  get asOf(): Instant {
    return this.readAt;
  }

  /** How many rows are in Redis that do not open here: of replicas with other seal keys. */
  get closedRows(): number {
    const { last } = this.table;
    if (last === undefined) return 0;
    const isOpen = (name: string, text: string) => last.rows.has(name) || (readRow(text)?.until ?? 0) <= last.time;
    return [...last.texts].filter(([name, text]) => !isOpen(name, text)).length;
  }

  /** There may be something new: a message says so, or the connection is new. */
  look(tag?: string): void {
    if (tag !== undefined && tag !== this.options.tag) return;
    // Another Redis may have another clock.
    if (tag === undefined) this.readAt = -Infinity;
    if (!this.options.connection.isConnected) return;
    void this.synchronise().catch(() => undefined);
  }

  /** One after the other: a caller that comes while one runs has another one behind it. */
  synchronise(): Promise<void> {
    if (this.running === undefined) return this.run();
    this.next ??= this.running.then(
      () => this.run(),
      () => this.run(),
    );
    return this.next;
  }

  /** Resolves once Redis was read, or after `timeout`. */
  async whenRead(timeout: Duration): Promise<void> {
    await valueWithin(this.firstRead.promise, timeout, this.options.clock);
  }

  private due(now: Instant) {
    if (this.running !== undefined || now < this.dueAt) return [];
    const take = (reading: Promise<FoundTable>) => this.run(reading).catch(() => undefined);
    return [{ table: this.table, take }];
  }

  private run(reading?: Promise<FoundTable>): Promise<void> {
    this.next = undefined;
    this.dueAt = this.options.clock.now() + READ_EVERY;
    const run: Promise<void> = this.exchange(reading).finally(() => {
      if (this.running === run) this.running = undefined;
    });
    this.running = run;
    return run;
  }

  private async exchange(reading?: Promise<FoundTable>): Promise<void> {
    const { connection, tables, tag, replicas } = this.options;
    if (!connection.isConnected) throw new Error("not connected to Redis");
    await tables.settle(this.table, await (reading ?? tables.read(this.table)), {
      decide: (found) => {
        const { rows, isQuiet } = this.merge(this.rowsOf(found), found.time);
        this.noteTaken(found);
        this.readAt = found.time;
        const texts = new Map([...rows].map(([name, row]) => [name, row && formatRow(row)]));
        this.firstRead.resolve();
        const messages = rows.size === 0 || isQuiet === true ? [] : [connection.message({ kind: "look", tag })];
        return { rows: texts, messages };
      },
      written: ({ rows }, time) => {
        for (const [name, text] of rows) if (text !== undefined) replicas?.wrote({ table: tag, name, text }, time);
      },
    });
  }

  private rowsOf({ rows }: FoundTable): ReadonlyMap<string, Row> {
    if (this.parsed?.of !== rows) {
      const read = new Map([...rows].map(([name, plain]) => [name, readRow(plain)!]));
      this.parsed = { of: rows, rows: read };
    }
    return this.parsed.rows;
  }

  /** What was found there and is merged counts here from now on. */
  private noteTaken({ rows }: FoundTable): void {
    const { replicas, tag } = this.options;
    if (replicas === undefined) return;
    for (const [name, text] of rows) {
      if (this.taken.get(name) === text) continue;
      this.taken.set(name, text);
      replicas.took({ table: tag, name, text });
    }
    for (const name of this.taken.keys()) if (!rows.has(name)) this.taken.delete(name);
  }
}

/** Undefined for what is not a row. */
function readRow(plain: string): Row | undefined {
  const [, version, until, text] = ROW.exec(plain) ?? [];
  if (version === undefined) return undefined;
  return { version: Number(version), until: until === "-" ? undefined : Number(until), text: text! };
}

function formatRow({ version, until, text }: Row): string {
  return `${version} ${until ?? "-"} ${text}`;
}
