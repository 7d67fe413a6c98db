import type { Clock, Duration, Instant } from "../../clock.ts";
import type { RedisLink } from "./link.ts";
import type { Message } from "./message.ts";
import type { RedisObserver } from "./observer.ts";
import { Script } from "./script.ts";
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
import { Epochs } from "../epochs.ts";
import { Replicas } from "./replicas.ts";
import { SharedBudgets } from "./shared-budgets.ts";
import { SharedChains } from "./shared-chains.ts";
import { SharedEpochs } from "./shared-epochs.ts";
import { SharedFacts } from "./shared-facts.ts";
import { type LeaseStatus, SharedLeases } from "./shared-leases.ts";

/** How long it may take to tell Redis of news, and how many may wait for a Redis that is away. */
const NEWS_TIMEOUT: Duration = 1_000;
const MAX_UNSENT = 256;

/** KEYS: where it is sent from. ARGV: channel, news. */
const announceNews = new Script(
  "announce",
  "allow-oom",
  "return redis.call('PUBLISH', ARGV[1], cjson.encode({ 'news', ARGV[2] }))",
);

/** What is being written gets this long when the process ends. */
const CLOSE_TIMEOUT: Duration = 500;

export interface RedisCoordinatorOptions {
  link: RedisLink;
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
 * The coordinator of a fleet that shares a Redis. With Redis away it does what a coordinator of one process does, and
 * brings both together when Redis is back.
 */
export class RedisCoordinator implements Coordinator {
  /** For the shared tier of the cache. */
  readonly epochs: SharedEpochs;
  readonly chains: SharedChains;
  private readonly table = new Epochs();
  private readonly link: RedisLink;
  private readonly clock: Clock;
  private readonly replicas: Replicas;
  private readonly leases: SharedLeases;
  private readonly budgets: SharedBudgets;
  private readonly facts: SharedFacts;
  /** Announced, and not told by Redis yet. */
  private readonly unsent = new Set<string>();
  private hear: (news: string | undefined) => void = () => undefined;

  /** Connects at once, and again whenever the connection is lost. */
  constructor({ link, clock, observer }: RedisCoordinatorOptions) {
    this.link = link;
    this.clock = clock;
    this.epochs = new SharedEpochs({
      link,
      epochs: this.table,
      clock,
      observer,
      changed: (isUp) => this.changed(isUp),
    });
    this.chains = new SharedChains(link, this.epochs);
    this.replicas = new Replicas(link, clock);
    this.leases = new SharedLeases(link, this.epochs, clock);
    this.budgets = new SharedBudgets({ link, epochs: this.epochs, replicas: this.replicas, clock });
    this.facts = new SharedFacts(link, this.epochs, clock);
    link.start({
      connected: () => {
        this.replicas.connected();
        void this.sendNews();
        this.epochs.connectionChanged();
      },
      disconnected: () => this.epochs.connectionChanged(),
      missed: () => this.hear(undefined),
      received: (message) => this.received(message),
    });
  }

  /** Resolves with true once Redis is read and written, with false when that takes longer than `timeout`. */
  whenReady(timeout: Duration): Promise<boolean> {
    return this.epochs.whenUsable(timeout);
  }

  status(): RedisStatus {
    return {
      state: this.epochs.isUsable ? "up" : "away",
      connected: this.link.isConnected,
      lastError: this.link.lastError,
      replicas: this.replicas.count,
      pendingPurges: this.epochs.pendingPurges,
      purgeLagMs: this.epochs.lastPurgeLag,
      leases: this.leases.status(),
    };
  }

  epochOf({ partition, scopes, chain }: Dependencies): string | undefined {
    // What is used is kept up to date, though Redis was away when it came into memory.
    this.epochs.view(partition);
    const epoch = this.table.epochOf(partition, scopes);
    if (chain === undefined) return epoch;
    const digest = this.chains.digest(partition, chain);
    return digest === undefined ? undefined : `${epoch}#${digest}`;
  }

  issueChain(partition: string, chain: string, digest: string): void {
    this.chains.issue(partition, chain, digest);
  }

  purge(partition: string | undefined, scopes: readonly string[]): Promise<PurgeReach> {
    return this.epochs.purge(partition, scopes);
  }

  acquire(key: string): MaybePromise<Lease | undefined> {
    return this.leases.acquire(key);
  }

  whenReleased(key: string, deadline: Instant): Promise<FetchOutcome | undefined> {
    return this.leases.whenReleased(key, deadline);
  }

  takeCall(name: string, limit: CallLimit): MaybePromise<CallGrant> {
    return this.budgets.take(name, limit);
  }

  remember(key: string, value: string, ttl: Duration): void {
    this.facts.remember(key, value, ttl);
  }

  recall(key: string): MaybePromise<string | undefined> {
    return this.facts.recall(key);
  }

  announce(news: string): void {
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
    await this.link.close(this.clock.now() + CLOSE_TIMEOUT);
  }

  /** Sends what was announced and did not reach Redis yet; what does not now waits for the next connection. */
  private async sendNews(): Promise<void> {
    const { channel } = this.link.keys;
    for (const news of this.unsent) {
      try {
        await this.link.run({ script: announceNews, keys: [channel], args: [channel, news] }, NEWS_TIMEOUT);
        this.unsent.delete(news);
      } catch {
        return;
      }
    }
  }

  private changed(isUp: boolean): void {
    if (isUp) this.budgets.regained();
    else this.budgets.lost();
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
        return this.budgets.received(message);
      case "news":
        return this.hear(message.news);
    }
  }
}
