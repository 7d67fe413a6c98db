import { randomBytes } from "node:crypto";
import type { CancelTimer, Clock, Duration, Instant } from "../../clock.ts";
import type { RedisConnection, RedisObserver } from "./connection.ts";
import { clearForeign, defineScript, NOW_MICROSECONDS } from "./protocol.ts";

const BEAT_EVERY: Duration = 1_000;

/** A replica that says nothing for as long is gone. */
const SILENT_AFTER: Duration = 5_000;

/** When Redis is there, or there again, all replicas have found that out and said so within this time. */
export const CHANGING_OVER: Duration = 1_500;

/** How many there may be, for a replica that has not seen the others yet: a share too small costs a wait, no more. */
const ASSUMED = 4;

/** Replicas that are counted; what is beyond is none. */
const MOST = 4_096;

/** Of a replica: 9 random bytes in base64url. */
const ID = /^[\w-]{12}$/;

/** Says that a replica lives. KEYS: replicas. ARGV: id, sealed, how long a silent one counts (ms). Returns the ids of all. */
const beat = defineScript(
  "replica_beat",
  "allow-oom",
  `${NOW_MICROSECONDS} ${clearForeign("zset")}
redis.call('ZADD', KEYS[1], string.format('%.3f', now), ARGV[1])
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', string.format('%.3f', now - ARGV[2]))
redis.call('PEXPIRE', KEYS[1], ARGV[2] * 2)
return redis.call('ZRANGE', KEYS[1], 0, ${MOST - 1})`,
);

/** Says that a replica is gone. KEYS: replicas. ARGV: id, sealed. */
const leave = defineScript("replica_leave", "allow-oom", `return redis.call('ZREM', KEYS[1], ARGV[1])`);

/** The replicas at one Redis: each says every second that it lives. */
export class Replicas {
  /** This replica. */
  readonly id: string = randomBytes(9).toString("base64url");
  private readonly connection: RedisConnection;
  private readonly clock: Clock;
  private readonly observer: Pick<RedisObserver, "valueRejected">;
  /** As last seen, sorted: every replica that sees the same ones has the same order. */
  private ids: readonly string[] = [this.id];
  /** Those before Redis went away: in a Redis that is back, the others may not have said yet that they live. */
  private before: readonly string[] = [];
  private connectedAt: Instant = Infinity;
  /** It was connected for long enough to have seen the others. */
  private isAcquainted = false;
  private cancel: CancelTimer = () => {};

  constructor(connection: RedisConnection, clock: Clock, observer: Pick<RedisObserver, "valueRejected">) {
    this.connection = connection;
    this.clock = clock;
    this.observer = observer;
    this.next();
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

  /** There is a connection, new or again. */
  connected(): void {
    this.connectedAt = this.clock.now();
    this.before = this.isAcquainted ? this.ids : [];
    void this.beat();
    this.clock.after(CHANGING_OVER + 1, () => void this.beat());
  }

  /** Says that this replica lives, and sees who else does. Never rejects. */
  private async beat(): Promise<void> {
    if (!this.connection.isConnected) return;
    const call = { script: beat, keys: [this.connection.keys.replicas], args: [this.member, SILENT_AFTER] };
    try {
      const members = (await this.connection.run(call)) as string[];
      const alive = members.flatMap((member) => this.idOf(member) ?? []);
      if (this.clock.now() - this.connectedAt >= CHANGING_OVER) {
        this.before = [];
        this.isAcquainted = true;
      }
      this.ids = [...new Set([this.id, ...alive, ...this.before])].sort();
    } catch {
      // Those last seen go on counting.
    }
  }

  /** This replica, in Redis. */
  private get member(): string {
    return this.connection.seals.seal({ kind: "replica", key: this.connection.keys.replicas }, this.id);
  }

  private idOf(member: string): string | undefined {
    const id = this.connection.seals.open({ kind: "replica", key: this.connection.keys.replicas }, member)?.text;
    if (id !== undefined && ID.test(id)) return id;
    this.observer.valueRejected("replica", id === undefined ? "seal" : "form");
    return undefined;
  }

  async close(): Promise<void> {
    this.cancel();
    if (!this.connection.isConnected) return;
    const call = { script: leave, keys: [this.connection.keys.replicas], args: [this.member] };
    await this.connection.run(call).catch(() => {});
  }

  private next(): void {
    this.cancel = this.clock.after(BEAT_EVERY, () => {
      void this.beat();
      this.next();
    });
  }
}
