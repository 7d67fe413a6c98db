import type { CancelTimer, Clock, Duration, Instant } from "../clock.ts";
import type { UpstreamConfig } from "../config/schema.ts";
import { type Operation, OPERATIONS } from "../spec/operations.ts";
import { type Priority, WaitQueue } from "./wait-queue.ts";

/** Calls that are counted together: of an upstream or its group, all of them or those to one endpoint. */
export class CountedCalls {
  readonly queue: WaitQueue;
  /** Calls left in the main window when last seen, and when that was. */
  left = 0;
  leftAt: Instant = -Infinity;
  /** The share of the limit that is used since the registry answered 429. */
  share = 1;
  shrunkAt: Instant = -Infinity;
  /** Until when the registry wants no calls at all. */
  pausedUntil: Instant = 0;
  /** When there is likely to be room for a call of this priority; asked for again sooner, see ASK_AGAIN_AFTER. */
  readonly freeAt: Record<Priority, Instant> = { post: 0, miss: 0, refresh: 0, background: 0 };
  readonly askAt: Record<Priority, Instant> = { post: 0, miss: 0, refresh: 0, background: 0 };
  isPumping = false;
  /** When waiting calls are asked for next; undefined: not by a timer. */
  next: { readonly at: Instant; readonly cancel: CancelTimer } | undefined;
  /** So many calls are asked for at once for those that wait: one more than were granted lately, so that few are refused. */
  atOnce = 1;
  /** Lets waiting calls go, by the limit of who waited last: a reload may have brought another. */
  pump: () => Promise<void> = () => Promise.resolve();

  constructor(clock: Clock) {
    this.queue = new WaitQueue(clock);
  }

  /** When a call of this priority is likely to be granted. */
  grantedAt(priority: Priority): Instant {
    return Math.max(this.freeAt[priority], this.pausedUntil);
  }

  /** When it is worth to ask for one. */
  asksAt(priority: Priority): Instant {
    return Math.max(this.askAt[priority], this.pausedUntil);
  }
}

/** Names what shares the windows of a limit, the same in all processes: a group, or an upstream by itself. */
export function whoseLimit({ name, rateLimit }: Pick<UpstreamConfig, "name" | "rateLimit">): string {
  return rateLimit?.group === undefined ? `upstream:${name}` : `group:${rateLimit.group}`;
}

/** The groups of upstreams that share a rate limit. Outlives reloads: members come and go, what is known stays. */
export class RateLimitGroups {
  /** As {@link whoseLimit} names it → what is counted together → its calls. */
  private readonly groups = new Map<string, Map<string, CountedCalls>>();

  /** These are the upstreams from now on. */
  reset(configs: readonly UpstreamConfig[]): void {
    const named = new Set(configs.map(whoseLimit));
    for (const whose of this.groups.keys()) if (!named.has(whose)) this.groups.delete(whose);
  }

  of(whose: string): Map<string, CountedCalls> {
    let counted = this.groups.get(whose);
    if (counted === undefined) this.groups.set(whose, (counted = new Map()));
    return counted;
  }
}

/** No registry has the gateway wait longer. */
export const LONGEST_RETRY_AFTER: Duration = 60_000;

/** A 429 as processes announce it: to what it was the answer, and how long nothing is to be asked. */
export interface Refusal {
  readonly whose: string;
  readonly operation: Operation;
  readonly pause: Duration;
}

export function formatRefusal({ whose, operation, pause }: Refusal): string {
  return `refused ${operation} ${pause} ${whose}`;
}

/** Undefined for other event, and for what goes beyond the bounds of a refusal. */
export function parseRefusal(event: string): Refusal | undefined {
  const [, name, pause, whose] = /^refused (\w+) (\d{1,5}) (.+)$/s.exec(event) ?? [];
  const operation = OPERATIONS.find((each) => each === name);
  if (operation === undefined || Number(pause) > LONGEST_RETRY_AFTER) return undefined;
  return { whose: whose!, operation, pause: Number(pause) };
}
