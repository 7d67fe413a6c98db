import type { Clock, Instant } from "../../clock.ts";
import { digestOf } from "../../digest.ts";
import { type Member, MOST_TAKEN } from "./member.ts";

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

/** The latest changes of shared tables that this replica took, and those that it wrote. */
export class Changes {
  /** Digests of those that it goes by, the latest last. */
  taken: string[] = [];
  private readonly clock: Clock;
  private readonly written = new Map<string, Written>();

  constructor(clock: Clock) {
    this.clock = clock;
  }

  /** This replica goes by it from now on. False: that was known. */
  take(change: Change): boolean {
    const digest = digestOfChange(change);
    if (this.taken.includes(digest)) return false;
    this.taken = [...this.taken, digest].slice(-MOST_TAKEN);
    return true;
  }

  /** This replica made it, and wrote it at `time` by Redis's clock. */
  wrote(change: Change, time: Instant): void {
    this.written.set(digestOfChange(change), { at: this.clock.now(), time });
    if (this.written.size > MOST_TAKEN) this.written.delete(this.written.keys().next().value!);
  }

  /** Says of a replica whether it goes by all that this one wrote from `since` on. */
  takenSince(since: Instant): (member: Member) => boolean {
    const changes = [...this.written].filter(([, { at }]) => at >= since);
    return ({ taken, asOf = -Infinity }) =>
      changes.every(([digest, { time }]) => asOf > time || taken.includes(digest));
  }
}

function digestOfChange({ table, name, text }: Change): string {
  return digestOf(`${table}\n${name}\n${text}`, 16);
}
