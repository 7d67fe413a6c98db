import type { Duration } from "../../clock.ts";

/** How one command to Redis ended. */
export const COMMAND_OUTCOMES = ["ok", "error", "timeout"] as const;
export type CommandOutcome = (typeof COMMAND_OUTCOMES)[number];

/** Is told what happens between this process and Redis; for metrics and logs. Must not throw. */
export interface RedisObserver {
  /** Redis may be read and written from now on, or no longer; `reason` is for the log. */
  stateChanged(state: "up" | "away", reason: string): void;
  /** There is no connection, and why: the rest of a sentence that begins with "Redis". Told once for each fault. */
  connectionFailed(why: string): void;
  /** A command ended. `name` is one of a handful. */
  commandEnded(name: string, outcome: CommandOutcome, duration: Duration): void;
  /** A value was not written: too much is waiting to be written already. */
  writeDropped(): void;
  /** A value in Redis was damaged or somebody else's, and taken for absent. */
  valueRejected(): void;
  /** A purge by another replica took effect here, so long after it was written to Redis. */
  purgeArrived(lag: Duration): void;
}
