import { systemClock } from "../../src/clock.ts";
import type { RedisConfig } from "../../src/config/schema.ts";
import { RedisStore } from "../../src/cache/redis-store.ts";
import { RedisCoordinator } from "../../src/coordinator/redis.ts";
import { RedisLink } from "../../src/redis/link.ts";
import type { CommandOutcome, RedisObserver } from "../../src/redis/observer.ts";

/** One replica's share of a Redis: what the gateway builds of the same parts. */
export interface Replica {
  readonly coordinator: RedisCoordinator;
  readonly store: RedisStore;
  readonly events: RedisEvents;
  close: () => Promise<void>;
}

/** Counts what an observer is told. */
export class RedisEvents implements RedisObserver {
  readonly states: string[] = [];
  readonly commands: { name: string; outcome: CommandOutcome; duration: number }[] = [];
  readonly purgeLags: number[] = [];
  writesDropped = 0;
  valuesRejected = 0;

  stateChanged(state: "up" | "away"): void {
    this.states.push(state);
  }

  commandEnded(name: string, outcome: CommandOutcome, duration: number): void {
    this.commands.push({ name, outcome, duration });
  }

  writeDropped(): void {
    this.writesDropped += 1;
  }

  valueRejected(): void {
    this.valuesRejected += 1;
  }

  purgeArrived(lag: number): void {
    this.purgeLags.push(lag);
  }

  /** How many commands of a script were sent. */
  sent(name: string): number {
    return this.commands.filter((command) => command.name === name).length;
  }
}

export const clock = systemClock();

/** A replica on this Redis, ready to use; with `isReady: false` whatever state Redis is in. */
export async function startReplica(redis: Partial<RedisConfig>, options: { isReady?: boolean } = {}): Promise<Replica> {
  const events = new RedisEvents();
  const link = new RedisLink({ config: { keyPrefix: "rg:", ...redis }, clock, observer: events });
  const coordinator = new RedisCoordinator({ link, clock, observer: events });
  const replica = {
    coordinator,
    store: new RedisStore({ link, coordinator, clock, observer: events }),
    events,
    close: () => coordinator.close(),
  };
  if (options.isReady !== false && !(await coordinator.whenReady(10_000))) {
    await replica.close();
    throw new Error(`Redis did not become ready: ${JSON.stringify(coordinator.status())}`);
  }
  return replica;
}
