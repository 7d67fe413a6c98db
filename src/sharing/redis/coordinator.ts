import type { Clock, Duration } from "../../clock.ts";
import { thisReplica } from "../../version.ts";
import type { Coordinator } from "../ports.ts";
import type { ReplicaReport } from "../replicas.ts";
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
  readonly epochs: SharedEpochs;
  readonly chains: SharedChains;
  readonly actions: SharedActions;
  readonly audit: SharedAudit;
  readonly leases: SharedLeases;
  readonly limits: RedisLimits;
  readonly facts: SharedFacts;
  readonly announcements: Announcements;
  readonly replicas: Replicas;
  /** Pins of registries that were found; what is a pin is decided by whom they belong to. */
  readonly pins: SharedTable;
  /** What changed in the catalogue; what is a change is decided by whom they belong to. */
  readonly changes: SharedTable;
  private readonly parts: TableParts;

  /** Connects at once, and again whenever the connection is lost. */
  constructor({ connection, clock, observer, self = thisReplica }: RedisCoordinatorOptions) {
    const tables = new Tables(connection, observer, clock);
    const parts = { connection, tables, poller: new Poller({ connection, tables, clock }), clock };
    const readAsOf = () => Math.min(this.epochs.asOf, this.actions.shared.asOf, this.pins.asOf);
    const replicas = new Replicas({ ...parts, self, readAsOf });
    const epochs = new SharedEpochs({ ...parts, observer, replicas, changed: (isUp) => this.changed(isUp) });
    this.parts = parts;
    this.replicas = replicas;
    this.epochs = epochs;
    this.announcements = new Announcements(connection);
    this.chains = new SharedChains(connection, epochs);
    const { pins, changes } = connection.keys;
    const accepts = () => true;
    this.pins = new SharedTable({ ...parts, kind: "pin", key: pins, tag: "pins", accepts, replicas });
    this.changes = new SharedTable({ ...parts, kind: "change", key: changes, tag: "changes", accepts });
    this.actions = new SharedActions(parts, replicas);
    this.audit = new SharedAudit(parts);
    this.leases = new SharedLeases({ connection, epochs, clock, observer });
    this.limits = new RedisLimits({ connection, epochs, members: replicas.members, clock });
    this.facts = new SharedFacts({ connection, epochs, clock, observer });
    connection.start({
      connected: () => {
        this.announcements.connected();
        this.replicas.connected();
        this.actions.shared.look();
        this.pins.look();
        this.changes.look();
        this.epochs.connectionChanged();
        this.audit.connected();
      },
      disconnected: () => this.epochs.connectionChanged(),
      missed: () => {
        this.chains.missed();
        this.announcements.received(undefined);
      },
      received: (message) => this.received(message),
    });
  }

  /** Resolves with true once Redis is read, written and heard, with false when that takes longer than `timeout`. */
  async whenReady(timeout: Duration): Promise<boolean> {
    const [isUsable] = await Promise.all([
      this.epochs.whenUsable(timeout),
      this.actions.shared.whenRead(timeout),
      this.parts.connection.whenSubscribed(timeout),
    ]);
    return isUsable;
  }

  status(): RedisStatus {
    return {
      state: this.epochs.isUsable ? "up" : "away",
      connected: this.parts.connection.isConnected,
      lastError: this.parts.connection.lastError,
      replicas: this.replicas.members.count,
      clockAheadMs: this.parts.tables.clockAhead,
      pendingPurges: this.epochs.pendingPurges,
      pendingActions: this.actions.everything().filter(({ stamp }) => stamp === undefined).length,
      purgeLagMs: this.epochs.lastPurgeLag,
      leases: this.leases.status(),
    };
  }

  async close(): Promise<void> {
    await Promise.all([this.leases.close(), this.replicas.close(), this.audit.close()]);
    this.parts.poller.close();
    this.epochs.close();
    this.actions.close();
    await this.parts.connection.close(this.parts.clock.now() + CLOSE_TIMEOUT);
  }

  private changed(isUp: boolean): void {
    if (isUp) this.limits.regained();
    else this.limits.lost();
  }

  private look(tag: string): void {
    this.epochs.look(tag);
    for (const table of [this.actions.shared, this.replicas, this.pins, this.changes]) table.look(tag);
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
