import type { Clock, Duration } from "../clock.ts";
import type { Store } from "./entries.ts";
import type { RedisConfig } from "../config/schema.ts";
import type { FileWatcher } from "../config/watched-files.ts";
import type { Coordinator, SharedChanges, SharedRows } from "./ports.ts";
import { localCoordinator } from "./alone.ts";
import type { RedisObserver } from "./redis/observer.ts";
import type { RedisStatus } from "./redis/coordinator.ts";

/** What this process shares with others, and through what. */
export interface Coordination {
  readonly coordinator: Coordinator;
  /** Pins of registries that were found; undefined where nothing is shared beyond this machine. */
  readonly pins?: SharedRows;
  /** Undefined where nothing is shared. */
  readonly changes?: SharedChanges;
  /** The tier of the cache behind this process's memory. */
  readonly store: Store | undefined;
  /** The `redis` part of `/status`. */
  redisStatus(): RedisPart;
  /** Resolves once what is shared can be read, at the latest after `timeout`. */
  whenReady(timeout: Duration): Promise<unknown>;
}

/** The `redis` part of `/status`: `{configured: false}`, or how things are between this process and Redis. */
export type RedisPart = { readonly configured: false } | ({ readonly configured: true } & RedisStatus);

/** Nothing is shared: this process is all there is. */
export function coordinateAlone(clock: Clock): Coordination {
  return {
    coordinator: localCoordinator(clock),
    store: undefined,
    redisStatus: () => ({ configured: false }),
    whenReady: () => Promise.resolve(),
  };
}

interface RedisParts {
  readonly clock: Clock;
  readonly files: FileWatcher;
  readonly observer: RedisObserver;
  /** Bytes of the largest body that is stored, now. */
  readonly largestBody: () => number;
}

/**
 * Everything that can be is shared with the other replicas at the same Redis. Connects at once. The Redis client is loaded
 * here, so that a gateway without Redis does not pay for it.
 *
 * @throws when a file of the configuration cannot be read
 */
export async function coordinateByRedis(
  config: RedisConfig,
  { clock, files, observer, largestBody }: RedisParts,
): Promise<Coordination> {
  const [{ RedisConnection }, { RedisCoordinator }, { RedisStore }, { Texts }] = await Promise.all([
    import("./redis/connection.ts"),
    import("./redis/coordinator.ts"),
    import("./redis/entries.ts"),
    import("./redis/values.ts"),
  ]);
  const connection = new RedisConnection({ config, clock, files, observer });
  const coordinator = new RedisCoordinator({ connection, clock, observer });
  return {
    coordinator,
    pins: coordinator.pins,
    changes: { log: coordinator.changes, texts: new Texts(connection, observer) },
    store: new RedisStore({ connection, coordinator, clock, observer, largestBody }),
    redisStatus: () => ({ configured: true, ...coordinator.status() }),
    whenReady: (timeout) => coordinator.whenReady(timeout),
  };
}

/** Whether there is nothing to wait for: Redis is asked by requests, or none is configured. */
export function isRedisConnected(part: RedisPart): boolean {
  return !part.configured || part.state === "up";
}
