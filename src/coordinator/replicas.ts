import { randomBytes } from "node:crypto";
import type { CancelTimer, Clock, Duration } from "../clock.ts";
import type { RedisLink } from "../redis/link.ts";
import { beat, leave } from "./budget-scripts.ts";

const BEAT_EVERY: Duration = 1_000;

/** A replica that says nothing for as long is gone. */
const SILENT_AFTER: Duration = 5_000;

/** Who else is there: each replica says every second that it lives. */
export class Replicas {
  /** This replica. */
  readonly id: string = randomBytes(9).toString("base64url");
  private readonly link: RedisLink;
  private readonly clock: Clock;
  /** As last seen, sorted: every replica that sees the same ones has the same order. */
  private ids: readonly string[] = [this.id];
  private cancel: CancelTimer = () => {};

  constructor(link: RedisLink, clock: Clock) {
    this.link = link;
    this.clock = clock;
    this.next();
  }

  /** How many there were when Redis was last there; at least this one. */
  get count(): number {
    return this.ids.length;
  }

  /** Which one of them this is, from 0. */
  get rank(): number {
    return Math.max(0, this.ids.indexOf(this.id));
  }

  /** Says that this replica lives, and sees who else does. Never rejects. */
  async beat(): Promise<void> {
    if (!this.link.isConnected) return;
    const call = { script: beat, keys: [this.link.keys.replicas], args: [this.id, SILENT_AFTER] };
    try {
      this.ids = ((await this.link.run(call, BEAT_EVERY)) as string[]).sort();
    } catch {
      // Those last seen go on counting.
    }
  }

  async close(): Promise<void> {
    this.cancel();
    if (!this.link.isConnected) return;
    const call = { script: leave, keys: [this.link.keys.replicas], args: [this.id] };
    await this.link.run(call, BEAT_EVERY).catch(() => {});
  }

  private next(): void {
    this.cancel = this.clock.after(BEAT_EVERY, () => {
      void this.beat();
      this.next();
    });
  }
}
