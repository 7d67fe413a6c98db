import type { Clock, Duration, Instant } from "../../clock.ts";
import type { RedisConnection } from "./connection.ts";
import type { RedisObserver, RedisValue } from "./observer.ts";
import { readTables, VERSION, writeTable } from "./table-scripts.ts";

/** Tables that are read with one script: nothing else runs in Redis meanwhile. */
const MOST_AT_ONCE = 32;

/** So often is tried to write while other replicas write too: each time one of them is done. */
const WRITE_ROUNDS = 64;

/** Rows that are sealed with a key on its way out are sealed anew no more often. */
const SEAL_AGAIN_AFTER: Duration = 5_000;

/** Opened texts of one table that are kept to be compared, and the length of the longest of them. */
const MOST_KEPT = 1_024;
const LONGEST_KEPT = 1_024;

/** The part of a reply about one table. */
type Part = readonly [version: string, foreign: number, rows: readonly string[] | null];

/** A text in Redis, and what is in it; undefined where it is not ours. */
interface OpenedText {
  readonly text: string;
  /** Of the seal keys. */
  readonly sealedBy: object | undefined;
  readonly plain: string | undefined;
  readonly isOutdated: boolean;
}

/** What a table is. */
export interface TableForm {
  readonly kind: RedisValue;
  readonly key: string;
  /** It has a version of its own, so that what has not changed is not sent again. */
  readonly isVersioned: boolean;
  /** Whether a gateway could have written this row; `plain` is its text without its seal. */
  readonly accepts: (name: string, plain: string) => boolean;
}

/** A table in Redis, as this process has last seen it. */
export interface Table extends TableForm {
  /** What was last found there, for {@link Table.isVersioned} ones. */
  last: FoundTable | undefined;
  /** What the texts of rows say: opening one again costs more than comparing it. */
  readonly opened: Map<string, OpenedText>;
  /** Rows beyond the bounds when it was last read: each is counted once, though it is read twice a second. */
  foreign: number;
  /** When rows may be sealed with another key. */
  sealAgainAt: Instant;
}

/** What Redis has of one table. */
export interface FoundTable {
  /** Redis's time (ms). */
  readonly time: number;
  readonly version: string;
  /** Rows as they are there, with their seals. */
  readonly texts: ReadonlyMap<string, string>;
  /** Those of them that are the gateway's, without their seals. */
  readonly rows: ReadonlyMap<string, string>;
  /** Some are sealed with a key on its way out. */
  readonly isOutdated: boolean;
  /** Some, or the whole, is not the gateway's, and goes with the next write. */
  readonly hasForeign: boolean;
  readonly sealedBy: object | undefined;
}

/** What is to be written. */
export interface TableChanges {
  /** All other rows go. */
  readonly isAnew?: boolean;
  /** Undefined removes a row. */
  readonly rows: ReadonlyMap<string, string | undefined>;
  readonly messages: readonly string[];
}

/** What a write came to: whether it was written, and what Redis has now. */
interface TableWrite {
  readonly isWritten: boolean;
  readonly found: FoundTable;
}

/** How a table is brought to what this process knows. */
export interface Settlement {
  /** What is to be written where Redis has what is `found`. Without rows nothing is. */
  readonly decide: (found: FoundTable) => TableChanges;
  /** What was decided last is in Redis since `time` (Redis's clock, ms). */
  readonly written: (changes: TableChanges, time: Instant) => void;
}

export function newTable(form: TableForm): Table {
  return { ...form, last: undefined, opened: new Map(), foreign: 0, sealAgainAt: -Infinity };
}

/**
 * The tables that replicas share, in Redis: small hashes, read in one command, held to bounds before anything of them is
 * read, sealed row by row, and written by compare-and-set.
 */
export class Tables {
  private readonly connection: RedisConnection;
  private readonly observer: Pick<RedisObserver, "valueRejected" | "clockCompared">;
  private readonly clock: Clock;
  /** How far the wall clock here is ahead of Redis's, as it was read last; negative: behind. */
  clockAhead: Duration | undefined;

  constructor(
    connection: RedisConnection,
    observer: Pick<RedisObserver, "valueRejected" | "clockCompared">,
    clock: Clock,
  ) {
    this.connection = connection;
    this.observer = observer;
    this.clock = clock;
  }

  read(table: Table): Promise<FoundTable> {
    return this.readAll([table])[0]!;
  }

  /** Reads several, in their order: many with one command, but in a cluster, where they lie on different shards. */
  readAll(tables: readonly Table[]): readonly Promise<FoundTable>[] {
    const most = this.connection.isCluster ? 1 : MOST_AT_ONCE;
    const found: Promise<FoundTable>[] = [];
    while (found.length < tables.length) found.push(...this.readSome(tables.slice(found.length, found.length + most)));
    return found;
  }

  /**
   * Writes what is decided, and what is sealed with a key on its way out; decides again by what is there then, until nothing
   * is left to write. Resolves with what Redis has in the end; rejects while Redis is away.
   */
  async settle(table: Table, first: FoundTable, { decide, written }: Settlement): Promise<FoundTable> {
    let found = first;
    for (let round = 0; round < WRITE_ROUNDS; round += 1) {
      const changes = decide(found);
      const all = this.withSealedAnew(table, found, changes);
      if (all.rows.size === 0 && !found.hasForeign) return found;
      const { isWritten, found: then } = await this.write(table, found, all);
      found = then;
      if (!isWritten) continue;
      written(changes, found.time);
      // Another replica wrote other rows in between.
      if (table.isVersioned && found.version === "") found = await this.read(table);
    }
    throw new Error("other replicas write the same rows without end");
  }

