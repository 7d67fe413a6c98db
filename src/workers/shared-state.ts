import type { Clock, Duration } from "../clock.ts";
import type { ActionMessage } from "../coordination/actions.ts";
import type { Lease } from "../coordination/coordinator.ts";
import { SlotTable, TokenTable } from "../coordination/limit-tables.ts";
import { LocalCoordinator } from "../coordination/local.ts";
import type { IssuedChain, JoinReply, PrimaryTopics, Shared, WorkerTopics } from "./protocol.ts";
import type { Peer } from "./rpc.ts";

/** A worker that does not take note of a purge within this time must not go on answering: it is hung. */
const PURGE_TIMEOUT: Duration = 3_000;

/** A worker as this part of its primary knows it. */
interface Served {
  readonly peer: Peer<PrimaryTopics, WorkerTopics>;
  readonly leases: Map<string, Lease>;
  /** Ends a worker that cannot be told of a purge. */
  readonly end: () => void;
}

/**
 * What the workers of one machine share, kept by their primary, which is the authority on it: epochs, page chains,
 * actions, leases, rate limits, limits of clients and facts. Workers have copies of epochs and actions. All it does for a worker ends with the worker.
 */
export class SharedState {
  private readonly clock: Clock;
  private readonly tables: LocalCoordinator;
  private readonly tokens: TokenTable;
  private readonly slots = new SlotTable<Served>();
  /** Those that have copies. */
  private readonly workers = new Set<Served>();

  constructor(clock: Clock) {
    this.clock = clock;
    this.tables = new LocalCoordinator({ clock });
    this.tokens = new TokenTable(clock);
  }

  /**
   * Serves the worker at the other end of `peer` from now on.
   *
   * @param end ends that worker for good
   * @returns what to call when it is gone
   */
  serve(peer: Served["peer"], end: () => void): () => void {
    const { tables } = this;
    const worker: Served = { peer, end, leases: new Map() };
    peer.answer("join", () => this.join(worker));
    peer.answer("purge", async ({ partition, scopes }) => {
      await this.purge(partition, scopes);
      return undefined;
    });
    peer.answer("act", async (message) => {
      await this.act(message);
      return undefined;
    });
    peer.answer("chain", (issued) => this.chain(issued));
    peer.answer("acquire", (key) => this.acquire(worker, key));
    peer.answer("release", ({ key, outcome }) => {
      const lease = worker.leases.get(key);
      worker.leases.delete(key);
      lease?.release(outcome);
      return undefined;
    });
    peer.answer("wait", ({ key, timeout }) => tables.whenReleased(key, this.clock.now() + timeout));
    peer.answer("takeCall", ({ name, limit }) => tables.takeCall(name, limit));
    peer.answer("takeTokens", ({ name, claim }) => this.shared(this.tokens.take(name, claim)));
    peer.answer("holdSlots", ({ name, claim }) => this.shared(this.slots.hold(name, worker, claim)));
    peer.answer("remember", ({ key, value, ttl }) => {
      tables.remember(key, value, ttl);
      return undefined;
    });
    peer.answer("recall", (key) => tables.recall(key));
    peer.answer("announce", (news) => {
      for (const other of this.workers) if (other !== worker) other.peer.tell("announced", news);
      return undefined;
    });
    return () => this.leave(worker);
  }

  /** Gives the scopes new epochs: one message to each worker. Resolves when every worker has them, or is gone. */
  async purge(partition: string | undefined, scopes: readonly string[]): Promise<void> {
    const change = this.tables.epochs.raise(partition, scopes, this.clock.wallNow());
    await this.askAll(({ peer }) => peer.ask("purged", change, PURGE_TIMEOUT));
  }

  /** Has an operator's action in force at every worker. */
  private async act(message: ActionMessage): Promise<void> {
    this.tables.actions.follow(message);
    await this.askAll(({ peer }) => peer.ask("acted", message, PURGE_TIMEOUT));
  }

  /** Resolves when every worker has replied, or is gone. */
  private async askAll(ask: (worker: Served) => Promise<undefined>): Promise<void> {
    const asked = [...this.workers].map((worker) =>
      ask(worker).catch(() => {
        if (this.workers.has(worker)) worker.end();
      }),
    );
    await Promise.all(asked);
  }

  close(): Promise<void> {
    return this.tables.close();
  }

  private join(worker: Served): JoinReply {
    // From here on it is told what is new, in the same channel behind this reply.
    this.workers.add(worker);
    const { epochs, actions } = this.tables;
    return { epochs: epochs.snapshot(), actions: actions.everything().map((held) => actions.message(held)) };
  }

  private leave(worker: Served): void {
    this.workers.delete(worker);
    this.slots.leave(worker);
    for (const lease of worker.leases.values()) lease.release("failed");
    worker.leases.clear();
  }

  private shared<T>(value: T): Shared<T> {
    return { value, workers: this.workers.size };
  }

  private chain(issued: IssuedChain): undefined {
    this.tables.issueChain(issued.partition, issued.chain, issued.digest);
    // The worker that it is from is told as well: two that issue different ones at the same time end with the same.
    for (const { peer } of this.workers) peer.tell("chained", issued);
    return undefined;
  }

  private acquire(worker: Served, key: string): boolean {
    const lease = this.tables.acquire(key);
    if (lease === undefined) return false;
    worker.leases.set(key, lease);
    return true;
  }
}
