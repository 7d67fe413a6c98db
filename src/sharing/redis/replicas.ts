import { randomBytes } from "node:crypto";
import { type Static, Type } from "typebox";
import { Compile } from "typebox/compile";
import { type Clock, type Duration, type Instant, sleep } from "../../clock.ts";
import { digestOf } from "../../digest.ts";
import type { MergedRows, Row } from "../coordination.ts";
import type { ReplicaReport, ReplicasReached } from "../ports.ts";
import { defineScript } from "./scripts.ts";
import { SharedTable, type TableParts } from "./shared-table.ts";

const BEAT_EVERY: Duration = 1_000;

/** A replica that says nothing for as long is gone. */
const SILENT_AFTER: Duration = 5_000;

/** When Redis is there, or there again, all replicas have found that out and said so within this time. */
export const CHANGING_OVER: Duration = 1_500;

/** How many there may be, for a replica that has not seen the others yet: a share too small costs a wait, no more. */
const ASSUMED = 4;

/** Changes that a replica says it took, the latest last. */
const MOST_TAKEN = 64;

/** Replicas that cannot say what they took, at most: the answer names each. */
const MOST_UNKNOWN = 64;

/** How long an operator waits to learn who took what was done, and how often is looked. */
const LONGEST_WAIT: Duration = 1_000;
const LOOK_EVERY: Duration = 10;

const Name = (maxLength: number) => Type.String({ maxLength, pattern: "^[^\\x00-\\x1f\\x7f]*$" });

/** What a replica says of itself. */
const Member = Type.Object(
  {
    name: Name(128),
    version: Name(64),
    revision: Name(64),
    /** When it started (RFC 3339). */
    since: Name(40),
    /** Digests of the changes that it took from the tables it follows. */
    taken: Type.Array(Type.String({ maxLength: 22 }), { maxItems: MOST_TAKEN }),
    /** It goes by all that was written before then (Unix ms by Redis's clock), used or not; absent: it is not known. */
    asOf: Type.Optional(Type.Integer({ minimum: 0 })),
  },
  { additionalProperties: false },
);

type Member = Static<typeof Member>;

/** A row of a shared table as it was changed. */
export interface Change {
  readonly table: string;
  readonly name: string;
  readonly text: string;
}

/** When a change was written, here and by Redis's clock. */
interface Written {
  readonly at: Instant;
  readonly time: Instant;
}

const validator = Compile(Member);

/** Of a replica: 9 random bytes in base64url. */
const ID = /^[\w-]{12}$/;

/** Counts replicas of a release before this one. KEYS: the sorted set in which they say that they live. */
const countEarlier = defineScript(
  "replicas_earlier",
  "no-writes",
  `
local time = redis.call('TIME')
local count = redis.pcall('ZCOUNT', KEYS[1], time[1] * 1000 - ${SILENT_AFTER}, '+inf')
return type(count) == 'number' and count or 0`,
);

/** The replicas at one Redis: each says every second that it lives, and at once what it took from the shared tables. */
export class Replicas {
  /** This replica. */
  readonly id: string = randomBytes(9).toString("base64url");
  private readonly parts: TableParts;
  private readonly self: ReplicaReport;
  private readonly clock: Clock;
  private readonly shared: SharedTable;
  /** The others as last seen. */
  private others: ReadonlyMap<string, Member> = new Map();
  /** As last seen, sorted: every replica that sees the same ones has the same order. */
  private ids: readonly string[] = [this.id];
  /** Those before Redis went away: in a Redis that is back, the others may not have said yet that they live. */
  private before: readonly string[] = [];
  private connectedAt: Instant = Infinity;
  /** It was connected for long enough to have seen the others. */
  private isAcquainted = false;
  private beatAt: Instant = -Infinity;
  private taken: string[] = [];
  /** See {@link Member}; the greatest since the connection is there. */
  private asOf: Instant = -Infinity;
  /** Something was taken that the row in Redis does not say. */
  private isBehind = false;
  private isClosed = false;
  private version = 0;
  /** What this replica wrote lately, and when. */
  private readonly written = new Map<string, Written>();
  private readonly readAsOf: () => Instant;

  /** @param readAsOf this process goes by all that was written before then, see {@link SharedTable.asOf} */
  constructor(parts: TableParts, self: ReplicaReport, readAsOf: () => Instant) {
    this.parts = parts;
    this.self = self;
    this.readAsOf = readAsOf;
    this.clock = parts.clock;
    const accepts = (id: string, text: string) => ID.test(id) && memberIn(text) !== undefined;
    const { replicas: key } = parts.connection.keys;
    this.shared = new SharedTable({ ...parts, kind: "replica", key, tag: "replicas", accepts });
    this.shared.follow((rows, time) => this.merge(rows, time));
  }

  /** How many there were when Redis was last there; at least this one. */
  get count(): number {
    return this.ids.length;
  }

  /** The same, but a replica that has not seen the others yet assumes some. */
  get likelyCount(): number {
    return this.isAcquainted ? this.count : Math.max(this.count, ASSUMED);
  }

  /** What this replica may take of `whole` by itself: the shares of all that were last seen add up to it. */
  shareOf(whole: number): number {
    const count = this.likelyCount;
    if (!this.isAcquainted) return Math.max(1, Math.floor(whole / count));
    const rank = this.ids.indexOf(this.id);
    return Math.floor(whole / count) + (rank < whole % count ? 1 : 0);
  }

  /** The replicas that are known, this one first. */
  report(): ReplicaReport[] {
    return [this.self, ...this.others.values()].map(({ name, version, revision, since }) => ({
      name,
      version,
      revision,
      since,
    }));
  }