  /** The changes, with what else is sealed with a key on its way out, where it is time. */
  private withSealedAnew(table: Table, found: FoundTable, changes: TableChanges): TableChanges {
    const now = this.clock.now();
    if (!found.isOutdated || changes.isAnew === true || now < table.sealAgainAt) return changes;
    table.sealAgainAt = now + SEAL_AGAIN_AFTER;
    return { ...changes, rows: new Map([...found.rows, ...changes.rows]) };
  }

  /** Writes where Redis still has what was `found`. */
  private async write(
    table: Table,
    found: FoundTable,
    { isAnew = false, rows, messages }: TableChanges,
  ): Promise<TableWrite> {
    const triples: string[] = [];
    const sealed = new Map(isAnew ? [] : found.texts);
    for (const [name, plain] of rows) {
      const text = plain === undefined ? "" : this.seal(table, name, plain);
      triples.push(name, found.texts.get(name) ?? "", text);
      if (text === "") sealed.delete(name);
      else sealed.set(name, text);
    }
    const { channel } = this.connection.keys;
    const flags = [isAnew ? "1" : "0", table.isVersioned ? "1" : "0"];
    const args = [channel, ...flags, found.version, messages.length, ...messages, ...triples];
    const reply = await this.connection.run({ script: writeTable, keys: [table.key], args });
    const [time, isWritten, version, foreign, flat] = reply as [number, number, ...Part];
    if (isWritten !== 1) return { isWritten: false, found: this.parse(table, time, [version, foreign, flat ?? []]) };
    return { isWritten: true, found: this.open(table, { time, version, texts: sealed, hasForeign: false }) };
  }

  /** The text of one row without its seal; undefined where it is not ours. */
  openRow(table: Table, name: string, text: string): string | undefined {
    return this.openText(table, name, text).plain;
  }

  private seal(table: Table, name: string, plain: string): string {
    return this.connection.seals.seal({ kind: table.kind, key: table.key, field: name }, plain);
  }

  private readSome(tables: readonly Table[]): Promise<FoundTable>[] {
    const sealedBy = this.connection.seals.version;
    const known = tables.map(({ last }) => (last !== undefined && last.sealedBy === sealedBy ? last.version : ""));
    const call = { script: readTables, keys: tables.map(({ key }) => key), args: known };
    const reply = this.connection.run(call) as Promise<readonly [number, ...Part[]]>;
    return tables.map(async (table, at) => {
      const [time, ...parts] = await reply;
      this.compareClocks(time);
      const part = parts[at];
      return part === undefined ? this.read(table) : this.parse(table, time, part);
    });
  }

  /** By as much as the answer took on its way, the clock here seems to be ahead. */
  private compareClocks(time: number): void {
    this.clockAhead = this.clock.wallNow() - time;
    this.observer.clockCompared(this.clockAhead);
  }

  private parse(table: Table, time: number, [version, foreign, flat]: Part): FoundTable {
    // It may have been read again while this answer was under way: what it says is known then as well.
    if (flat === null && table.last !== undefined) return { ...table.last, time };
    if (foreign !== 0 && foreign !== table.foreign) this.observer.valueRejected(table.kind, "form");
    table.foreign = foreign;
    const texts = new Map<string, string>();
    const items = flat ?? [];
    for (let i = 0; i + 1 < items.length; i += 2) {
      if (items[i] !== VERSION || !table.isVersioned) texts.set(items[i]!, items[i + 1]!);
    }
    return this.open(table, { time, version, texts, hasForeign: foreign !== 0 });
  }

  private open(table: Table, found: Pick<FoundTable, "time" | "version" | "texts" | "hasForeign">): FoundTable {
    const rows = new Map<string, string>();
    let isOutdated = false;
    for (const [name, text] of found.texts) {
      const opened = this.openText(table, name, text);
      if (opened.plain === undefined) continue;
      rows.set(name, opened.plain);
      isOutdated ||= opened.isOutdated;
    }
    const opened = { ...found, rows, isOutdated, sealedBy: this.connection.seals.version };
    if (table.isVersioned) table.last = opened;
    return opened;
  }

  private openText(table: Table, name: string, text: string): OpenedText {
    const { seals } = this.connection;
    const { version: sealedBy } = seals;
    const known = table.opened.get(name);
    if (known?.text === text && known.sealedBy === sealedBy) return known;
    const found = seals.open({ kind: table.kind, key: table.key, field: name }, text);
    const isOurs = found !== undefined && table.accepts(name, found.text);
    if (!isOurs) this.observer.valueRejected(table.kind, found === undefined ? "seal" : "form");
    const opened = { text, sealedBy, plain: isOurs ? found.text : undefined, isOutdated: found?.isOutdated === true };
    // Rows that Redis has not are not kept either; a text that is read again is most often the same.
    if (table.opened.size >= MOST_KEPT) table.opened.clear();
    if (text.length <= LONGEST_KEPT) table.opened.set(name, opened);
    return opened;
  }
}
