import type { Duration, Instant } from "../../clock.ts";
import type { Attempt } from "./attempt.ts";
import { isHopeless } from "./attempt-outcome.ts";
import type { UpstreamCall } from "../call.ts";
import type { UpstreamNode } from "../node/node.ts";
import type { UpstreamParts } from "../parts.ts";

/** A call is not late before this, however quick its operation is as a rule. */
const LEAST_LATE: Duration = 750;
/** And not before it took so many times as long as what is slow for its operation. */
const LATE_FACTOR = 3;

/** Where a call stands when another attempt might be made beside one that is slow. */
export interface Standing {
  readonly running: readonly Attempt[];
  readonly tried: readonly UpstreamNode[];
}

/**
 * The one attempt that may run beside another of the same call, on another node: a hedge when the first is slower than
 * usual, paid from the hedge budget; a rescue when it is very late or half of the time is gone, paid as a retry. It
 * takes no place in the concurrency and no call of `rateLimit` that others wait for.
 */
export class SideAttempt {
  private readonly parts: UpstreamParts;
  private readonly call: UpstreamCall;
  private readonly start: (kind: "hedge" | "rescue") => void;
  private hedgeAt: Instant = Infinity;
  private hasPlace = false;
  private isPaying = false;

  /** `start` begins the attempt; credentials may delay it. */
  constructor(parts: UpstreamParts, call: UpstreamCall, start: (kind: "hedge" | "rescue") => void) {
    this.parts = parts;
    this.call = call;
    this.start = start;
  }

  /** When {@link check} has to look next. */
  due(running: readonly Attempt[]): Instant {
    return running.length === 1 ? this.hedgeAt : Infinity;
  }

  /** Decides when `attempt`, which begins now, is slow and when it is late. */
  plan(attempt: Attempt, deadline: Instant): void {
    const { config, latencies } = this.parts;
    const { priority, operation } = this.call;
    const now = attempt.startedAt;
    const slow = latencies.slow(operation);
    const late = Math.max(LEAST_LATE, LATE_FACTOR * (slow ?? 0));
    if (late < config.attemptTimeout) attempt.lateAt = now + late;
    attempt.rescueAt = Math.min(attempt.lateAt, now + (deadline - now) / 2);
    const isUrgent = priority === "post" || priority === "miss";
    if (attempt.kind === "first" && slow !== undefined && config.hedge.enabled && isUrgent) this.hedgeAt = now + slow;
  }

  /** No hedge any more: the first attempt is over. */
  cancelHedge(): void {
    this.hedgeAt = Infinity;
  }

  /** Starts a hedge when it is time for one. */
  check(standing: Standing, now: Instant): void {
    if (now < this.hedgeAt) return;
    this.hedgeAt = Infinity;
    if (!this.isPossible(standing) || !this.takePlace()) return;
    const { hedges, observer, config } = this.parts;
    if (!hedges.spend()) return observer.hedge(config.name, "refused");
    observer.hedge(config.name, "started");
    this.pay("hedge", standing);
  }

  /** Starts a rescue, if there is anything to pay it from. Returns whether it was started. */
  rescue(standing: Standing): boolean {
    if (!this.isPossible(standing) || isHopeless(this.parts, "timeout", this.call) || !this.takePlace()) return false;
    const { retries, observer, config } = this.parts;
    if (!retries.spend()) {
      observer.retryBudgetExhausted(config.name);
      return false;
    }
    observer.retry(config.name, "timeout");
    this.pay("rescue", standing);
    return true;
  }

  /** The call is over. */
  end(): void {
    this.isPaying = false;
    if (this.hasPlace) this.parts.concurrency.leave();
    this.hasPlace = false;
  }

  private isPossible({ running, tried }: Standing): boolean {
    if (running.length !== 1 || this.isPaying) return false;
    return this.parts.choice.hasOther(this.parts.clock.now(), tried);
  }

  private takePlace(): boolean {
    this.hasPlace ||= this.parts.concurrency.tryEnter();
    return this.hasPlace;
  }

  private pay(kind: "hedge" | "rescue", { running }: Standing): void {
    const paid = this.parts.rateLimit?.tryTake(this.call.operation, "walker") ?? true;
    if (!(paid instanceof Promise)) {
      if (paid) this.start(kind);
      return;
    }
    this.isPaying = true;
    void paid.then((isPaid) => {
      const isWanted = this.isPaying && running.length === 1;
      this.isPaying = false;
      if (isPaid && isWanted) this.start(kind);
    });
  }
}
