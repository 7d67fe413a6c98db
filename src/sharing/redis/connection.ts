import { Redis } from "ioredis";
import { type Clock, type Duration, type Instant, TimedOut, valueWithin, withReply } from "../../clock.ts";
import type { RedisConfig } from "../../config/schema.ts";
import type { FileWatcher } from "../../config/watched-files.ts";
import { createClient, readFault, type RedisClient } from "./client.ts";
import type { RedisObserver } from "./observer.ts";
import { Writes } from "./writes.ts";
import { Keys } from "./keys.ts";
import { type Message, formatMessage, LONGEST_MESSAGE, parseMessage } from "./messages.ts";
import { runScript, type ScriptCall } from "./scripts.ts";
import { Seals } from "./seals.ts";

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

const CONNECT_AGAIN_AFTER: Duration = 100;

/** The same fault of connecting is told no more often. */
const TELL_AGAIN_AFTER: Duration = 600_000;

/** Different faults of connecting that are told. */
const MOST_FAULTS = 16;

/** Is told of the connection and of messages. */
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
  readonly writes: Writes;
  /** For people: why the last command or connection failed. */
  lastError: string | undefined;
  private readonly clock: Clock;
  private readonly observer: RedisObserver;
  private readonly client: RedisClient;
  private readonly subscriber: RedisClient;
  private hasConnected = false;
  /** Why connecting failed → when it may be told again. */
  private readonly quietUntil = new Map<string, Instant>();
  private isClosed = false;
  private isGathering = false;
  private readonly subscribed = Promise.withResolvers<void>();
  /** Messages are awaited that may have been sent before they were subscribed to. */
  private mayMiss = false;

  /** @throws when a file of the configuration cannot be read. */
  constructor({ config, clock, files, observer }: RedisConnectionOptions) {
    this.clock = clock;
    this.observer = observer;
    this.seals = new Seals(config, files, (fault) => observer.sealKeyLooked(fault));
    this.keys = new Keys(config.keyPrefix, this.seals.areOn);
    this.writes = new Writes(clock);
    this.isCluster = config.cluster !== undefined;
    this.client = createClient(config, clock);
    // A cluster's client has a connection of its own for messages.
    this.subscriber = this.isCluster ? this.client : createClient(config, clock);
  }

  /** Connects, now and whenever the connection is lost. */
  start(listener: ConnectionListener): void {
    this.client.on("ready", () => {
      this.hasConnected = true;
      this.lastError = undefined;
      listener.connected();
    });
    this.client.on("close", () => listener.disconnected(this.lastError ?? "connection closed"));
    this.subscriber.on("message", (_channel: string, text: string) => {
      const message = this.readMessage(text);
      if (message !== undefined) listener.received(message);
    });
    this.subscriber.on("ready", () => {
      this.lastError = undefined;
      const subscribed = () => {
        if (this.mayMiss) listener.missed();
        this.mayMiss = true;
        this.subscribed.resolve();
      };
      this.subscriber.subscribe(this.keys.channel).then(subscribed, (error: unknown) => this.note(error));
    });
    for (const client of new Set([this.client, this.subscriber])) {
      client.on("error", (error: unknown) => this.noteConnection(error));
      // The client gives up for good when a sentinel reports a failover while it is looking for the master.
      client.on("end", () => this.clock.after(CONNECT_AGAIN_AFTER, () => this.connect(client)));
      this.connect(client);
    }
  }

  /** Resolves once messages come, at the latest after `timeout`; then it is told when some may have been missed. */
  async whenSubscribed(timeout: Duration): Promise<void> {
    await valueWithin(this.subscribed.promise, timeout, this.clock);
    this.mayMiss = true;
  }

  /** A message as scripts publish it; its seal is one more item of the list. */
  message(message: Message): string {
    const text = formatMessage(message);
    const seal = this.seals.sealOf({ kind: "message", key: this.keys.channel }, text);
    return seal === "" ? text : `${text.slice(0, -1)},"${seal}"]`;
  }

  private readMessage(text: string): Message | undefined {
    let unsealed = text;
    if (text.length > LONGEST_MESSAGE) {
      this.observer.valueRejected("message", "form");
      return undefined;
    }
    if (this.seals.areOn) {
      const [, list, seal] = /^(.*),"([\w-]{22})"\]$/s.exec(text) ?? [];
      const opened = seal && this.seals.check({ kind: "message", key: this.keys.channel }, `${list}]`, seal);
      if (!opened) {
        this.observer.valueRejected("message", "seal");
        return undefined;
      }
      unsealed = opened.text;
    }
    const message = parseMessage(unsealed);
    if (message === undefined) this.observer.valueRejected("message", "form");
    return message;
  }

  /** Whether there is a connection to send something through. */
  get isConnected(): boolean {
    return this.client.status === "ready";
  }

  /**
   * Sends what is asked for at the end of a turn (http/pipeline.ts) in one write: a write of its own is a quarter of what
   * a look-up costs this process. (The client's automatic pipelining does not know commands sent by name.)
   */
  private gather(): void {
    if (this.isGathering || !(this.client instanceof Redis)) return;
    const { stream } = this.client;
    this.isGathering = true;
    stream.cork();
    queueMicrotask(() => {
      this.isGathering = false;
      stream.uncork();
    });
  }

  /** Runs a script; rejects at once without a connection, and when Redis refuses or does not answer within `timeout`. */
  async run(call: ScriptCall, timeout: Duration = COMMAND_TIMEOUT): Promise<unknown> {
    if (!this.isConnected) throw new Error("not connected to Redis");
    const { name } = call.script;
    const start = this.clock.now();
    this.gather();
    try {
      const reply = await withReply(runScript(this.client, call), timeout, this.clock);
      this.observer.commandEnded(name, "ok", this.clock.now() - start);
      return reply;
    } catch (error) {
      this.note(error);
      this.observer.commandEnded(name, error instanceof TimedOut ? "timeout" : "error", this.clock.now() - start);
      throw error;
    }
  }

  /**
   * Runs a script that stores something, some time soon; says nothing of how it ended. `make` is called off the path of
   * the request; `bytes` is roughly what it keeps in memory until then.
   */
  write(make: () => ScriptCall, bytes: number): void {
    const wasTaken = this.writes.add({ bytes, send: () => this.run(make(), WRITE_TIMEOUT) });
    if (!wasTaken) this.observer.writeDropped();
  }

  /** Ends the connection after what is under way, within `deadline`. */
  async close(deadline: Instant): Promise<void> {
    await this.writes.settled(Math.max(0, deadline - this.clock.now()));
    this.isClosed = true;
    this.seals.close();
    for (const client of new Set([this.client, this.subscriber])) client.disconnect();
  }

  private connect(client: RedisClient): void {
    if (this.isClosed) return;
    client.connect().catch((error: unknown) => {
      // "Connection is closed" says less than the error that closed it, which has an event of its own.
      if (this.lastError === undefined) this.note(error);
    });
  }

  /** Says why there is no connection: once, though it is tried twice a second. */
  private noteConnection(error: unknown): void {
    this.note(error);
    const { text, isLasting } = readFault(error);
    // What passes by itself is told by the change of state that it causes, where there was another one before.
    if (this.isClosed || (this.hasConnected && !isLasting)) return;
    const now = this.clock.now();
    const quietUntil = this.quietUntil.get(text) ?? (this.quietUntil.size < MOST_FAULTS ? -Infinity : Infinity);
    if (now < quietUntil) return;
    this.quietUntil.set(text, now + TELL_AGAIN_AFTER);
    this.observer.connectionFailed(text);
  }

  private note(error: unknown): void {
    this.lastError = error instanceof Error ? error.message : String(error);
  }
}
