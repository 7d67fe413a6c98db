import { randomUUID } from "node:crypto";
import type { Clock, Duration, Instant } from "../../clock.ts";
import type { LostReplicas, Replicas } from "../ports.ts";
import type { Ask, RedisConnection } from "./connection.ts";
import type { Keys } from "./keys.ts";

/** Silence after which a replica takes no part of the limits. It beats each second. */
const LIFE: Duration = 5_000;

/** Silence after which a replica is lost, unless it said that it leaves. */
const SILENT: Duration = 10_000;

/** Silence after which a replica is forgotten: by then its operator does without it. */
const MEMORY: Duration = 3_600_000;

/** Age up to which a replica takes the place of a silent one: a process that was started again is not missed. */
const YOUNG: Duration = 15_000;

/** Replicas that beat, by Redis's clock; while Redis is away, those last seen. */
export class RedisReplicas implements Replicas {
  private readonly connection: RedisConnection;
  private readonly key: string;
  private readonly clock: Clock;
  private readonly id = randomUUID();
  private readonly youngUntil: Instant;
  private hasTakenOver = false;
  private live = 1;
  /** When Redis came. */
  private cameAt: Instant = -Infinity;
  private missed: LostReplicas | undefined;

  constructor(connection: RedisConnection, keys: Keys, clock: Clock) {
    this.connection = connection;
    this.key = keys.replicas;
    this.clock = clock;
    this.youngUntil = clock.now() + YOUNG;
  }

  count(): number {
    return this.live;
  }

  lost(): LostReplicas | undefined {
    return this.missed;
  }

  async beat(ask: Ask): Promise<void> {
    const mayTakeOver = !this.hasTakenOver && this.clock.now() < this.youngUntil ? 1 : 0;
    const [live, lost, longest, hasTakenOver] = await ask("beat", (redis) =>
      redis.beat(this.key, this.id, LIFE, SILENT, MEMORY, mayTakeOver),
    );
    const now = this.clock.now();
    if (this.connection.status().redis !== "up") this.cameAt = now;
    // The first to beat sees itself alone.
    this.live = now - this.cameAt < LIFE ? Math.max(this.live, live) : Math.max(1, live);
    if (lost !== (this.missed?.count ?? 0)) {
      this.missed = lost === 0 ? undefined : { count: lost, since: this.clock.wallNow() - longest };
    }
    this.hasTakenOver ||= hasTakenOver === 1;
  }

  /** Says that this replica leaves, so that nobody misses it. */
  leave(): void {
    this.connection.tell("leave", 0, (redis) => redis.zrem(this.key, this.id));
  }
}
