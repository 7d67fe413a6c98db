import type { Clock, Duration, Instant } from "../clock.ts";
import type { RedisLink } from "../redis/link.ts";
import { reportCalls, takeCall } from "./budget-scripts.ts";
import { CallWindows } from "./call-windows.ts";
import type { CallGrant, CallLimit, MaybePromise } from "./coordinator.ts";
import type { Replicas } from "./replicas.ts";
import type { SharedEpochs } from "./shared-epochs.ts";
import { PAUSE } from "./trust.ts";

/**
 * When Redis is there, or there again, replicas find that out one after the other, all within this time. Each first
 * takes its share alone for as long, and writes down what it called; then, for as long again, what both its share and
 * the count in Redis allow; then what the count allows. So those who count never meet one who does not, and no window
 * holds more calls than it may while they change over.
 */
const CHANGING_OVER: Duration = 1_500;

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
  /** The count in Redis is asked from this instant. */
  private countedFrom: Instant = Infinity;
  /** And this replica's share counts no more from this one. */
  private unsharedFrom: Instant = Infinity;
  /** What {@link countedFrom} was when Redis was lost. */
  private countedBefore: Instant = Infinity;
  private lostAt: Instant = -Infinity;

  constructor(options: { link: RedisLink; epochs: SharedEpochs; replicas: Replicas; clock: Clock }) {
    this.link = options.link;
    this.epochs = options.epochs;
    this.replicas = options.replicas;
    this.clock = options.clock;
    this.windows = new CallWindows(options.clock);
  }

  take(name: string, limit: CallLimit): MaybePromise<CallGrant> {
    const now = this.clock.now();
    if (!this.epochs.isUsable || now < this.countedFrom) return this.takeShare(name, limit);
    if (now < this.unsharedFrom) {
      const retryIn = this.windows.retryIn(name, this.shareOf(limit));
      if (retryIn > 0) return { granted: false, retryIn: Math.min(retryIn, this.unsharedFrom - now) };
    }
    return this.takeCounted(name, limit);
  }

  /** Redis is away: what it counts is not what is called from now on. */
  lost(): void {
    if (this.countedFrom !== Infinity) this.countedBefore = this.countedFrom;
    this.countedFrom = Infinity;
    this.lostAt = this.clock.now();
  }

  /** Redis is there. */
  regained(): void {
    if (this.countedFrom !== Infinity) return;
    void this.report();
    const now = this.clock.now();
    if (now - this.lostAt < HELD_BACK) {
      // Nothing was granted meanwhile.
      this.countedFrom = this.countedBefore;
      return;
    }
    this.countedFrom = now + CHANGING_OVER;
    this.unsharedFrom = now + 2 * CHANGING_OVER;
    this.clock.after(CHANGING_OVER, () => void this.report());
  }

  private async takeCounted(name: string, limit: CallLimit): Promise<CallGrant> {
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

  private takeShare(name: string, limit: CallLimit): CallGrant {
    const now = this.clock.now();
    const heldBack = this.lostAt + HELD_BACK - now;
    if (heldBack > 0) return { granted: false, retryIn: heldBack };
    const grant = this.windows.take(name, this.shareOf(limit));
    if (grant.granted || now >= this.countedFrom) return grant;
    return { granted: false, retryIn: Math.min(grant.retryIn, this.countedFrom - now) };
  }

  /** The share of this replica: the shares of all that were last seen add up to the limit. */
  private shareOf({ requests, per }: CallLimit): CallLimit {
    const { count, rank } = this.replicas;
    return { requests: Math.floor(requests / count) + (rank < requests % count ? 1 : 0), per };
  }

  private async report(): Promise<void> {
    if (!this.link.isConnected) return;
    const now = this.clock.now();
    for (const { name, per, calls } of this.windows.all()) {
      if (calls.length === 0) continue;
      const args = [per, ...calls.flatMap((at) => [now - at, this.nameCall(at)])];
      const call = { script: reportCalls, keys: [this.link.keys.budget(name)], args };
      await this.link.run(call, CHANGING_OVER).catch(() => {});
    }
  }

  /** The same call always has the same name, so that it may be reported twice and counts once. */
  private nameCall(at: Instant): string {
    return `${this.replicas.id}:${at}`;
  }
}
