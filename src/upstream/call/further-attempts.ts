import type { Duration, Instant } from "../../clock.ts";
import type { Operation } from "../../spec/operations.ts";
import { consequences, type FailureReason } from "../failure.ts";
import type { UpstreamParts } from "../parts.ts";

/** Enough that a few slow calls more or less do not move a high quantile from the bulk into the tail. */
const KEPT = 1_024;
/** Fewer samples than this say nothing about a tail. */
const LEAST = 20;
/** Sorting is worth it once in so many samples: few at first, more when there are many to sort. */
const RECOMPUTE_FIRST = 16;
const RECOMPUTE_LATER = 128;

/** A quantile of the latest 1024 latencies. */
export class LatencyQuantile {
  private readonly quantile: number;
  private readonly samples = new Float64Array(KEPT);
  private recorded = 0;
  private value: Duration | undefined;

  constructor(quantile: number) {
    this.quantile = quantile;
  }

  record(latency: Duration): void {
    this.samples[this.recorded % KEPT] = latency;
    this.recorded += 1;
    const every = this.recorded < KEPT / 4 ? RECOMPUTE_FIRST : RECOMPUTE_LATER;
    if (this.recorded % every === 0) this.recompute();
  }

  /** Undefined until there are enough samples. */
  get(): Duration | undefined {
    return this.value;
  }

  private recompute(): void {
    const count = Math.min(this.recorded, KEPT);
    if (count < LEAST) return;
    const sorted = this.samples.slice(0, count).sort();
    this.value = sorted[Math.min(count - 1, Math.floor(count * this.quantile))];
  }
}

/** What is slow for each operation of one upstream: a quantile of its latest latencies. */
export class Latencies {
  private readonly quantile: number;
  private readonly byOperation = new Map<Operation, LatencyQuantile>();

  constructor(quantile: number) {
    this.quantile = quantile;
  }

  record(operation: Operation, latency: Duration): void {
    let latencies = this.byOperation.get(operation);
    if (latencies === undefined) {
      latencies = new LatencyQuantile(this.quantile);
      this.byOperation.set(operation, latencies);
    }
    latencies.record(latency);
  }

  /** Slower than this is slow; undefined until enough was measured. */
  slow(operation: Operation): Duration | undefined {
    return this.byOperation.get(operation)?.get();
  }
}

/**
 * A call is not slow before this, however quick its operation is as a rule: up to here it may as well have waited for the
 * gateway itself, and another call would come no sooner.
 */
const LEAST_SLOW: Duration = 5;
/** A call is not late before this, however quick its operation is as a rule. */
const LEAST_LATE: Duration = 750;
/** And not before it took so many times as long as what is slow for its operation. */
const LATE_FACTOR = 3;

/**
 * When something is due about an attempt that has not ended. `late`: it speaks against its node; `retry`: it is very late, or
 * half of the call's time is gone, so that another node is asked beside it, paid as a retry; `hedge`: it is slower than usual,
 * so that another is, paid from the hedge budget. What cannot be done when it is due is not done later.
 */
export interface Moment {
  readonly at: Instant;
  readonly what: "late" | "retry" | "hedge";
}

export interface MomentInput {
  readonly now: Instant;
  /** Of the whole call. */
  readonly deadline: Instant;
  readonly attemptTimeout: Duration;
  /** What is slow for the operation; undefined while that is not known. */
  readonly slow: Duration | undefined;
  readonly mayHedge: boolean;
}

/** Those of an attempt that begins now, in the order in which they come. */
export function momentsOf({ now, deadline, attemptTimeout, slow, mayHedge }: MomentInput): Moment[] {
  const late = Math.max(LEAST_LATE, LATE_FACTOR * (slow ?? 0));
  const lateAt = late < attemptTimeout ? now + late : Infinity;
  const hedgeAt = mayHedge && slow !== undefined ? now + Math.max(LEAST_SLOW, slow) : Infinity;
  const moments: Moment[] = [
    { at: lateAt, what: "late" },
    { at: Math.min(lateAt, now + (deadline - now) / 2), what: "retry" },
    { at: hedgeAt, what: "hedge" },
  ];
  return moments.filter(({ at }) => at < Infinity).toSorted((a, b) => a.at - b.at);
}

/** Takes an attempt that begins beside another out of the budget of its kind; false when there is none left. */
export function payForBeside({ hedges, retries, observer, config }: UpstreamParts, kind: "hedge" | "retry"): boolean {
  if (kind === "hedge") {
    const isPaid = hedges.spend();
    observer.hedge(config.name, isPaid ? "started" : "refused");
    return isPaid;
  }
  const isPaid = retries.spend();
  if (isPaid) observer.retry(config.name, "timeout");
  else observer.retryBudgetExhausted(config.name);
  return isPaid;
}

/** Longest pause before another attempt on another node; it doubles with each attempt. */
const BACKOFF: Duration = 20;
/** The same node gets some time to come back. */
const SOLE_BACKOFF: Duration = 100;
/** A call holds its place while it waits: it does not wait longer than this for a node that asked for a pause. */
const LONGEST_WAIT: Duration = 2_000;

/** What a call knows when all its attempts have failed. */
export interface RetryState {
  /** Why the last one failed. */
  readonly reason: FailureReason;
  /** How many were made, and how many there may be. */
  readonly attempts: number;
  readonly most: number;
  /** Of the whole call. */
  readonly deadline: Instant;
  /** The request failed on every node a moment ago. */
  readonly hasFailedEverywhere: boolean;
  /** A node that was not tried takes requests, and asked for no pause. */
  readonly hasUntried: boolean;
  /** When the first of the nodes but the last one may be asked; undefined where there is no other. */
  readonly othersFreeAt: Instant | undefined;
  /** From 0 to 1. */
  readonly random: number;
}

/** When to try again, and which nodes not to ask if there are others. */
export interface RetryPlan {
  readonly at: Instant;
  readonly avoid: "tried" | "last" | "none";
}

/** When and where to try again; undefined when it is not worth it, not allowed, or too late. */
export function planRetry(state: RetryState, now: Instant): RetryPlan | undefined {
  if (state.attempts >= state.most || state.hasFailedEverywhere) return undefined;
  const plan = findPlan(state, now);
  return plan !== undefined && plan.at < state.deadline ? plan : undefined;
}

function findPlan({ reason, attempts, hasUntried, othersFreeAt, random }: RetryState, now: Instant) {
  const soon = now + random * BACKOFF * 2 ** (attempts - 1);
  if (hasUntried) return { at: soon, avoid: "tried" } as const;
  // Nodes that all say 429 count by the same address: ours. The client learns when to come back.
  if (othersFreeAt !== undefined && reason !== "http-429") {
    // All were tried, or asked for a pause: the one that may be asked first.
    if (othersFreeAt - now > LONGEST_WAIT) return undefined;
    return { at: Math.max(soon, othersFreeAt), avoid: "last" } as const;
  }
  if (!consequences[reason].again) return undefined;
  return { at: now + SOLE_BACKOFF * (0.5 + random * 0.5), avoid: "none" } as const;
}
