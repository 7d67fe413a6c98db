import { LRUCache } from "lru-cache";
import { type Clock, type Duration, type Instant, valueWithin } from "../clock.ts";
import { type ActionOrder, Actions } from "./actions.ts";
import type { Coordinator, Dependencies, FetchOutcome, Lease, PurgeReach, ReplicasReached } from "./coordinator.ts";
import { Epochs } from "./epochs.ts";
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

  act(order: ActionOrder): Promise<PurgeReach> {
    this.actions.begin(order);
    return Promise.resolve("replica");
  }

  whoTook(): Promise<ReplicasReached> {
    return Promise.resolve({ took: [thisReplica.name], missing: [], of: 1 });
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

/** Leases beyond this many are granted without being noted: a bound on memory costs at most a fetch made twice. */
const MAX_LEASES = 100_000;

/** All who wait for the lease of one key. */
interface Wait extends PromiseWithResolvers<FetchOutcome> {
  waiters: number;
}

/** Requests that wait for leases to be released. {@link Waiters.wake} tells them of a release. */
export class Waiters {
  private readonly clock: Clock;
  private readonly waits = new Map<string, Wait>();

  constructor(clock: Clock) {
    this.clock = clock;
  }

  /** How many keys are waited for. */
  get size(): number {
    return this.waits.size;
  }

  /** The keys that are waited for. */
  keys(): IterableIterator<string> {
    return this.waits.keys();
  }

  /** Resolves with what {@link Waiters.wake} said of `key`, or undefined at `deadline`. */
  async wait(key: string, deadline: Instant): Promise<FetchOutcome | undefined> {
    const wait: Wait = this.waits.get(key) ?? { ...Promise.withResolvers<FetchOutcome>(), waiters: 0 };
    this.waits.set(key, wait);
    wait.waiters += 1;
    const outcome = await valueWithin(wait.promise, deadline - this.clock.now(), this.clock);
    wait.waiters -= 1;
    if (wait.waiters === 0 && this.waits.get(key) === wait) this.waits.delete(key);
    return outcome;
  }

  wake(key: string, outcome: FetchOutcome): void {
    this.waits.get(key)?.resolve(outcome);
    this.waits.delete(key);
  }

  wakeAll(outcome: FetchOutcome): void {
    for (const key of this.waits.keys()) this.wake(key, outcome);
  }
}

/** Leases within one process. */
export class LocalLeases {
  private readonly held = new Set<string>();
  private readonly waiters: Waiters;

  constructor(clock: Clock) {
    this.waiters = new Waiters(clock);
  }

  acquire(key: string): Lease | undefined {
    if (this.held.has(key)) return undefined;
    if (this.held.size >= MAX_LEASES) return { release: () => {} };
    this.held.add(key);
    let isHeld = true;
    return {
      release: (outcome) => {
        if (!isHeld) return;
        isHeld = false;
        this.held.delete(key);
        this.waiters.wake(key, outcome);
      },
    };
  }

  isHeld(key: string): boolean {
    return this.held.has(key);
  }

  /** See {@link Coordinator.whenReleased}; a key without a lease is "failed" at once. */
  whenReleased(key: string, deadline: Instant): Promise<FetchOutcome | undefined> {
    return this.held.has(key) ? this.waiters.wait(key, deadline) : Promise.resolve("failed");
  }

  close(): void {
    this.held.clear();
    this.waiters.wakeAll("failed");
  }
}

const MAX_FACTS = 50_000;

interface Fact {
  readonly value: string;
  readonly until: Instant;
}

/** Small facts of one process, each for its time; the least recently used go first when they are too many. */
export class Facts {
  private readonly clock: Clock;
  // A size of one each, not `max`, which takes the memory of all at the start: milliseconds and a megabyte.
  private readonly facts = new LRUCache<string, Fact>({ maxSize: MAX_FACTS, sizeCalculation: () => 1 });

  constructor(clock: Clock) {
    this.clock = clock;
  }

  remember(key: string, value: string, ttl: Duration): void {
    if (ttl > 0) this.facts.set(key, { value, until: this.clock.now() + ttl });
    else this.facts.delete(key);
  }

  recall(key: string): string | undefined {
    const fact = this.facts.get(key);
    if (fact === undefined) return undefined;
    if (fact.until > this.clock.now()) return fact.value;
    this.facts.delete(key);
    return undefined;
  }
}
