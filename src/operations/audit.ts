import { randomBytes } from "node:crypto";
import type { CancelTimer, Clock, Duration } from "../clock.ts";
import { GatewayError } from "../errors.ts";
import { type Coordinator, LONGEST_RECORD, type PurgeReach, PURGE_REACHES, type RecordPage } from "../sharing/ports.ts";
import { Type } from "typebox";
import { Compile } from "typebox/compile";
import type { ReplicasReached } from "../sharing/replicas.ts";
import type { Logger } from "../observe/log.ts";
import { thisReplica } from "../version.ts";
import { parseJson } from "../json.ts";
import type { ActionReport, Operator } from "./actions.ts";
import { readLimit, readQuery } from "./request.ts";

/** As many as are in memory, and as one answer has. */
const KEPT = 500;

const REMIND_EVERY: Duration = 600_000;

/** How often is looked whether what waited for Redis is there by now. */
const SETTLE_EVERY: Duration = 1_000;

/** Characters of a value that an operator wrote; ids and reasons are shorter. */
const LONGEST_VALUE = 300;

/** What an operator did, as `GET /audit` shows it. */
export interface AuditEntry extends Operator {
  /** Sorts as the actions were done. */
  readonly id: string;
  readonly at: string;
  readonly did: "purge" | "node" | "upstream" | "discovery";
  /** As it was asked for. */
  readonly what: unknown;
  /** The replica that was asked. */
  readonly replica: string;
  readonly scope: PurgeReach;
  /** Which replicas took it, as its answer said; null: that was not asked, or is not known yet. */
  readonly replicas: ReplicasReached | null;
}

/** What `GET /audit` answers. */
export interface AuditPage {
  /** The latest first. */
  readonly actions: readonly AuditEntry[];
  /** What `before` takes to read on; null: there is nothing before. */
  readonly next: string | null;
  /** Of all replicas, for a month; false: of this one since it started, because there is no Redis or it is away. */
  readonly isShared: boolean;
  /** How many of this page cannot be read: sealed with a key that is gone. */
  readonly unreadable: number;
}

interface AuditOptions {
  readonly clock: Clock;
  readonly log: Logger;
  readonly shared: Pick<Coordinator, "audit">;
  /** Redis is there, and nothing of what operators did so waits to be written to it. */
  readonly isWritten: (did: AuditEntry["did"]) => boolean;
}

interface Noted extends Pick<AuditEntry, "what" | "scope"> {
  /** Never rejects; undefined: it has not left this replica yet. */
  readonly replicas: Promise<ReplicasReached> | undefined;
}

/** What operators did, the latest first, and what they are reminded of while it is in force. */
export class Audit {
  private readonly options: AuditOptions;
  /** What was done through this listener. */
  private readonly entries: AuditEntry[] = [];
  private count = 0;
  private cancelReminder: CancelTimer | undefined;
  private cancelSettling: CancelTimer | undefined;

  constructor(options: AuditOptions) {
    this.options = options;
  }

  /** Notes what was done: one entry, and one line in the log. Who took it is added once it is known. */
  note(did: AuditEntry["did"], operator: Operator, { what, scope, replicas }: Noted): void {
    const now = this.options.clock.wallNow();
    const shown = shorten(what as Readonly<Record<string, unknown>>);
    const at = new Date(now).toISOString();
    const replica = thisReplica.name;
    this.put({ id: this.nextId(now), at, did, ...operator, what: shown, replica, scope, replicas: null });
    const { id } = this.entries[0]!;
    void replicas?.then((reached) => this.change(id, { replicas: reached }));
    if (scope === "pending") this.settleLater();
    // Ids and addresses stay out of the log; an admin has its alias there, a node its place.
    const { instrument: _, contract: __, admin: ___, url: ____, ...logged } = shown;
    this.options.log.warn({ did, ...logged, ...operator, reach: scope }, "operator action");
  }

  /** What was done before `before`, by all replicas where Redis is there. */
  async page({ before, limit }: RecordPage): Promise<AuditPage> {
    this.settle();
    const found = await this.options.shared.audit.records({ before, limit });
    const last = found?.last;
    const isOnPage = ({ id }: AuditEntry) =>
      (before === undefined || id < before) && (last === undefined || id >= last);
    const read = (found?.records ?? []).map(readEntry).filter((entry) => entry !== undefined);
    const entries = new Map(read.map((entry) => [entry.id, entry]));
    for (const entry of this.entries.filter(isOnPage)) entries.set(entry.id, entry);
    const all = [...entries.values()].toSorted((a, b) => (a.id < b.id ? 1 : -1));
    const actions = all.slice(0, limit);
    const next = all.length > limit ? actions.at(-1)!.id : (last ?? null);
    const unreadable = found === undefined ? 0 : found.unreadable + found.records.length - read.length;
    return { actions, next, isShared: found !== undefined, unreadable };
  }

