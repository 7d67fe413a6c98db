import { randomBytes } from "node:crypto";
import type { Clock, Duration, Instant } from "../../clock.ts";
import type { Row } from "../ports.ts";
import type { LostReplica } from "../replicas.ts";
import { heldTo, type Member, memberIn } from "./member.ts";

/** How often a replica says that it lives. */
export const BEAT_EVERY: Duration = 1_000;

/** A replica that says nothing for as long is gone. */
export const SILENT_AFTER: Duration = 5_000;

/** When Redis is there, or there again, all replicas have found that out and said so within this time. */
export const CHANGING_OVER: Duration = 1_500;

/** How many there may be, for a replica that has not seen the others yet: a share too small costs a wait, no more. */
const ASSUMED = 4;

/** A replica that is lost was taken away for good after so long. */
const LOST_FOR: Duration = 30 * 60_000;
const MOST_LOST = 64;

/** Who is alive besides this replica, as Redis said last, and what share of a whole is this one's. */
export class Membership {
  /** This replica. */
  readonly id: string = randomBytes(9).toString("base64url");
  /** The others as last seen. */
  others: ReadonlyMap<string, Member> = new Map();
  /**
   * From then on ({@link Clock.steadyNow}) every replica goes by the ones that there are; before, some may have gone by those
   * that there were.
   */
  agreedAt: Instant = -Infinity;
  private readonly clock: Clock;
  /** As last seen, sorted: every replica that sees the same ones has the same order. */
  private ids: readonly string[] = [this.id];
  /** Those before Redis went away: in a Redis that is back, the others may not have said yet that they live. */
  private before: readonly string[] = [];
  private connectedAt: Instant = Infinity;
  /** Until when by Redis's clock each of the others had said that it lives, over this connection. */
  private saidUntil = new Map<string, Instant>();
  /** By id, with how many replicas there were with it. */
  private readonly gone = new Map<string, LostReplica & { readonly before: number }>();
  /** It was connected for long enough to have seen the others. */
  private isAcquainted = false;

  constructor(clock: Clock) {
    this.clock = clock;
  }

  /** How many there were when Redis was last there; at least this one. */
  get count(): number {
    return this.ids.length;
  }

  /** The same, but a replica that has not seen the others yet assumes some. */
  get likelyCount(): number {
    return this.isAcquainted ? this.count : Math.max(this.count, ASSUMED);
  }

  /** Those that have not said yet that they live in a Redis that is back. */
  get unseen(): number {
    return this.before.filter((id) => id !== this.id && !this.others.has(id)).length;
  }

  /** What this replica may take of `whole` by itself: the shares of all that were last seen add up to it. */
  shareOf(whole: number): number {
    const count = this.likelyCount;
    if (!this.isAcquainted) return Math.max(1, Math.floor(whole / count));
    const rank = this.ids.indexOf(this.id);
    return Math.floor(whole / count) + (rank < whole % count ? 1 : 0);
  }

  /** There is a connection, new or again. */
  connected(): void {
    if (this.connectedAt === Infinity) this.changed();
    this.connectedAt = this.clock.now();
    this.before = this.isAcquainted ? this.ids : [];
    this.saidUntil = new Map();
  }

  /** See {@link ReplicasPort.lost}. */
  lost(): readonly LostReplica[] {
    const gone = [...this.gone.values()].toReversed();
    const replaced = Math.max(0, ...gone.map(({ before }) => before)) - this.count;
    return gone.slice(0, Math.max(0, replaced)).map(({ name, since }) => ({ name, since }));
  }

  /**
   * Takes over what Redis has at `time` of its clock, once it has what this replica says. Returns the ids of those that are
   * gone.
   */
  merge(rows: ReadonlyMap<string, Row>, time: Instant): string[] {
    const left = ({ until = -Infinity }: Row) => until - time;
    const isAlive = (row: Row) => left(row) > 0 && left(row) <= 2 * SILENT_AFTER;
    const own = rows.get(this.id);
    if (own === undefined || !isAlive(own) || left(own) <= SILENT_AFTER - 2 * BEAT_EVERY) {
      // It takes nothing from the others either: their silence says nothing, until it takes something again and for as
      // long after that as after a new connection.
      this.connected();
      return [];
    }
    const others = [...rows].filter(([id]) => id !== this.id);
    const alive = others.filter(([, row]) => isAlive(row));
    this.noteLost(new Map(alive.map(([id, { until }]) => [id, until!])), time);
    this.others = new Map(alive.map(([id, { text }]) => [id, heldTo(memberIn(text)!, time)]));
    if (this.clock.now() - this.connectedAt >= CHANGING_OVER) {
      this.before = [];
      this.isAcquainted = true;
    }
    const ids = [...new Set([this.id, ...this.others.keys(), ...this.before])].sort();
    if (ids.join() !== this.ids.join()) this.changed();
    this.ids = ids;
    return others.filter(([, row]) => !isAlive(row)).map(([id]) => id);
  }

  private changed(): void {
    this.agreedAt = this.clock.steadyNow() + CHANGING_OVER;
  }

  /** One that stops takes its row away before that ends; of one that is lost the row ends. */
  private noteLost(alive: ReadonlyMap<string, Instant>, time: Instant): void {
    const now = this.clock.now();
    for (const [id, until] of this.saidUntil) {
      if (alive.has(id) || time < until) continue;
      this.gone.set(id, { name: this.others.get(id)?.name ?? "unknown", since: now, before: this.count });
    }
    for (const [id, { since }] of this.gone) {
      if (alive.has(id) || now - since > LOST_FOR || this.gone.size > MOST_LOST) this.gone.delete(id);
    }
    this.saidUntil = new Map(alive);
  }
}
