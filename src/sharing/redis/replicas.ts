import { randomUUID } from "node:crypto";
import type { Clock, Duration, Instant } from "../../clock.ts";
import type { LostReplicas, Replicas } from "../ports.ts";
import type { Ask, RedisConnection } from "./connection.ts";
import type { Keys } from "./keys.ts";

/** A replica that has not beaten for so long takes no part of the limits. It beats each second. */
const LIFE: Duration = 5_000;

/** One that has not beaten for so long, and did not say that it leaves, is lost. */
const SILENT: Duration = 10_000;

/** It is remembered for so long: by then its operator does without it. */
const MEMORY: Duration = 3_600_000;

/** One that has just begun takes the place of one that is, or falls, silent: a process that was started again is not missed. */
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
    this.live = Math.max(1, live);
    if (lost !== (this.missed?.count ?? 0)) {
      this.missed = lost === 0 ? undefined : { count: lost, since: this.clock.wallNow() - longest };
    }
    this.hasTakenOver ||= hasTakenOver === 1;
  }

  /** The others need not wait until it is missed. */
  leave(): void {
    this.connection.tell("leave", 0, (redis) => redis.zrem(this.key, this.id));
  }
}
