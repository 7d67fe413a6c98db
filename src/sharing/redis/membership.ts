import { randomBytes } from "node:crypto";
import type { Clock, Duration, Instant } from "../../clock.ts";
import type { Row } from "../coordination.ts";
import { heldTo, type Member, memberIn } from "./member.ts";

/** A replica that says nothing for as long is gone. */
export const SILENT_AFTER: Duration = 5_000;

/** When Redis is there, or there again, all replicas have found that out and said so within this time. */
export const CHANGING_OVER: Duration = 1_500;

/** How many there may be, for a replica that has not seen the others yet: a share too small costs a wait, no more. */
const ASSUMED = 4;

/** Who is alive besides this replica, as Redis said last, and what share of a whole is this one's. */
export class Membership {
  /** This replica. */
  readonly id: string = randomBytes(9).toString("base64url");
  /** The others as last seen. */
  others: ReadonlyMap<string, Member> = new Map();
  private readonly clock: Clock;
  /** As last seen, sorted: every replica that sees the same ones has the same order. */
  private ids: readonly string[] = [this.id];
  /** Those before Redis went away: in a Redis that is back, the others may not have said yet that they live. */
  private before: readonly string[] = [];
  private connectedAt: Instant = Infinity;
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
    this.connectedAt = this.clock.now();
    this.before = this.isAcquainted ? this.ids : [];
  }

  /** Takes over what Redis has at `time` of its clock. Returns the ids of those that are gone. */
  merge(rows: ReadonlyMap<string, Row>, time: Instant): string[] {
    const isAlive = ({ until }: Row) => until !== undefined && until > time && until <= time + 2 * SILENT_AFTER;
    const others = [...rows].filter(([id]) => id !== this.id);
    const alive = others.filter(([, row]) => isAlive(row));
    this.others = new Map(alive.map(([id, { text }]) => [id, heldTo(memberIn(text)!, time)]));
    if (this.clock.now() - this.connectedAt >= CHANGING_OVER) {
      this.before = [];
      this.isAcquainted = true;
    }
    this.ids = [...new Set([this.id, ...this.others.keys(), ...this.before])].sort();
    return others.filter(([, row]) => !isAlive(row)).map(([id]) => id);
  }
}