  /** There is a connection, new or again. */
  connected(): void {
    this.connectedAt = this.clock.now();
    this.asOf = -Infinity;
    this.before = this.isAcquainted ? this.ids : [];
    this.beat();
    this.clock.after(CHANGING_OVER + 1, () => this.beat());
  }

  /** A message says that a row is another one. */
  look(tag: string): void {
    this.shared.look(tag);
  }

  /** Notes that this replica goes by a change from now on: another one may wait to know. */
  took(change: Change): void {
    const digest = digestOfChange(change);
    if (this.taken.includes(digest)) return;
    this.taken = [...this.taken, digest].slice(-MOST_TAKEN);
    this.isBehind = true;
    this.say();
  }

  /** Notes that this replica made a change, and wrote it at `time` by Redis's clock. */
  wrote(change: Change, time: Instant): void {
    this.written.set(digestOfChange(change), { at: this.clock.now(), time });
    if (this.written.size > MOST_TAKEN) this.written.delete(this.written.keys().next().value!);
  }

  /**
   * Which replicas took all that this one wrote from `since` on. Resolves as soon as all of them have, and within 1 s with
   * those that have by then.
   *
   * @param isShared it is in Redis: else this replica alone has taken it
   */
  async whoTook(since: Instant, isShared: boolean): Promise<ReplicasReached> {
    const end = this.clock.now() + LONGEST_WAIT;
    const unknown = this.countUnknown();
    const changes = [...this.written].filter(([, { at }]) => at >= since);
    const hasTaken = ({ taken, asOf = -Infinity }: Member) =>
      isShared && changes.every(([digest, { time }]) => asOf > time || taken.includes(digest));
    const mayWait = () => isShared && this.clock.now() < end && this.parts.connection.isConnected;
    while (mayWait() && ![...this.others.values()].every(hasTaken)) await sleep(LOOK_EVERY, this.clock);
    return this.reachedBy(hasTaken, await unknown);
  }

  async close(): Promise<void> {
    this.isClosed = true;
    await this.shared.synchronise().catch(() => undefined);
    await this.shared.close();
  }

  private reachedBy(hasTaken: (member: Member) => boolean, unknown: number): ReplicasReached {
    const others = [...this.others.values()];
    const took = [this.self.name, ...others.filter(hasTaken).map(({ name }) => name)];
    const missing = others.filter((each) => !hasTaken(each)).map(({ name }) => name);
    missing.push(...Array<string>(unknown).fill("unknown"));
    return { took, missing, of: took.length + missing.length };
  }

  /**
   * Replicas that cannot say what they took: those of an earlier release, those with other seal keys, and those that have
   * not said yet that they live in a Redis that is back.
   */
  private async countUnknown(): Promise<number> {
    const { connection } = this.parts;
    const call = { script: countEarlier, keys: [connection.keys.earlierReplicas], args: [] };
    const earlier = await connection.run(call, LONGEST_WAIT).catch(() => 0);
    const unseen = this.before.filter((id) => id !== this.id && !this.others.has(id));
    return Math.min(MOST_UNKNOWN, this.shared.closedRows + unseen.length + Number(earlier));
  }

  private beat(): void {
    this.beatAt = -Infinity;
    this.shared.look();
  }

  /** At once, but what was taken in one turn is said together. */
  private say(): void {
    queueMicrotask(() => {
      if (this.isBehind) this.shared.look();
    });
  }

  private member(): Member {
    const asOf = this.asOf > -Infinity ? { asOf: Math.floor(this.asOf) } : {};
    return { ...this.self, taken: this.taken, ...asOf };
  }

  private merge(rows: ReadonlyMap<string, Row>, time: Instant): MergedRows {
    const now = this.clock.now();
    const isAlive = ({ until }: Row) => until !== undefined && until > time && until <= time + 2 * SILENT_AFTER;
    const alive = [...rows].filter(([id, row]) => id !== this.id && isAlive(row));
    this.others = new Map(alive.map(([id, { text }]) => [id, heldTo(memberIn(text)!, time)]));
    if (now - this.connectedAt >= CHANGING_OVER) {
      this.before = [];
      this.isAcquainted = true;
    }
    this.ids = [...new Set([this.id, ...this.others.keys(), ...this.before])].sort();
    const changes = new Map<string, Row | undefined>();
    for (const [id, row] of rows) if (id !== this.id && !isAlive(row)) changes.set(id, undefined);
    if (this.isClosed) return { rows: rows.has(this.id) ? changes.set(this.id, undefined) : changes };
    const wasKnown = this.asOf > -Infinity;
    this.asOf = Math.max(this.asOf, Math.min(this.readAsOf(), time));
    // After a connection was lost, messages were too: others may wait for this.
    if (!wasKnown && this.asOf > -Infinity) this.isBehind = true;
    const isDue = now - this.beatAt >= BEAT_EVERY || !rows.has(this.id);
    if (!isDue && !this.isBehind) return { rows: changes, isQuiet: true };
    const isQuiet = !this.isBehind && rows.has(this.id);
    this.beatAt = now;
    this.isBehind = false;
    this.version += 1;
    const text = JSON.stringify(this.member());
    changes.set(this.id, { version: this.version, until: Math.floor(time + SILENT_AFTER), text });
    return { rows: changes, isQuiet };
  }
}

/** A time that is still to come by Redis's clock is of another Redis: it says nothing. */
function heldTo(member: Member, time: Instant): Member {
  const { asOf, ...others } = member;
  return asOf !== undefined && asOf > time ? others : member;
}

function digestOfChange({ table, name, text }: Change): string {
  return digestOf(`${table}\n${name}\n${text}`, 16);
}

function memberIn(text: string): Member | undefined {
  try {
    const value: unknown = JSON.parse(text);
    return validator.Check(value) ? value : undefined;
  } catch {
    return undefined;
  }
}
