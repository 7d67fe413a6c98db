import type { Clock, Duration, Instant } from "../../clock.ts";
import type { RedisLink } from "./link.ts";
import type { Message } from "./message.ts";
import { reportCalls, takeCall } from "./budget-scripts.ts";
import { CallWindows } from "../call-windows.ts";
import type { CallGrant, CallLimit, MaybePromise } from "../coordinator.ts";
import { CHANGING_OVER, type Replicas } from "./replicas.ts";
import type { SharedEpochs } from "./shared-epochs.ts";
import { PAUSE } from "./circuit-breaker.ts";

/**
 * For so long calls are held back when Redis went away, or has not been there yet: mostly it is there by then, and a
 * call granted without it could be one too many.
 */
const HELD_BACK: Duration = 350;

/**
 * Call budgets counted in Redis; while it is away each replica takes its share of them. From when Redis is there, first
 * or again, both hold until every replica has noticed: those who count never meet one who does not.
 */
export class SharedBudgets {
  private readonly link: RedisLink;
  private readonly epochs: SharedEpochs;
  private readonly replicas: Replicas;
  private readonly clock: Clock;
  /** What this replica called, whoever granted it. */
  private readonly windows: CallWindows;
  /** What the others called beyond their shares, by the budget's key: it is missing from the share of this one. */
  private readonly borrowed: CallWindows;
  /** The share of this replica holds beside the count in Redis until this instant. */
  private sharedUntil: Instant = Infinity;
  private lostAt: Instant;

  constructor(options: { link: RedisLink; epochs: SharedEpochs; replicas: Replicas; clock: Clock }) {
    this.link = options.link;
    this.epochs = options.epochs;
    this.replicas = options.replicas;
    this.clock = options.clock;
    this.windows = new CallWindows(options.clock);
    this.borrowed = new CallWindows(options.clock);
    this.lostAt = options.clock.now();
  }

  take(name: string, limit: CallLimit): MaybePromise<CallGrant> {
    if (!this.epochs.isUsable) return this.takeShare(name, limit);
    const sharedFor = this.sharedUntil - this.clock.now();
    if (sharedFor > 0) {
      const retryIn = this.shareIn(name, limit);
      if (retryIn > 0) return { granted: false, retryIn: Math.min(retryIn, sharedFor) };
    }
    return this.takeCounted(name, limit);
  }

  /** Redis is away: what it counts is not what is called from now on. */
  lost(): void {
    this.lostAt = this.clock.now();
    this.sharedUntil = Infinity;
  }

  /** Redis is there. */
  regained(): void {
    this.sharedUntil = this.clock.now() + CHANGING_OVER;
    this.report();
  }

  received({ key, by, per }: Extract<Message, { kind: "borrowed" }>): void {
    if (by !== this.replicas.id) this.borrowed.note(key, per);
  }

  private async takeCounted(name: string, limit: CallLimit): Promise<CallGrant> {
    const session = this.epochs.sessionOf(undefined);
    const key = this.link.keys.budget(name);
    const { requests, per } = limit;
    const isBeyond = this.windows.count(name, per) >= this.replicas.shareOf(requests);
    // Noted before it is granted: of many calls at once each sees the others.
    const at = this.windows.note(name, per);
    const args = [
      requests,
      per,
      this.nameCall(at),
      ...(isBeyond ? [this.link.keys.channel, key, this.replicas.id] : []),
    ];
    try {
      const [granted, number] = (await this.link.run({ script: takeCall, keys: [key], args }, PAUSE)) as [
        number,
        number,
      ];
      if (granted === 1) return { granted: true, left: number };
      this.windows.forget(name, per, at);
      return { granted: false, retryIn: number };
    } catch {
      this.windows.forget(name, per, at);
      this.epochs.fail(undefined, session);
      // Noticed late, when Redis is there again already: what is called now has to be counted there.
      return this.epochs.isUsable ? { granted: false, retryIn: PAUSE } : this.takeShare(name, limit);
    }
  }

  private takeShare(name: string, limit: CallLimit): CallGrant {
    const heldBack = this.lostAt + HELD_BACK - this.clock.now();
    if (heldBack > 0) return { granted: false, retryIn: Math.min(heldBack, PAUSE) };
    const retryIn = this.shareIn(name, limit);
    if (retryIn > 0) return { granted: false, retryIn };
    this.windows.note(name, limit.per);
    return { granted: true, left: this.shareOf(name, limit) - this.windows.count(name, limit.per) };
  }

  /** How long until this replica's share allows a call; 0 when it does now. */
  private shareIn(name: string, limit: CallLimit): Duration {
    const requests = this.shareOf(name, limit);
    if (requests > 0) return this.windows.retryIn(name, { ...limit, requests });
    // The others have it all: until the first of their calls is out of the window.
    const key = this.link.keys.budget(name);
    const lent = this.borrowed.count(key, limit.per);
    return lent === 0 ? limit.per : this.borrowed.retryIn(key, { ...limit, requests: lent });
  }

  private shareOf(name: string, { requests, per }: CallLimit): number {
    return this.replicas.shareOf(requests) - this.borrowed.count(this.link.keys.budget(name), per);
  }

  /** Tells Redis what was called without it. */
  private report(): void {
    const now = this.clock.now();
    for (const { name, per, calls } of this.windows.all()) {
      if (calls.length === 0) continue;
      const args = [per, ...calls.flatMap((at) => [now - at, this.nameCall(at)])];
      const call = { script: reportCalls, keys: [this.link.keys.budget(name)], args };
      // All are sent before any call is counted: replies are not waited for.
      this.link.run(call, CHANGING_OVER).catch(() => {});
    }
  }

  /** The same call always has the same name, so that it may be reported twice and counts once. */
  private nameCall(at: Instant): string {
    return `${this.replicas.id}:${at}`;
  }
}
