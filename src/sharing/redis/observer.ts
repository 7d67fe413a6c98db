import type { Duration } from "../../clock.ts";

/** How one command to Redis ended. */
export const COMMAND_OUTCOMES = ["ok", "error", "timeout"] as const;
export type CommandOutcome = (typeof COMMAND_OUTCOMES)[number];

/** What is read from Redis, by what it is for: where it is not the gateway's it is taken for absent, and counted. */
export const REDIS_VALUES = [
  "entry",
  "epoch",
  "chain",
  "lease",
  "fact",
  "action",
  "replica",
  "message",
  "pin",
  "change",
  "text",
] as const;
export type RedisValue = (typeof REDIS_VALUES)[number];

/** Why it is not the gateway's: by its form, or because its seal does not open. */
export const REJECTIONS = ["form", "seal"] as const;
export type Rejection = (typeof REJECTIONS)[number];

/** Is notified of what happens between this process and Redis; for metrics and logs. Must not throw. */
export interface RedisObserver {
  /** Redis may be read and written from now on, or no longer; `reason` is for the log. */
  stateChanged(state: "up" | "away", reason: string): void;
  /** There is no connection, and why: the rest of a sentence that begins with "Redis". Reported once for each fault. */
  connectionFailed(why: string): void;
  /** A command ended. `name` is one of a handful. */
  commandEnded(name: string, outcome: CommandOutcome, duration: Duration): void;
  /** A value was not written: too much is waiting to be written already. */
  writeDropped(): void;
  /** A value in Redis was damaged or foreign, and taken for absent. */
  valueRejected(value: RedisValue, why: Rejection): void;
  /** The key file was looked at: why it cannot be used (the last good keys stay in use), or undefined. */
  sealKeyLooked(fault: string | undefined): void;
  /** This process's wall clock is so far ahead of Redis's; negative: behind. */
  clockCompared(ahead: Duration): void;
  /** A purge by another replica took effect here, so long after it was written to Redis. */
  purgeArrived(lag: Duration): void;
}
