import type { Logger } from "pino";
import type { Clock, Duration } from "../clock.ts";
import type { RedisConfig } from "../config/schema.ts";
import { createAlone } from "./alone.ts";
import type { Sharing, SharingObserver } from "./ports.ts";
import { RedisConnection } from "./redis/connection.ts";
import { RedisEntries } from "./redis/entries.ts";
import { Keys } from "./redis/keys.ts";
import { RedisLeases } from "./redis/leases.ts";
import { RedisLimiter } from "./redis/limits.ts";
import { RedisPurges } from "./redis/purges.ts";
import { RedisReplicas } from "./redis/replicas.ts";
import { WindowLimiter } from "./windows.ts";

/** Time that a stop waits for what is still being written. */
const LAST_WRITES: Duration = 500;

interface SharingParts {
  readonly clock: Clock;
  readonly log: Logger;
  readonly observer: SharingObserver;
}

/**
 * Makes the ports to what replicas share, over Redis where it is configured. It is connected in the background.
 *
 * @param texts of the files that the configuration names, by path
 */
export function createSharing(
  config: RedisConfig | undefined,
  texts: ReadonlyMap<string, string>,
  parts: SharingParts,
): Sharing {
  const { clock } = parts;
  if (config === undefined) return createAlone(clock);
  const connection = new RedisConnection({ config, texts, ...parts });
  const keys = new Keys(config.keyPrefix);
  const purges = new RedisPurges(connection, keys, clock);
  const replicas = new RedisReplicas(connection, keys, clock);
  connection.start({
    channel: keys.channel,
    received: (message) => purges.received(message),
    refresh: (ask) => Promise.all([purges.refresh(ask), replicas.beat(ask)]),
  });
  return {
    entries: new RedisEntries(connection, keys),
    leases: new RedisLeases(connection, keys, clock),
    purges,
    limiter: new RedisLimiter(connection, keys, { replicas, here: new WindowLimiter(clock) }),
    replicas,
    status() {
      const lost = replicas.lost();
      return { ...connection.status(), replicas: replicas.count(), ...(lost !== undefined && { lost }) };
    },
    takeLogin(changed) {
      if (changed !== undefined) connection.takeLogin(changed);
    },
    close() {
      replicas.leave();
      return connection.close(LAST_WRITES);
    },
  };
}
