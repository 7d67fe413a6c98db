import type { Clock, Duration, Instant, MaybePromise } from "../../clock.ts";
import { thisReplica } from "../../version.ts";
import type { RequestedAction, Actions } from "../actions.ts";
import type { Coordinator, Dependencies, FetchOutcome, FoundRecords, Lease, PurgeReach, RecordPage } from "../ports.ts";
import type { LostReplica, Replica, ReplicaReport, ReplicasReached, ReplicaState } from "../replicas.ts";
import type { RedisConnection } from "./connection.ts";
import type { RedisObserver } from "./observer.ts";
import { Poller } from "./poller.ts";
import type { Message } from "./messages.ts";
import { Replicas } from "./replicas.ts";
import { SharedActions } from "./actions.ts";
import { SharedAudit } from "./audit.ts";
import { Announcements } from "./announcements.ts";
import { SharedChains } from "./chains.ts";
import { SharedEpochs } from "./epochs.ts";
import { SharedFacts } from "./facts.ts";
import { type LeaseStatus, SharedLeases } from "./leases.ts";
import { RedisLimits } from "./limits.ts";
import { SharedTable, type TableParts } from "./shared-table.ts";
import { Tables } from "./tables.ts";

/** What is being written gets this long when the process ends. */
const CLOSE_TIMEOUT: Duration = 500;

export interface RedisCoordinatorOptions {
  connection: RedisConnection;
  clock: Clock;
  observer: RedisObserver;
  /** What this replica says of itself. */
  self?: ReplicaReport;
}

/** For people and `/status`. */
export interface RedisStatus {
  /** `up`: asked by requests. `away`: not connected, too slow, or not yet brought up to date. */
  readonly state: "up" | "away";
  readonly connected: boolean;
  readonly lastError: string | undefined;
  /** Seen alive lately, this one included. */
  readonly replicas: number;
  /** How far this replica's wall clock is ahead of Redis's, milliseconds; negative: behind, undefined before the first look. */
  readonly clockAheadMs: number | undefined;
  /** Purges that are not in Redis yet. */
  readonly pendingPurges: number;
  /** What operators did to upstreams and nodes, and is not in Redis yet. */
  readonly pendingActions: number;
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
  readonly limits: RedisLimits;
  /** Pins of registries that were found; what is a pin is decided by whom they belong to. */
  readonly pins: SharedTable;
  /** What changed in the catalogue; what is a change is decided by whom they belong to. */
  readonly changes: SharedTable;
  private readonly parts: TableParts;
  private readonly sharedActions: SharedActions;
  private readonly audit: SharedAudit;
  private readonly replicaTable: Replicas;
  private readonly leases: SharedLeases;
  private readonly facts: SharedFacts;
  private readonly announcements: Announcements;

  /** Connects at once, and again whenever the connection is lost. */
  constructor({ connection, clock, observer, self = thisReplica }: RedisCoordinatorOptions) {
    const tables = new Tables(connection, observer, clock);
    this.parts = { connection, tables, poller: new Poller({ connection, tables, clock }), clock };
    const readAsOf = () => Math.min(this.epochs.asOf, this.sharedActions.shared.asOf, this.pins.asOf);
    this.replicaTable = new Replicas({ ...this.parts, self, readAsOf });
    this.epochs = new SharedEpochs({
      ...this.parts,
      observer,
      replicas: this.replicaTable,
      changed: (isUp) => this.changed(isUp),
    });
    this.announcements = new Announcements(connection);
    this.chains = new SharedChains(connection, this.epochs);
    const { pins: key } = connection.keys;
    const { parts, replicaTable: replicas } = this;
    this.pins = new SharedTable({ ...parts, kind: "pin", key, tag: "pins", accepts: () => true, replicas });
    this.changes = new SharedTable({
      ...parts,
      kind: "change",
      key: connection.keys.changes,
      tag: "changes",
      accepts: () => true,
    });
    this.sharedActions = new SharedActions(this.parts, this.replicaTable);
    this.audit = new SharedAudit(this.parts);
    this.leases = new SharedLeases({ connection, epochs: this.epochs, clock, observer });
    this.limits = new RedisLimits({ connection, epochs: this.epochs, members: this.replicaTable.members, clock });
    this.facts = new SharedFacts({ connection, epochs: this.epochs, clock, observer });
    connection.start({
      connected: () => {
        this.announcements.connected();
        this.replicaTable.connected();
        this.sharedActions.shared.look();
        this.pins.look();
        this.changes.look();
        this.epochs.connectionChanged();
        this.audit.connected();
      },
      disconnected: () => this.epochs.connectionChanged(),
      missed: () => this.announcements.received(undefined),
      received: (message) => this.received(message),
    });
  }

