import { randomBytes } from "node:crypto";
import { deflateRawSync, inflateRawSync } from "node:zlib";
import { isObject } from "../json.ts";
import type { Row } from "../sharing/ports.ts";
import type { Batch, Change, Position } from "./change.ts";

/** What is kept of the latest changes: bytes of their rows, rows, and characters once they are unpacked. */
const MOST_BYTES = 512 * 1024;
const MOST_ROWS = 2_000;
const MOST_CHARACTERS = 8 * 1024 * 1024;

/** Characters of one row's changes; those of a reading take as many rows as they need. */
const LONGEST_ROW = 64 * 1024;

/** Characters of a row from which on it is packed, and the most that one is unpacked to. */
const PACKED_FROM = 1_024;
const MOST_UNPACKED = 4 * LONGEST_ROW;

/** Of a row with a batch: its number. */
const BATCH_ROW = /^c(\d{1,15})$/;

/** What found rows are to those that are known here. */
export type Finding =
  /** The same, or those known here and others behind them. */
  | { readonly kind: "more" }
  /** Rows are missing there that are known here, as after the loss of a Redis. */
  | { readonly kind: "less"; readonly missing: ReadonlyMap<string, Row> }
  /** Another history: no place in the one known here is one in this. */
  | { readonly kind: "other" };

/** The latest batches, in their order: as rows of a table that replicas share, and as what clients read. */
export class ChangeLog {
  private batches: Batch[] = [];
  private rows: Row[] = [];
  private readonly byId = new Map<string, Batch>();
  private characters = 0;
  private bytes = 0;
  /** Numbers of the rows that were found and are too old to be known here. */
  private outdated: readonly number[] = [];

  /** The last one; undefined where there is none yet. */
  get last(): Batch | undefined {
    return this.batches.at(-1);
  }

  /** The batches behind a place, and those that it stands in; undefined where they are not known any more. */
  from({ n }: Position): readonly Batch[] | undefined {
    const first = this.batches[0];
    if (first === undefined || n < first.n) return undefined;
    return this.batches.slice(n - first.n);
  }

  /** The place that an id stands for; undefined where it is not known here. */
  find(id: string): Position | undefined {
    const [, name, digits] = /^([\w-]{16})(?:\.(\d{1,6}))?$/.exec(id) ?? [];
    const batch = name === undefined ? undefined : this.byId.get(name);
    if (batch === undefined) return undefined;
    const count = digits === undefined ? batch.changes.length : Number(digits);
    return count <= batch.changes.length ? { n: batch.n, count } : undefined;
  }

  /** Takes over what was found, but where rows are missing there. */
  take(found: ReadonlyMap<string, Row>): Finding {
    const theirs = batchRows(found);
    const finding = this.takeRows(found, theirs);
    const first = this.batches[0]?.n ?? 0;
    this.outdated = theirs.flatMap(({ n }) => (n < first ? n : []));
    return finding;
  }

  private takeRows(found: ReadonlyMap<string, Row>, theirs: readonly FoundBatch[]): Finding {
    const mine = this.last;
    const theirLast = theirs.at(-1);
    if (mine === undefined) {
      for (const { n, row } of theirs) this.push(n, row);
      return { kind: theirLast === undefined ? "more" : "other" };
    }
    const isKnown = (n: number, row: Row | undefined) => row !== undefined && this.rowAt(n)?.text === row.text;
    if (theirLast === undefined || (theirLast.n < mine.n && isKnown(theirLast.n, theirLast.row))) {
      const missing = this.batches.filter(({ n }) => n > (theirLast?.n ?? -1));
      return { kind: "less", missing: new Map(missing.map(({ n }) => [`c${n}`, this.rowAt(n)!])) };
    }
    if (!isKnown(mine.n, found.get(`c${mine.n}`))) {
      this.clear();
      for (const { n, row } of theirs) this.push(n, row);
      return { kind: "other" };
    }
    for (const { n, row } of theirs) if (n > mine.n) this.push(n, row);
    while (this.batches[0]!.n < theirs[0]!.n) this.shift();
    return { kind: "more" };
  }

  /** The rows that are known here. */
  known(): ReadonlyMap<string, Row> {
    return new Map(this.batches.map(({ n }, at) => [`c${n}`, this.rows[at]!]));
  }

