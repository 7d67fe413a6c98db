import { type Clock, type Instant, valueWithin } from "../clock.ts";
import type { FetchOutcome, Lease, LeasesPort } from "./ports.ts";

/** Leases beyond this many are granted without being noted: a bound on memory costs at most a fetch made twice. */
const MAX_LEASES = 100_000;

/** All who wait for the lease of one key. */
interface Wait extends PromiseWithResolvers<FetchOutcome> {
  waiters: number;
}

/** Requests that wait for leases to be released. {@link Waiters.wake} wakes them at a release. */
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
export class LocalLeases implements LeasesPort {
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

  /** See {@link LeasesPort.whenReleased}; a key without a lease is "failed" at once. */
  whenReleased(key: string, deadline: Instant): Promise<FetchOutcome | undefined> {
    return this.held.has(key) ? this.waiters.wait(key, deadline) : Promise.resolve("failed");
  }

  close(): void {
    this.held.clear();
    this.waiters.wakeAll("failed");
  }
}