  get actions(): Actions {
    return this.sharedActions.table;
  }

  /** Resolves with true once Redis is read, written and heard, with false when that takes longer than `timeout`. */
  async whenReady(timeout: Duration): Promise<boolean> {
    const [isUsable] = await Promise.all([
      this.epochs.whenUsable(timeout),
      this.sharedActions.shared.whenRead(timeout),
      this.parts.connection.whenSubscribed(timeout),
    ]);
    return isUsable;
  }

  status(): RedisStatus {
    return {
      state: this.epochs.isUsable ? "up" : "away",
      connected: this.parts.connection.isConnected,
      lastError: this.parts.connection.lastError,
      replicas: this.replicaTable.members.count,
      clockAheadMs: this.parts.tables.clockAhead,
      pendingPurges: this.epochs.pendingPurges,
      pendingActions: this.actions.everything().filter(({ stamp }) => stamp === undefined).length,
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

  act(requested: RequestedAction): Promise<PurgeReach> {
    return this.sharedActions.act(requested);
  }

  record(id: string, text: string): void {
    this.audit.record(id, text);
  }

  records(page: RecordPage): Promise<FoundRecords | undefined> {
    return this.audit.records(page);
  }

  whoTook(since: Instant, reach: PurgeReach): Promise<ReplicasReached> {
    return this.replicaTable.whoTook(since, reach);
  }

  replicas(): readonly Replica[] {
    return this.replicaTable.replicas();
  }

  lost(): readonly LostReplica[] {
    return this.replicaTable.members.lost();
  }

  countUnknown(): Promise<number> {
    return this.replicaTable.countUnknown();
  }

  introduce(state: () => ReplicaState): void {
    this.replicaTable.introduce(state);
  }

  acquire(key: string): MaybePromise<Lease | undefined> {
    return this.leases.acquire(key);
  }

  whenReleased(key: string, deadline: Instant): Promise<FetchOutcome | undefined> {
    return this.leases.whenReleased(key, deadline);
  }

  remember(key: string, value: string, ttl: Duration): void {
    this.facts.remember(key, value, ttl);
  }

  recall(key: string): MaybePromise<string | undefined> {
    return this.facts.recall(key);
  }

  announce(event: string, options?: { readonly isBrief: boolean }): void {
    this.announcements.announce(event, options);
  }

  onAnnounced(listener: (event: string | undefined) => void): void {
    this.announcements.onAnnounced(listener);
  }

  async close(): Promise<void> {
    await Promise.all([this.leases.close(), this.replicaTable.close(), this.audit.close()]);
    this.parts.poller.close();
    this.epochs.close();
    this.sharedActions.close();
    await this.parts.connection.close(this.parts.clock.now() + CLOSE_TIMEOUT);
  }

  private changed(isUp: boolean): void {
    if (isUp) this.limits.regained();
    else this.limits.lost();
  }

  private look(tag: string): void {
    this.epochs.look(tag);
    for (const table of [this.sharedActions.shared, this.replicaTable, this.pins, this.changes]) table.look(tag);
  }

  private received(message: Message): void {
    switch (message.kind) {
      case "epoch":
        return this.epochs.received(message);
      case "look":
        return this.look(message.tag);
      case "chain":
        return this.chains.received(message);
      case "lease":
        return this.leases.received(message);
      case "borrowed":
        return this.limits.received(message);
      case "news":
        return this.announcements.received(message.event);
    }
  }
}
