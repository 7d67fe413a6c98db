import { type Duration, type Instant, sleep } from "../../clock.ts";
import type { MergedRows, PurgeReach, Row } from "../ports.ts";
import type {
  LostReplica,
  Replica,
  ReplicaName,
  ReplicaReport,
  ReplicasPort,
  ReplicasReached,
  ReplicaState,
} from "../replicas.ts";
import { type Change, Changes, isMemberRow, type Member } from "./member.ts";
import { BEAT_EVERY, CHANGING_OVER, Membership, SILENT_AFTER } from "./membership.ts";
import { defineScript } from "./scripts.ts";
import { SharedTable, type TableParts } from "./shared-table.ts";

/** By then the first row of a replica is written. */
const FIRST_ROW: Duration = 100;

/** Replicas that cannot say what they took, at most: the answer names each. */
const MOST_UNKNOWN = 64;

/** How long an operator waits to learn who took what was done, and how often is looked. */
const LONGEST_WAIT: Duration = 1_000;
const LOOK_EVERY: Duration = 10;

/** Counts replicas of a release before this one. KEYS: the sorted set in which they say that they live. */
const countEarlier = defineScript(
  "replicas_earlier",
  "no-writes",
  `
local time = redis.call('TIME')
local count = redis.pcall('ZCOUNT', KEYS[1], time[1] * 1000 - ${SILENT_AFTER}, '+inf')
return type(count) == 'number' and count or 0`,
);

const UNKNOWN: ReplicaName = { name: "unknown", version: "-", revision: "-" };

export interface ReplicasOptions extends TableParts {
  readonly self: ReplicaReport;
  /** This process goes by all that was written before then, see {@link SharedTable.asOf}. */
  readonly readAsOf: () => Instant;
}

/**
 * The replicas at one Redis: each says every second that it lives and how it does, and at once what it took from the shared
 * tables.
 */
export class Replicas implements ReplicasPort {
  readonly members: Membership;
  private readonly options: ReplicasOptions;
  private readonly shared: SharedTable;
  private readonly changes: Changes;
  private stateOf: (() => ReplicaState) | undefined;
  private beatAt: Instant = -Infinity;
  /** See {@link Member}; the greatest since the connection is there. */
  private asOf: Instant = -Infinity;
  /** Something was taken that the row in Redis does not say. */
  private isBehind = false;
  private isClosed = false;
  private version = 0;

  constructor(options: ReplicasOptions) {
    this.options = options;
    this.members = new Membership(options.clock);
    this.changes = new Changes(options.clock);
    const { replicas: key } = options.connection.keys;
    this.shared = new SharedTable({ ...options, kind: "replica", key, tag: "replicas", accepts: isMemberRow });
    this.shared.follow((rows, time) => this.merge(rows, time));
  }

  alive(): readonly Replica[] {
    const { self } = this.options;
    const others = [...this.members.others.values()].toSorted((a, b) => (a.name < b.name ? -1 : 1));
    return [{ ...self, state: this.stateOf?.() }, ...others];
  }

  lost(): readonly LostReplica[] {
    return this.members.lost();
  }

  introduce(state: () => ReplicaState): void {
    this.stateOf = state;
  }

  /** There is a connection, new or again. */
  connected(): void {
    this.asOf = -Infinity;
    this.members.connected();
    this.beat();
    this.options.clock.after(CHANGING_OVER + FIRST_ROW, () => this.beat());
  }

  /** A message says that a row is another one. */
  look(tag: string): void {
    this.shared.look(tag);
  }

  /** Notes that this replica goes by a change from now on: another one may wait to know. */
  took(change: Change): void {
    if (!this.changes.take(change)) return;
    this.isBehind = true;
    // At once, but what was taken in one turn is said together.
    queueMicrotask(() => {
      if (this.isBehind) this.shared.look();
    });
  }

  /** Notes that this replica made a change, and wrote it at `time` by Redis's clock. */
  wrote(change: Change, time: Instant): void {
    this.changes.wrote(change, time);
  }

  async whoTook(since: Instant, reach: PurgeReach): Promise<ReplicasReached> {
    const { clock, connection, self } = this.options;
    const end = clock.now() + LONGEST_WAIT;
    const isShared = reach === "fleet";
    const unknown = this.countUnknown();
    const hasTaken = isShared ? this.changes.takenSince(since) : () => false;
    const others = () => [...this.members.others.values()];
    const mayWait = () => isShared && clock.now() < end && connection.isConnected;
    while (mayWait() && !others().every(hasTaken)) await sleep(LOOK_EVERY, clock);
    const took = [self, ...others().filter(hasTaken)].map(nameOf);
    const late = others().filter((each) => !hasTaken(each));
    const missing = [...late.map(nameOf), ...Array.from({ length: await unknown }, () => UNKNOWN)];
    return { took, missing, of: took.length + missing.length };
  }

  async countUnknown(): Promise<number> {
    const { connection } = this.options;
    const call = { script: countEarlier, keys: [connection.keys.earlierReplicas], args: [] };
    const earlier = await connection.run(call, LONGEST_WAIT).catch(() => 0);
    return Math.min(MOST_UNKNOWN, this.shared.closedRows + this.members.unseen + Number(earlier));
  }

  async close(): Promise<void> {
    this.isClosed = true;
    await this.shared.synchronise().catch(() => undefined);
  }

  private beat(): void {
    this.beatAt = -Infinity;
    this.shared.look();
  }

  private row(): string {
    const asOf = this.asOf > -Infinity ? { asOf: Math.floor(this.asOf) } : {};
    const state = this.stateOf === undefined ? {} : { state: this.stateOf() };
    return JSON.stringify({ ...this.options.self, taken: this.changes.taken, ...asOf, ...state } satisfies Member);
  }

  private merge(rows: ReadonlyMap<string, Row>, time: Instant): MergedRows {
    const { id } = this.members;
    const changes = new Map<string, Row | undefined>(this.members.merge(rows, time).map((gone) => [gone, undefined]));
    if (this.isClosed) return { rows: rows.has(id) ? changes.set(id, undefined) : changes };
    const wasKnown = this.asOf > -Infinity;
    this.asOf = Math.max(this.asOf, Math.min(this.options.readAsOf(), time));
    // After a connection was lost, messages were too: others may wait for this.
    if (!wasKnown && this.asOf > -Infinity) this.isBehind = true;
    const now = this.options.clock.now();
    const isDue = now - this.beatAt >= BEAT_EVERY || !rows.has(id);
    if (!isDue && !this.isBehind) return { rows: changes, isQuiet: true };
    const isQuiet = !this.isBehind && rows.has(id);
    this.beatAt = now;
    this.isBehind = false;
    this.version += 1;
    changes.set(id, { version: this.version, until: Math.floor(time + SILENT_AFTER), text: this.row() });
    return { rows: changes, isQuiet };
  }
}

function nameOf({ name, version, revision }: ReplicaName): ReplicaName {
  return { name, version, revision };
}
