import type { Clock, Duration, Instant } from "../../clock.ts";
import { type ActionOrder, Actions } from "../actions.ts";
import type {
  CallGrant,
  CallLimit,
  Coordinator,
  Dependencies,
  FetchOutcome,
  Lease,
  MaybePromise,
  PurgeReach,
} from "../coordinator.ts";
import type { RedisConnection, RedisObserver } from "./connection.ts";
import { defineScript, type Message } from "./protocol.ts";
import { Replicas } from "./replicas.ts";
import { RedisClientLimits } from "./shared-client-limits.ts";
import { SharedActions } from "./shared-actions.ts";
import { SharedChains, SharedEpochs } from "./shared-epochs.ts";
import { SharedFacts } from "./shared-facts.ts";
import { type LeaseStatus, SharedLeases } from "./shared-leases.ts";
import { SharedRateLimits } from "./shared-rate-limits.ts";

/** So many news may wait for a Redis that is away. */
const MAX_UNSENT = 256;

/** KEYS: where it is sent from. ARGV: channel, message. */
const announceNews = defineScript("announce", "allow-oom", "return redis.call('PUBLISH', ARGV[1], ARGV[2])");

/** What is being written gets this long when the process ends. */
const CLOSE_TIMEOUT: Duration = 500;

export interface RedisCoordinatorOptions {
  connection: RedisConnection;
  clock: Clock;
  observer: RedisObserver;
}

/** For people and `/status`. */
export interface RedisStatus {
  /** `up`: asked by requests. `away`: not connected, too slow, or not yet brought up to date. */
  readonly state: "up" | "away";
  readonly connected: boolean;
  readonly lastError: string | undefined;
  /** Seen alive lately, this one included. */
  readonly replicas: number;
  /** Purges that are not in Redis yet. */
  readonly pendingPurges: number;
  /** How long the last purge by another replica took to arrive, milliseconds; undefined before the first. */
  readonly purgeLagMs: number | undefined;
  /** Fetches that one replica makes for all. */
  readonly leases: LeaseStatus;
}

/**
 * The coordinator of replicas that share a Redis. With Redis away it does what a coordinator of one process does, and
 * brings both together when Redis is back.
 */
export class RedisCoordinator implements Coordinator {
  /** For the shared tier of the cache. */
  readonly epochs: SharedEpochs;
  readonly chains: SharedChains;
  readonly clientLimits: RedisClientLimits;
  readonly actions: Actions;
  private readonly connection: RedisConnection;
  private readonly clock: Clock;
  private readonly sharedActions: SharedActions;
  private readonly replicas: Replicas;
  private readonly leases: SharedLeases;
  private readonly rateLimits: SharedRateLimits;
  private readonly facts: SharedFacts;
  /** Announced, and not told by Redis yet. */
  private readonly unsent = new Set<string>();
  private hear: (news: string | undefined) => void = () => undefined;

  /** Connects at once, and again whenever the connection is lost. */
  constructor({ connection, clock, observer }: RedisCoordinatorOptions) {
    this.connection = connection;
    this.clock = clock;
    this.epochs = new SharedEpochs({
      connection,
      clock,
      observer,
      changed: (isUp) => this.changed(isUp),
    });
    this.chains = new SharedChains(connection, this.epochs);
    this.actions = new Actions(clock);
    this.sharedActions = new SharedActions({ connection, table: this.actions, clock, observer });
    this.replicas = new Replicas(connection, clock, observer);
    this.leases = new SharedLeases({ connection, epochs: this.epochs, clock, observer });
    const limitsOptions = { connection, epochs: this.epochs, replicas: this.replicas, clock, observer };
    this.rateLimits = new SharedRateLimits(limitsOptions);
    this.clientLimits = new RedisClientLimits(limitsOptions);
    this.facts = new SharedFacts({ connection, epochs: this.epochs, clock, observer });
    connection.start({
      connected: () => {
        this.replicas.connected();
        void this.sendNews();
        this.sharedActions.look();
        this.epochs.connectionChanged();
      },
      disconnected: () => this.epochs.connectionChanged(),
      missed: () => this.hear(undefined),
      received: (message) => this.received(message),
    });
  }

