import { RedisStore } from "../cache/stores/redis-store.ts";
import type { Store } from "../cache/stores/store.ts";
import type { Clock, Duration } from "../clock.ts";
import type { RedisConfig } from "../config/schema.ts";
import type { Coordinator } from "./coordinator.ts";
import { LocalCoordinator } from "./local.ts";
import { RedisCoordinator, type RedisStatus } from "./redis/coordinator.ts";
import { RedisLink } from "./redis/link.ts";
import type { RedisObserver } from "./redis/observer.ts";

/** What this process shares with others, and through what. */
export interface Sharing {
  readonly coordinator: Coordinator;
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
export function shareNothing(clock: Clock): Sharing {
  return {
    coordinator: new LocalCoordinator({ clock }),
    store: undefined,
    redisStatus: () => ({ configured: false }),
    whenReady: () => Promise.resolve(),
  };
}

/**
 * Everything that can be is shared with the other replicas at the same Redis. Connects at once.
 *
 * @throws when a file of the configuration cannot be read
 */
export function shareByRedis(config: RedisConfig, clock: Clock, observer: RedisObserver): Sharing {
  const link = new RedisLink({ config, clock, observer });
  const coordinator = new RedisCoordinator({ link, clock, observer });
  return {
    coordinator,
    store: new RedisStore({ link, coordinator, clock, observer }),
    redisStatus: () => ({ configured: true, ...coordinator.status() }),
    whenReady: (timeout) => coordinator.whenReady(timeout),
  };
}

/** Whether there is nothing to wait for: Redis is asked by requests, or none is configured. */
export function isRedisConnected(part: RedisPart): boolean {
  return !part.configured || part.state === "up";
}