  /** From now on, a line in the log for each action in force, every ten minutes. */
  remind(inForce: () => readonly ActionReport[]): void {
    this.cancelReminder = this.options.clock.after(REMIND_EVERY, () => {
      for (const { url: _, ...logged } of inForce()) this.options.log.warn(logged, "operator action in force");
      this.remind(inForce);
    });
  }

  close(): void {
    this.cancelReminder?.();
    this.cancelSettling?.();
  }

  /** The time, a count within one millisecond, and random letters that no other replica has. */
  private nextId(now: number): string {
    this.count = (this.count + 1) % 36 ** 4;
    const count = this.count.toString(36).padStart(4, "0");
    return `${String(now).padStart(13, "0")}-${count}${randomBytes(4).toString("hex")}`;
  }

  private put(entry: AuditEntry): void {
    this.entries.unshift(entry);
    this.entries.length = Math.min(this.entries.length, KEPT);
    this.share(entry);
  }

  private change(id: string, changes: Partial<AuditEntry>): void {
    const index = this.entries.findIndex((entry) => entry.id === id);
    if (index === -1) return;
    this.entries[index] = { ...this.entries[index]!, ...changes };
    this.share(this.entries[index]);
  }

  private share(entry: AuditEntry): void {
    const text = JSON.stringify(entry);
    // Names of very many replicas.
    this.options.shared.audit.record(
      entry.id,
      text.length > LONGEST_RECORD ? JSON.stringify({ ...entry, replicas: null }) : text,
    );
  }

  /** A pending action has reached all once nothing like it waits for Redis. */
  private settle(): void {
    const pending = this.entries.filter(({ scope }) => scope === "pending");
    for (const { id, did } of pending) if (this.options.isWritten(did)) this.change(id, { scope: "fleet" });
  }

  private settleLater(): void {
    this.cancelSettling?.();
    this.cancelSettling = this.options.clock.after(SETTLE_EVERY, () => {
      this.settle();
      if (this.entries.some(({ scope }) => scope === "pending")) this.settleLater();
    });
  }
}

const Name = Type.Object({ name: Type.String(), version: Type.String(), revision: Type.String() });

/** The form of an entry in Redis, where others may write. */
const entryValidator = Compile(
  Type.Object({
    id: Type.String(),
    at: Type.String(),
    did: Type.Union(["purge", "node", "upstream", "discovery"].map((did) => Type.Literal(did))),
    by: Type.String(),
    from: Type.String(),
    what: Type.Object({}),
    replica: Type.String(),
    scope: Type.Union(PURGE_REACHES.map((reach) => Type.Literal(reach))),
    replicas: Type.Union([
      Type.Null(),
      Type.Object({ took: Type.Array(Name), missing: Type.Array(Name), of: Type.Integer({ minimum: 0 }) }),
    ]),
  }),
);

/** Undefined: it is no entry. */
function readEntry(text: string): AuditEntry | undefined {
  const entry = parseJson(text);
  return entryValidator.Check(entry) ? entry : undefined;
}

/** What an operator asked for, with values that a page can show. */
function shorten(what: Readonly<Record<string, unknown>>): Record<string, unknown> {
  const cut = (value: unknown) =>
    typeof value === "string" && value.length > LONGEST_VALUE ? `${value.slice(0, LONGEST_VALUE)}…` : value;
  return Object.fromEntries(Object.entries(what).map(([key, value]) => [key, cut(value)]));
}

/** An id of an entry, or milliseconds since the Unix epoch, which is before all that were done then. */
const CURSOR = /^[0-9]{13}(?:-[0-9a-z]{12})?$/;

/**
 * `before` is the `next` of an earlier page, or a time (RFC 3339); `limit` from 1 to 500.
 *
 * @throws GatewayError 400 for anything else
 */
export function parseAuditQuery(query: unknown): RecordPage {
  const { before, limit: asked } = readQuery(query, ["before", "limit"]);
  const limit = readLimit(asked);
  if (before === undefined) return { limit };
  const time = /^\d{4}-\d\d-\d\dT/.test(before) ? Date.parse(before) : Number.NaN;
  if (time >= 0) return { before: String(time).padStart(13, "0"), limit };
  if (CURSOR.test(before)) return { before, limit };
  throw new GatewayError(
    "invalid_query",
    "before must be next of an earlier answer of this path, or a time such as 2026-11-24T09:30:00Z",
  );
}