  /** Resolves with true once Redis is read, written and heard, with false when that takes longer than `timeout`. */
  async whenReady(timeout: Duration): Promise<boolean> {
    const [isUsable] = await Promise.all([
      this.epochs.whenUsable(timeout),
      this.sharedActions.whenRead(timeout),
      this.connection.whenSubscribed(timeout),
    ]);
    return isUsable;
  }

  status(): RedisStatus {
    return {
      state: this.epochs.isUsable ? "up" : "away",
      connected: this.connection.isConnected,
      lastError: this.connection.lastError,
      replicas: this.replicas.count,
      pendingPurges: this.epochs.pendingPurges,
      purgeLagMs: this.epochs.lastPurgeLag,
      leases: this.leases.status(),
    };
  }

  epochOf(dependencies: Dependencies): string | undefined {
    return this.epochs.epochOf(dependencies);
  }

  softEpochOf(dependencies: Dependencies): string {
    return this.epochs.table.softEpochOf(dependencies);
  }

  get softVersion(): number {
    return this.epochs.table.softVersion;
  }

  softPurgedAt(dependencies: Dependencies, since: string): number | undefined {
    return this.epochs.table.softPurgedAt(dependencies, since);
  }

  issueChain(partition: string, chain: string, digest: string): void {
    this.chains.issue(partition, chain, digest);
  }

  purge(partition: string | undefined, scopes: readonly string[]): Promise<PurgeReach> {
    return this.epochs.purge(partition, scopes);
  }

  act(order: ActionOrder): Promise<PurgeReach> {
    return this.sharedActions.act(order);
  }

  acquire(key: string): MaybePromise<Lease | undefined> {
    return this.leases.acquire(key);
  }

  whenReleased(key: string, deadline: Instant): Promise<FetchOutcome | undefined> {
    return this.leases.whenReleased(key, deadline);
  }

  takeCall(name: string, limit: CallLimit): MaybePromise<CallGrant> {
    return this.rateLimits.take(name, limit);
  }

  remember(key: string, value: string, ttl: Duration): void {
    this.facts.remember(key, value, ttl);
  }

  recall(key: string): MaybePromise<string | undefined> {
    return this.facts.recall(key);
  }

  announce(news: string, { isBrief } = { isBrief: false }): void {
    if (isBrief) return void this.send(news).catch(() => undefined);
    this.unsent.add(news);
    if (this.unsent.size <= MAX_UNSENT) void this.sendNews();
    else this.unsent.delete(news);
  }

  onAnnounced(hear: (news: string | undefined) => void): void {
    this.hear = hear;
  }

  async close(): Promise<void> {
    await Promise.all([this.leases.close(), this.replicas.close()]);
    this.epochs.close();
    this.sharedActions.close();
    await this.connection.close(this.clock.now() + CLOSE_TIMEOUT);
  }

  /** Sends what was announced and did not reach Redis yet; what does not now waits for the next connection. */
  private async sendNews(): Promise<void> {
    for (const news of this.unsent) {
      try {
        await this.send(news);
        this.unsent.delete(news);
      } catch {
        return;
      }
    }
  }

  private async send(news: string): Promise<void> {
    const { channel } = this.connection.keys;
    const args = [channel, this.connection.message({ kind: "news", news })];
    await this.connection.run({ script: announceNews, keys: [channel], args });
  }

  private changed(isUp: boolean): void {
    if (!isUp) return this.rateLimits.lost();
    this.rateLimits.regained();
    this.clientLimits.regained();
  }

  private received(message: Message): void {
    switch (message.kind) {
      case "epoch":
        return this.epochs.received(message);
      case "look":
        return this.epochs.look(message.tag);
      case "chain":
        return this.chains.received(message);
      case "lease":
        return this.leases.received(message);
      case "borrowed":
        return this.rateLimits.received(message);
      case "actions":
        return this.sharedActions.look();
      case "news":
        return this.hear(message.news);
    }
  }
}
