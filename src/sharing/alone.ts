import type { Clock, Duration, Instant } from "../clock.ts";
import { type RequestedAction, Actions } from "./actions.ts";
import type { Coordinator, Dependencies, FetchOutcome, Lease, PurgeReach } from "./ports.ts";
import type { Replica, ReplicasReached, ReplicaState } from "./replicas.ts";
import { Epochs } from "./epochs.ts";
import { Facts } from "./facts.ts";
import { LocalLeases } from "./leases.ts";
import { LocalLimits } from "./limits.ts";
import { thisReplica } from "../version.ts";

export interface LocalCoordinatorOptions {
  clock: Clock;
}

/** The coordinator of a process that shares nothing: everything it promises holds within this process. */
export class LocalCoordinator implements Coordinator {
  readonly epochs = new Epochs();
  readonly limits: LocalLimits;
  readonly actions: Actions;
  private readonly clock: Clock;
  private readonly leases: LocalLeases;
  private readonly facts: Facts;
  private stateOf: (() => ReplicaState) | undefined;

  constructor({ clock }: LocalCoordinatorOptions) {
    this.clock = clock;
    this.actions = new Actions(clock);
    this.leases = new LocalLeases(clock);
    this.limits = new LocalLimits(clock);
    this.facts = new Facts(clock);
  }

  epochOf(dependencies: Dependencies): string | undefined {
    return this.epochs.epochOf(dependencies);
  }

  softEpochOf(dependencies: Dependencies): string {
    return this.epochs.softEpochOf(dependencies);
  }

  get softVersion(): number {
    return this.epochs.softVersion;
  }

  softPurgedAt(dependencies: Dependencies, since: string): number | undefined {
    return this.epochs.softPurgedAt(dependencies, since);
  }

  issueChain(partition: string, chain: string, digest: string): void {
    this.epochs.issueChain(partition, chain, digest);
  }

  purge(partition: string | undefined, scopes: readonly string[]): Promise<PurgeReach> {
    this.epochs.raise(partition, scopes, this.clock.wallNow());
    return Promise.resolve("replica");
  }

  act(requested: RequestedAction): Promise<PurgeReach> {
    this.actions.begin(requested);
    return Promise.resolve("replica");
  }

  record(): void {
    // There is nobody else to show it.
  }

  records(): Promise<undefined> {
    return Promise.resolve(undefined);
  }

  whoTook(): Promise<ReplicasReached> {
    const { name, version, revision } = thisReplica;
    return Promise.resolve({ took: [{ name, version, revision }], missing: [], of: 1 });
  }

  replicas(): readonly Replica[] {
    return [{ ...thisReplica, state: this.stateOf?.() }];
  }

  lost(): readonly [] {
    return [];
  }

  countUnknown(): Promise<number> {
    return Promise.resolve(0);
  }

  introduce(state: () => ReplicaState): void {
    this.stateOf = state;
  }

  acquire(key: string): Lease | undefined {
    return this.leases.acquire(key);
  }

  whenReleased(key: string, deadline: Instant): Promise<FetchOutcome | undefined> {
    return this.leases.whenReleased(key, deadline);
  }

  remember(key: string, value: string, ttl: Duration): void {
    this.facts.remember(key, value, ttl);
  }

  recall(key: string): string | undefined {
    return this.facts.recall(key);
  }

  announce(): void {
    // There are no others.
  }

  onAnnounced(): void {
    // There are no others.
  }

  close(): Promise<void> {
    this.actions.close();
    this.leases.close();
    return Promise.resolve();
  }
}