  /**
   * Rows that say it, behind the last one; with those that have to go for them. No changes: a beginning. Undefined where they are
   * too many to be told one by one.
   */
  rowsOf(
    { admin, registry, at }: Pick<Batch, "admin" | "registry" | "at">,
    changes: readonly Change[],
  ): Map<string, Row | undefined> | undefined {
    const rows = new Map<string, Row | undefined>();
    let n = (this.last?.n ?? -1) + 1;
    let bytes = 0;
    for (const part of changes.length === 0 ? [[]] : parts(changes)) {
      const id = randomBytes(12).toString("base64url");
      const json = JSON.stringify([id, admin, registry, Math.floor(at), part]);
      if (Buffer.byteLength(json) > MOST_UNPACKED) return undefined;
      const text = packed(json);
      bytes += Buffer.byteLength(text);
      if (bytes > MOST_BYTES / 2) return undefined;
      rows.set(`c${n}`, { version: n, until: undefined, text });
      n += 1;
    }
    const added = rows.size;
    for (const old of this.outdated) rows.set(`c${old}`, undefined);
    let kept = this.bytes + bytes;
    for (let i = 0; i < this.batches.length - 1; i += 1) {
      if (kept <= MOST_BYTES && this.batches.length - i + added <= MOST_ROWS) break;
      kept -= Buffer.byteLength(this.rows[i]!.text);
      rows.set(`c${this.batches[i]!.n}`, undefined);
    }
    return rows;
  }

  private rowAt(n: number): Row | undefined {
    const first = this.batches[0];
    return first === undefined ? undefined : this.rows[n - first.n];
  }

  private push(n: number, row: Row): void {
    const batch = batchIn(n, row.text);
    if (batch === undefined) return;
    // There is no way over a gap.
    if (this.last !== undefined && n !== this.last.n + 1) this.clear();
    this.batches.push(batch);
    this.rows.push(row);
    this.byId.set(batch.id, batch);
    this.bytes += Buffer.byteLength(row.text);
    this.characters += batch.size;
    while (this.characters > MOST_CHARACTERS && this.batches.length > 1) this.shift();
  }

  private shift(): void {
    const batch = this.batches.shift()!;
    this.bytes -= Buffer.byteLength(this.rows.shift()!.text);
    this.characters -= batch.size;
    this.byId.delete(batch.id);
  }

  private clear(): void {
    [this.batches, this.rows, this.bytes, this.characters] = [[], [], 0, 0];
    this.byId.clear();
  }
}

interface FoundBatch {
  readonly n: number;
  readonly row: Row;
}

function batchRows(rows: ReadonlyMap<string, Row>): FoundBatch[] {
  const found: FoundBatch[] = [];
  for (const [name, row] of rows) {
    const [, digits] = BATCH_ROW.exec(name) ?? [];
    if (digits !== undefined) found.push({ n: Number(digits), row });
  }
  return found.toSorted((one, other) => one.n - other.n);
}

/** In parts that are rows each. */
function* parts(changes: readonly Change[]): Generator<Change[]> {
  let part: Change[] = [];
  let length = 0;
  for (const change of changes) {
    const size = JSON.stringify(change).length;
    if (length + size > LONGEST_ROW && part.length > 0) {
      yield part;
      [part, length] = [[], 0];
    }
    part.push(change);
    length += size;
  }
  yield part;
}

/** Behind a mark, where that is shorter: JSON begins with a bracket. */
function packed(json: string): string {
  return json.length < PACKED_FROM ? json : `z${deflateRawSync(json).toString("base64")}`;
}

function unpacked(text: string): string {
  if (!text.startsWith("z")) return text;
  return inflateRawSync(Buffer.from(text.slice(1), "base64"), { maxOutputLength: MOST_UNPACKED }).toString("utf8");
}

/** The latest time that there is (ms). */
const LATEST = 8.64e15;

/** Undefined for what nobody of ours wrote. */
function batchIn(n: number, text: string): Batch | undefined {
  try {
    const json = unpacked(text);
    const [id, admin, registry, at, changes] = JSON.parse(json) as unknown[];
    const isText = [id, admin, registry].every((each) => typeof each === "string");
    if (!isText || typeof at !== "number" || Math.abs(at) > LATEST) return undefined;
    if (!Array.isArray(changes) || !changes.every((each) => isObject(each) && typeof each["type"] === "string")) {
      return undefined;
    }
    const names = { id: id as string, admin: admin as string, registry: registry as string };
    return { n, ...names, at, changes: changes as Change[], size: json.length };
  } catch {
    return undefined;
  }
}
