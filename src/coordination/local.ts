import type { Clock, Duration, Instant } from "../clock.ts";
import { CallWindows } from "./call-windows.ts";
import type {
  CallGrant,
  CallLimit,
  Coordinator,
  Dependencies,
  FetchOutcome,
  Lease,
  PurgeReach,
} from "./coordinator.ts";
import { Epochs } from "./epochs.ts";
import { Facts } from "./facts.ts";
import { LocalLeases } from "./leases.ts";

export interface LocalCoordinatorOptions {
  clock: Clock;
}

/** The coordinator of a process that shares nothing: everything it promises holds within this process. */
export class LocalCoordinator implements Coordinator {
  readonly epochs = new Epochs();
  private readonly leases: LocalLeases;
  private readonly windows: CallWindows;
  private readonly facts: Facts;

  constructor({ clock }: LocalCoordinatorOptions) {
    this.leases = new LocalLeases(clock);
    this.windows = new CallWindows(clock);
    this.facts = new Facts(clock);
  }

  epochOf(dependencies: Dependencies): string | undefined {
    return this.epochs.epochOf(dependencies);
  }

  issueChain(partition: string, chain: string, digest: string): void {
    this.epochs.issueChain(partition, chain, digest);
  }

  purge(partition: string | undefined, scopes: readonly string[]): Promise<PurgeReach> {
    this.epochs.raise(partition, scopes);
    return Promise.resolve("replica");
  }

  acquire(key: string): Lease | undefined {
    return this.leases.acquire(key);
  }

  whenReleased(key: string, deadline: Instant): Promise<FetchOutcome | undefined> {
    return this.leases.whenReleased(key, deadline);
  }

  takeCall(name: string, limit: CallLimit): CallGrant {
    return this.windows.take(name, limit);
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
    this.leases.close();
    return Promise.resolve();
  }
}
