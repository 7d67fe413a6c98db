import { setImmediate as afterThisTurn } from "node:timers/promises";
import type { Redis } from "ioredis";
import { type Clock, type Duration, type Instant, TimedOut, withReply } from "../../clock.ts";
import type { RedisConfig } from "../../config/schema.ts";
import type { FileWatcher } from "../../config/watched-files.ts";
import { Recurrence } from "../../recurrence.ts";
import { createClient, createSubscriber, readFault, type RedisClient } from "./client.ts";
import type { RedisObserver } from "./observer.ts";
import { Keys } from "./keys.ts";
import type { Message } from "./messages.ts";
import { runScript, type ScriptCall } from "./scripts.ts";
import { Seals } from "./seals.ts";
import { Subscription } from "./subscription.ts";

export interface RedisConnectionOptions {
  config: RedisConfig;
  clock: Clock;
  files: FileWatcher;
  observer: RedisObserver;
}

/** The deadline of a command that no request waits for. */
const COMMAND_TIMEOUT: Duration = 1_000;

/** How long a write may take. Only those who wait for a lease wait for it. */
const WRITE_TIMEOUT: Duration = 2_000;

/** What may wait to be written. Beyond it Redis is not keeping up, and what comes is not worth the memory. */
const MOST_UNWRITTEN = 16 * 1024 * 1024;

const CONNECT_AGAIN_AFTER: Duration = 100;

/** Is notified of the connection and of messages. */
export interface ConnectionListener {
  /** The connection is there (again); nothing read through an earlier one holds any more. */
  connected(): void;
  disconnected(reason: string): void;
  /** Messages come again, and some may not have come. */
  missed(): void;
  received(message: Message): void;
}

/**
 * The connection to Redis: commands with deadlines, messages, and writes off the requests' path. Reconnects by itself
 * for ever. Whether Redis is worth asking is decided by those who use it (see PartitionViews).
 */
export class RedisConnection {
  readonly keys: Keys;
  readonly seals: Seals;
  readonly isCluster: boolean;
  private readonly clock: Clock;
  private readonly observer: RedisObserver;
  private readonly client: RedisClient;
  private readonly subscriber: Redis;
  private readonly messages: Subscription;
  private readonly faults: ConnectionFaults;
  /** Writes under way, and what they hold in memory. */
  private readonly writing = new Set<Promise<unknown>>();
  private unwrittenBytes = 0;
  private isClosed = false;

  /** @throws when a file of the configuration cannot be read. */
  constructor({ config, clock, files, observer }: RedisConnectionOptions) {
    this.clock = clock;
    this.observer = observer;
    this.seals = new Seals(config, files, (fault) => observer.sealKeyLooked(fault));
    this.keys = new Keys(config.keyPrefix, this.seals.areOn);
    this.isCluster = config.cluster !== undefined;
    this.client = createClient(config, clock);
    this.messages = new Subscription({ channel: this.keys.channel, seals: this.seals, clock, observer });
    this.subscriber = createSubscriber(config, clock, this.messages.bound);
    this.faults = new ConnectionFaults(clock);
  }

  /** Connects, now and whenever the connection is lost. */
  start(listener: ConnectionListener): void {
    this.client.on("ready", () => {
      this.faults.connected();
      listener.connected();
    });
    this.client.on("close", () => listener.disconnected(this.lastError ?? "connection closed"));
    this.subscriber.on("ready", () => this.faults.forget());
    this.messages.start(this.subscriber, {
      missed: () => {
        this.faults.forget();
        listener.missed();
      },
      received: (message) => listener.received(message),
      failed: (error) => this.faults.note(error),
    });
    for (const client of [this.client, this.subscriber]) {
      client.on("error", (error: unknown) => this.noteConnection(error));
      // The client gives up for good when a sentinel reports a failover while it is looking for the master.
      client.on("end", () => this.clock.after(CONNECT_AGAIN_AFTER, () => this.connect(client)));
      this.connect(client);
    }
  }

