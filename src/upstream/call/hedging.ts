import type { Duration, Instant } from "../../clock.ts";
import type { Operation } from "../../spec/operations.ts";

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

/** When something is to be decided about an attempt that has not ended; `Infinity`: never, or no more. */
export interface Schedule {
  /** It is slower than usual: another node is asked beside it, paid from the hedge budget. */
  readonly hedgeAt: Instant;
  /** It is very late, or half of the call's time is gone: another node is asked beside it, paid as a retry. */
  readonly retryAt: Instant;
  /** It is so late that it speaks against its node. */
  readonly lateAt: Instant;
}

/** Of an attempt that nothing runs beside: a streamed one, one of background work, one on a sole node. */
export const ALONE: Schedule = { hedgeAt: Infinity, retryAt: Infinity, lateAt: Infinity };

export interface ScheduleInput {
  readonly now: Instant;
  /** Of the whole call. */
  readonly deadline: Instant;
  readonly attemptTimeout: Duration;
  /** What is slow for the operation; undefined while that is not known. */
  readonly slow: Duration | undefined;
  readonly mayHedge: boolean;
}

/** The schedule of an attempt that begins now. */
export function scheduleAttempt({ now, deadline, attemptTimeout, slow, mayHedge }: ScheduleInput): Schedule {
  const late = Math.max(LEAST_LATE, LATE_FACTOR * (slow ?? 0));
  const lateAt = late < attemptTimeout ? now + late : Infinity;
  return {
    hedgeAt: mayHedge && slow !== undefined ? now + Math.max(LEAST_SLOW, slow) : Infinity,
    retryAt: Math.min(lateAt, now + (deadline - now) / 2),
    lateAt,
  };
}

/** What a call knows when it decides about a second attempt. */
export interface HedgeState {
  /** Of the attempt that runs. */
  readonly schedule: Schedule;
  /** No other attempt of the call runs or is about to begin. */
  readonly isAlone: boolean;
  /** A node that was not tried takes requests. */
  readonly hasOther: boolean;
  /** `retry.attempts` allows one more, and the request is not known to fail everywhere. */
  readonly mayRetry: boolean;
}

export interface HedgeDecision {
  /** What to begin beside the attempt that runs. */
  readonly action: "wait" | "hedge" | "retry";
  /** What is left to decide. */
  readonly schedule: Schedule;
}

/**
 * What a call does at `now` about an attempt that has not ended. Each of its times is decided once: what cannot be done
 * when it is due is not done later.
 */
export function decideHedge({ schedule, isAlone, hasOther, mayRetry }: HedgeState, now: Instant): HedgeDecision {
  const isPossible = isAlone && hasOther;
  const isRetryDue = now >= schedule.retryAt;
  const retryAt = isRetryDue ? Infinity : schedule.retryAt;
  const lateAt = now >= schedule.lateAt ? Infinity : schedule.lateAt;
  // A hedge that is due as well is decided next, should there be nothing to pay the retry from.
  if (isRetryDue && isPossible && mayRetry) return { action: "retry", schedule: { ...schedule, retryAt, lateAt } };
  if (now < schedule.hedgeAt) return { action: "wait", schedule: { ...schedule, retryAt, lateAt } };
  return { action: isPossible ? "hedge" : "wait", schedule: { hedgeAt: Infinity, retryAt, lateAt } };
}
