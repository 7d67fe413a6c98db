import type { Clock, Duration, Instant } from "../clock.ts";
import type { RedisLink } from "../redis/link.ts";
import { reportCalls, takeCall } from "./budget-scripts.ts";
import { CallWindows } from "./call-windows.ts";
import type { CallGrant, CallLimit, MaybePromise } from "./coordinator.ts";
import type { Replicas } from "./replicas.ts";
import type { SharedEpochs } from "./shared-epochs.ts";
import { PAUSE } from "./trust.ts";

/**
 * After Redis came back every replica first writes down what it called in the meantime; only then does the count in
 * Redis hold again.
 */
const REPORTING_TAKES: Duration = 1_500;

/**
 * For so long calls are held back when Redis went away: mostly it is back by then, and a call granted without it could
 * have been one too many.
 */
const HELD_BACK: Duration = 350;

/** Call budgets counted in Redis; while it is away each replica takes its share of them. */
export class SharedBudgets {
  private readonly link: RedisLink;
  private readonly epochs: SharedEpochs;
  private readonly replicas: Replicas;
  private readonly clock: Clock;
  /** What this replica called, whoever granted it. */
  private readonly windows: CallWindows;
  /** The count in Redis holds from this instant. */
  private sharedFrom: Instant = Infinity;
  private lostAt: Instant = -Infinity;

  constructor(options: { link: RedisLink; epochs: SharedEpochs; replicas: Replicas; clock: Clock }) {
    this.link = options.link;
    this.epochs = options.epochs;
    this.replicas = options.replicas;
    this.clock = options.clock;
    this.windows = new CallWindows(options.clock);
  }

  take(name: string, limit: CallLimit): MaybePromise<CallGrant> {
    if (!this.epochs.isUsable) return this.takeShare(name, limit);
    return this.clock.now() < this.sharedFrom ? this.takeShare(name, limit) : this.takeShared(name, limit);
  }

  /** Redis is away: what it counts is not what is called from now on. */
  lost(): void {
    this.sharedFrom = Infinity;
    this.lostAt = this.clock.now();
  }

  /** Redis is there. */
  regained(): void {
    if (this.sharedFrom !== Infinity) return;
    void this.report();
    const now = this.clock.now();
    this.sharedFrom = now - this.lostAt < HELD_BACK ? now : now + REPORTING_TAKES;
    if (this.sharedFrom === now) return;
    this.clock.after(REPORTING_TAKES, () => void this.report());
  }

  private async takeShared(name: string, limit: CallLimit): Promise<CallGrant> {
    const session = this.epochs.sessionOf(undefined);
    const at = this.windows.stamp();
    const args = [limit.requests, limit.per, this.nameCall(at)];
    try {
      const call = { script: takeCall, keys: [this.link.keys.budget(name)], args };
      const [granted, number] = (await this.link.run(call, PAUSE)) as [number, number];
      if (granted !== 1) return { granted: false, retryIn: number };
      this.windows.note(name, limit, at);
      return { granted: true, left: number };
    } catch {
      this.epochs.fail(undefined, session);
      return this.takeShare(name, limit);
    }
  }

  /** The share of this replica: the shares of all that were last seen add up to the limit. */
  private takeShare(name: string, limit: CallLimit): CallGrant {
    const heldBack = this.lostAt + HELD_BACK - this.clock.now();
    if (heldBack > 0) return { granted: false, retryIn: heldBack };
    const { count, rank } = this.replicas;
    const share = Math.floor(limit.requests / count) + (rank < limit.requests % count ? 1 : 0);
    return this.windows.take(name, { requests: share, per: limit.per });
  }

  private async report(): Promise<void> {
    if (!this.link.isConnected) return;
    const now = this.clock.now();
    for (const { name, per, calls } of this.windows.all()) {
      if (calls.length === 0) continue;
      const args = [per, ...calls.flatMap((at) => [now - at, this.nameCall(at)])];
      const call = { script: reportCalls, keys: [this.link.keys.budget(name)], args };
      await this.link.run(call, REPORTING_TAKES).catch(() => {});
    }
  }

  /** The same call always has the same name, so that it may be reported twice and counts once. */
  private nameCall(at: Instant): string {
    return `${this.replicas.id}:${at}`;
  }
}
