import { FileWatcher } from "../../src/config/watched-files.ts";
import { systemClock } from "../../src/clock.ts";
import type { RedisConfig } from "../../src/config/schema.ts";
import {
  type ConnectionListener,
  RedisConnection,
  type RedisConnectionOptions,
} from "../../src/sharing/redis/connection.ts";
import type { RedisObserver } from "../../src/sharing/redis/observer.ts";
import { RedisCoordinator } from "../../src/sharing/redis/coordinator.ts";
import { Texts } from "../../src/sharing/redis/values.ts";
import { RedisStore } from "../../src/sharing/redis/entries.ts";
import { thisReplica } from "../../src/version.ts";
import type { CommandOutcome, RedisValue, Rejection } from "../../src/sharing/redis/observer.ts";
import type { Message } from "../../src/sharing/redis/messages.ts";

/** One replica's share of a Redis: what the gateway builds of the same parts. */
export interface Replica {
  readonly coordinator: RedisCoordinator;
  readonly texts: Texts;
  readonly store: RedisStore;
  readonly events: RedisEvents;
  close: () => Promise<void>;
}

/** Counts what an observer is told. */
class RedisEvents implements RedisObserver {
  readonly states: string[] = [];
  /** Why there was no connection. */
  readonly faults: string[] = [];
  readonly commands: { name: string; outcome: CommandOutcome; duration: number }[] = [];
  /** Infinity while it is away. */
  upSince = Infinity;
  /** When Redis last said which replicas live. */
  heardOfReplicasAt = -Infinity;
  readonly purgeLags: number[] = [];
  writesDropped = 0;
  /** Each as its kind and why. */
  readonly rejected: string[] = [];
  readonly sealKeyFaults: (string | undefined)[] = [];

  stateChanged(state: "up" | "away"): void {
    this.states.push(state);
    this.upSince = state === "up" ? clock.now() : Infinity;
  }

  connectionFailed(why: string): void {
    this.faults.push(why);
  }

  commandEnded(name: string, outcome: CommandOutcome, duration: number): void {
    this.commands.push({ name, outcome, duration });
    if (name === "table_write" && outcome === "ok") this.heardOfReplicasAt = clock.now();
  }

  writeDropped(): void {
    this.writesDropped += 1;
  }

  valueRejected(value: RedisValue, why: Rejection): void {
    this.rejected.push(`${value} ${why}`);
  }

  sealKeyLooked(fault: string | undefined): void {
    this.sealKeyFaults.push(fault);
  }

  get valuesRejected(): number {
    return this.rejected.length;
  }

  clockCompared(): void {}

  purgeArrived(lag: number): void {
    this.purgeLags.push(lag);
  }

  /** How many commands of a script were sent. */
  sent(name: string): number {
    return this.commands.filter((command) => command.name === name).length;
  }
}

export const clock = systemClock();

/** As `cache.memory.maxObject` has it where nothing is configured. */
const LARGEST_BODY = 4 * 1024 * 1024;

/** What becomes of a message on its way to this replica; by default it is delivered. */
export type Post = (message: Message, deliver: () => void) => void;

/** A connection whose messages may be lost or late. */
class LossyConnection extends RedisConnection {
  private readonly post: Post;

  constructor(options: RedisConnectionOptions, post: Post) {
    super(options);
    this.post = post;
  }

  override start(listener: ConnectionListener): void {
    super.start({
      connected: () => listener.connected(),
      disconnected: (reason) => listener.disconnected(reason),
      missed: () => listener.missed(),
      received: (message) => this.post(message, () => listener.received(message)),
    });
  }
}

/** A replica on this Redis, ready to use; with `isReady: false` whatever state Redis is in. */
export async function startReplica(
  redis: Partial<RedisConfig>,
  options: { isReady?: boolean; post?: Post; name?: string; wallAhead?: number } = {},
): Promise<Replica> {
  const events = new RedisEvents();
  const connectionOptions = {
    config: { keyPrefix: "rg:", ...redis },
    clock,
    files: new FileWatcher(clock),
    observer: events,
  };
  const connection =
    options.post === undefined
      ? new RedisConnection(connectionOptions)
      : new LossyConnection(connectionOptions, options.post);
  const { wallAhead = 0 } = options;
  const coordinator = new RedisCoordinator({
    connection,
    clock: wallAhead === 0 ? clock : { ...clock, wallNow: () => clock.wallNow() + wallAhead },
    observer: events,
    self: { ...thisReplica, name: options.name ?? thisReplica.name },
  });
  const replica = {
    coordinator,
    texts: new Texts(connection, events),
    store: new RedisStore({ connection, coordinator, clock, observer: events, largestBody: () => LARGEST_BODY }),
    events,
    close: () => coordinator.close(),
  };
  if (options.isReady !== false && !(await coordinator.whenReady(10_000))) {
    await replica.close();
    throw new Error(`Redis did not become ready: ${JSON.stringify(coordinator.status())}`);
  }
  return replica;
}
