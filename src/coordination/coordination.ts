import type { Store } from "../cache/stores/tiers.ts";
import type { Clock, Duration } from "../clock.ts";
import type { RedisConfig } from "../config/schema.ts";
import type { Coordinator } from "./coordinator.ts";
import { LocalCoordinator } from "./local.ts";
import type { RedisObserver } from "./redis/connection.ts";
import type { RedisStatus } from "./redis/coordinator.ts";

/** A row of a table that replicas share. */
export interface Row {
  /** A digest. */
  readonly key: string;
  /** From 1; of two rows with the same key the one with the higher version stays, of equal ones the earlier. */
  readonly version: number;
  readonly text: string;
}

/** A small table that replicas share, and that lasts. */
export interface SharedRows {
  /**
   * Writes rows that are newer than those that are there. Returns all rows, or undefined where none was written and none
   * changed since the last time. Rejects while what is shared is away.
   */
  exchange(rows: readonly Row[]): Promise<readonly Row[] | undefined>;
  close(): Promise<void>;
}

/** What this process shares with others, and through what. */
export interface Coordination {
  readonly coordinator: Coordinator;
  /** Pins of registries that were found; undefined where nothing is shared beyond this machine. */
  readonly pins?: SharedRows;
  /** The tier of the cache behind this process's memory. */
  readonly store: Store | undefined;
  /** The `redis` part of `/status`. */
  redisStatus(): RedisPart;
  /** Resolves once what is shared can be read, at the latest after `timeout`. */
  whenReady(timeout: Duration): Promise<unknown>;
}

/** The `redis` part of `/status`: `{configured: false}`, or how things are between this process and Redis. */
export type RedisPart = { readonly configured: false } | ({ readonly configured: true } & RedisStatus);

/** Without Redis: `coordinator` and `store` alone, for a process by itself, or for a worker with those of its primary. */
export function coordinateWithoutRedis(coordinator: Coordinator, store: Store | undefined): Coordination {
  return {
    coordinator,
    store,
    redisStatus: () => ({ configured: false }),
    whenReady: () => Promise.resolve(),
  };
}

/** Nothing is shared: this process is all there is. */
export function coordinateAlone(clock: Clock): Coordination {
  return coordinateWithoutRedis(new LocalCoordinator({ clock }), undefined);
}

/**
 * Everything that can be is shared with the other replicas at the same Redis. Connects at once. The Redis client is loaded
 * here, so that a gateway without Redis does not pay for it.
 *
 * @throws when a file of the configuration cannot be read
 */
export async function coordinateByRedis(
  config: RedisConfig,
  clock: Clock,
  observer: RedisObserver,
): Promise<Coordination> {
  const [{ RedisConnection }, { RedisCoordinator }, { RedisStore }, { RedisRows }] = await Promise.all([
    import("./redis/connection.ts"),
    import("./redis/coordinator.ts"),
    import("./redis/entry-store.ts"),
    import("./redis/shared-rows.ts"),
  ]);
  const connection = new RedisConnection({ config, clock, observer });
  const coordinator = new RedisCoordinator({ connection, clock, observer });
  return {
    coordinator,
    pins: new RedisRows(connection, observer),
    store: new RedisStore({ connection, coordinator, clock, observer }),
    redisStatus: () => ({ configured: true, ...coordinator.status() }),
    whenReady: (timeout) => coordinator.whenReady(timeout),
  };
}

/**
 * The pins at Redis alone, for a process that takes no part in anything else: the primary of workers. Connects when they
 * are first asked for.
 */
export function sharePinsByRedis(config: RedisConfig, clock: Clock, observer: RedisObserver): SharedRows {
  let connecting: Promise<SharedRows> | undefined;
  const connect = async (): Promise<SharedRows> => {
    const [{ RedisConnection }, { RedisRows }] = await Promise.all([
      import("./redis/connection.ts"),
      import("./redis/shared-rows.ts"),
    ]);
    const connection = new RedisConnection({ config, clock, observer });
    const ignore = () => undefined;
    connection.start({ connected: ignore, disconnected: ignore, missed: ignore, received: ignore });
    const rows = new RedisRows(connection, observer);
    return { exchange: (each) => rows.exchange(each), close: () => connection.close(clock.now()) };
  };
  return {
    async exchange(rows) {
      connecting ??= connect().catch((error: unknown) => {
        connecting = undefined;
        throw error;
      });
      return (await connecting).exchange(rows);
    },
    close: async () => (await connecting?.catch(() => undefined))?.close(),
  };
}

/** Whether there is nothing to wait for: Redis is asked by requests, or none is configured. */
export function isRedisConnected(part: RedisPart): boolean {
  return !part.configured || part.state === "up";
}
