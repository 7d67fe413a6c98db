import { COMMAND_OUTCOMES, type CommandOutcome, type RedisObserver } from "../sharing/redis/observer.ts";
import type { Logger } from "./log.ts";
import type { Metrics } from "./metrics.ts";
import type { CounterChild } from "./metrics/batches.ts";
import { withoutSecrets } from "./redaction.ts";
import { whenChanged } from "../recurrence.ts";

/** Counts what happens between this process and Redis, and logs when it comes and goes. */
export function createRedisObserver(metrics: Metrics, log: Logger): RedisObserver {
  metrics.redisConfigured.set(1);
  // For every look-up: their children are looked up once.
  const commands = Object.fromEntries(
    COMMAND_OUTCOMES.map((outcome) => [outcome, metrics.redisCommands.labels({ outcome })]),
  ) as Record<CommandOutcome, CounterChild>;
  const durations = metrics.redisDuration.labels({});
  const purgeLag = metrics.purgeLag.labels({});
  return {
    stateChanged(state, reason) {
      metrics.redisUp.set(state === "up" ? 1 : 0);
      const line = { to: state, reason: withoutSecrets(reason) };
      if (state === "up") log.info(line, "Redis state changed");
      else log.warn(line, "Redis state changed");
    },
    connectionFailed: (why) => log.error({ reason: withoutSecrets(`Redis ${why}`) }, "Redis cannot be connected to"),
    commandEnded(_name, outcome, duration) {
      commands[outcome].inc();
      durations.observe(duration / 1000);
    },
    writeDropped: () => metrics.redisDroppedWrites.inc(),
    valueRejected: (value, reason) => metrics.redisRejectedValues.inc({ value, reason }),
    sealKeyLooked: whenChanged<string | undefined>(undefined, (fault) => {
      if (fault === undefined) log.info({}, "seal key can be used again");
      else log.error({ reason: withoutSecrets(fault) }, "seal key cannot be used");
    }),
    clockCompared: (ahead) => metrics.redisClockOffset.set(ahead / 1000),
    purgeArrived: (lag) => purgeLag.observe(lag / 1000),
  };
}