  /** See {@link Subscription.whenSubscribed}. */
  whenSubscribed(timeout: Duration): Promise<void> {
    return this.messages.whenSubscribed(timeout);
  }

  /** See {@link Subscription.format}. */
  message(message: Message): string {
    return this.messages.format(message);
  }

  /** For people: why the last command or connection failed. */
  get lastError(): string | undefined {
    return this.faults.last;
  }

  /** Whether there is a connection to send something through. */
  get isConnected(): boolean {
    return this.client.status === "ready";
  }

  /** Runs a script; rejects at once without a connection, and when Redis refuses or does not answer within `timeout`. */
  async run(call: ScriptCall, timeout: Duration = COMMAND_TIMEOUT): Promise<unknown> {
    if (!this.isConnected) throw new Error("not connected to Redis");
    const { name } = call.script;
    const start = this.clock.now();
    try {
      const reply = await withReply(runScript(this.client, call), timeout, this.clock);
      this.observer.commandEnded(name, "ok", this.clock.now() - start);
      return reply;
    } catch (error) {
      this.faults.note(error);
      this.observer.commandEnded(name, error instanceof TimedOut ? "timeout" : "error", this.clock.now() - start);
      throw error;
    }
  }

  /**
   * Runs a script that stores something, some time soon; says nothing of how it ended. `make` is called off the path of
   * the request; `bytes` is roughly what it keeps in memory until it is written.
   */
  write(make: () => ScriptCall, bytes: number): void {
    if (this.unwrittenBytes + bytes > MOST_UNWRITTEN) return this.observer.writeDropped();
    this.unwrittenBytes += bytes;
    const sent: Promise<unknown> = afterThisTurn()
      .then(() => this.run(make(), WRITE_TIMEOUT))
      .catch(() => undefined)
      .finally(() => {
        this.writing.delete(sent);
        this.unwrittenBytes -= bytes;
      });
    this.writing.add(sent);
  }

  /** Resolves when all that was to be written so far is in Redis or has failed, at the latest after `timeout`. */
  async settled(timeout: Duration): Promise<void> {
    await withReply(Promise.all(this.writing), timeout, this.clock).catch(() => undefined);
  }

  /** Ends the connection after what is under way, within `deadline`. */
  async close(deadline: Instant): Promise<void> {
    await this.settled(Math.max(0, deadline - this.clock.now()));
    this.isClosed = true;
    this.seals.close();
    for (const client of [this.client, this.subscriber]) client.disconnect();
  }

  private connect(client: RedisClient): void {
    if (this.isClosed) return;
    client.connect().catch((error: unknown) => {
      // "Connection is closed" says less than the error that closed it, which has an event of its own.
      if (this.lastError === undefined) this.faults.note(error);
    });
  }

  private noteConnection(error: unknown): void {
    this.faults.note(error);
    const why = this.isClosed ? undefined : this.faults.tell(error);
    if (why !== undefined) this.observer.connectionFailed(why);
  }
}

/** What failed last, and why there is no connection: said once, though it is tried twice a second. */
class ConnectionFaults {
  /** For people; undefined: nothing since there is a connection. */
  last: string | undefined;
  /** There was a connection: what passes by itself is known by the change of state that it causes. */
  private hasConnected = false;
  /** Of why connecting failed. */
  private readonly recurrence: Recurrence;

  constructor(clock: Clock) {
    this.recurrence = new Recurrence(clock);
  }

  connected(): void {
    this.hasConnected = true;
    this.forget();
  }

  note(error: unknown): void {
    this.last = error instanceof Error ? error.message : String(error);
  }

  forget(): void {
    this.last = undefined;
  }

  /** Undefined: it was reported lately, or is reported otherwise. */
  tell(error: unknown): string | undefined {
    const { text, isPermanent } = readFault(error);
    if (this.hasConnected && !isPermanent) return undefined;
    return this.recurrence.isDue(text) ? text : undefined;
  }
}
