import type { Clock, Instant } from "../clock.ts";
import type { FetchOutcome, Lease } from "./coordinator.ts";

/** Leases beyond this many are granted without being noted: a bound on memory costs at most a fetch made twice. */
const MAX_LEASES = 100_000;

type Waiter = (outcome: FetchOutcome | undefined) => void;

/** Waiting for somebody to let go of a key; whoever learns of it calls {@link Waiters.wake}. */
export class Waiters {
  private readonly clock: Clock;
  private readonly waiting = new Map<string, Set<Waiter>>();

  constructor(clock: Clock) {
    this.clock = clock;
  }

  /** How many keys somebody waits for. */
  get size(): number {
    return this.waiting.size;
  }

  /** The keys somebody waits for. */
  keys(): IterableIterator<string> {
    return this.waiting.keys();
  }

  /** Resolves with what {@link Waiters.wake} said of `key`, or undefined at `deadline`. */
  wait(key: string, deadline: Instant): Promise<FetchOutcome | undefined> {
    return new Promise((resolve) => {
      const waiters = this.waiting.get(key) ?? new Set();
      this.waiting.set(key, waiters);
      const waiter: Waiter = (outcome) => {
        cancel();
        resolve(outcome);
      };
      const cancel = this.clock.after(deadline - this.clock.now(), () => {
        waiters.delete(waiter);
        if (waiters.size === 0 && this.waiting.get(key) === waiters) this.waiting.delete(key);
        resolve(undefined);
      });
      waiters.add(waiter);
    });
  }

  wake(key: string, outcome: FetchOutcome | undefined): void {
    const waiters = this.waiting.get(key);
    if (waiters === undefined) return;
    this.waiting.delete(key);
    for (const waiter of waiters) waiter(outcome);
  }

  wakeAll(outcome: FetchOutcome | undefined): void {
    for (const key of this.waiting.keys()) this.wake(key, outcome);
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

  /** See {@link Coordinator.whenReleased}; a key that nobody holds is "failed" at once. */
  whenReleased(key: string, deadline: Instant): Promise<FetchOutcome | undefined> {
    return this.held.has(key) ? this.waiters.wait(key, deadline) : Promise.resolve("failed");
  }

  close(): void {
    this.held.clear();
    this.waiters.wakeAll("failed");
  }
}
