import type { Clock, Duration, Instant } from "../clock.ts";
import { consequences } from "./failure.ts";
import type { FailureReason } from "./failure.ts";
import type { BreakerState } from "./observer.ts";
import { OutcomeWindow } from "./outcome-window.ts";

const SPAN: Duration = 10_000;
/** Fewer calls than this say nothing about an upstream. */
const LEAST_CALLS = 20;
const FAILED_SHARE = 0.5;
const FIRST_PAUSE: Duration = 1_000;
const LONGEST_PAUSE: Duration = 8_000;

/**
 * Stops calls to an upstream that fails on all of its nodes: opens when at least 20 calls ended in 10 s and half of
 * them failed, lets one probe through after a pause, and closes when a probe succeeds. Pauses double up to 8 s.
 */
export class Breaker {
  private readonly clock: Clock;
  private readonly patience: Duration;
  private readonly onChange: (state: BreakerState) => void;
  private readonly window = new OutcomeWindow(SPAN);
  private currentState: BreakerState = "closed";
  private pause: Duration = FIRST_PAUSE;
  private openUntil: Instant = 0;
  private isProbing = false;

  /** `patience`: how long a call has to wait before a timeout is the upstream's fault. */
  constructor(clock: Clock, patience: Duration, onChange: (state: BreakerState) => void) {
    this.clock = clock;
    this.patience = patience;
    this.onChange = onChange;
  }

  get state(): BreakerState {
    return this.currentState;
  }

  /** How long a call would have to wait, or 0 when it may go now. Does not reserve the probe. */
  waitTime(): Duration {
    if (this.currentState === "closed") return 0;
    const left = this.openUntil - this.clock.now();
    if (left > 0) return left;
    return this.isProbing ? FIRST_PAUSE : 0;
  }

  /**
   * Lets a call through, or not. Each call let through reports back once: {@link report}, {@link record} or
   * {@link forget}.
   */
  admit(): boolean {
    if (this.currentState === "closed") return true;
    if (this.waitTime() > 0) return false;
    this.isProbing = true;
    this.change("half-open");
    return true;
  }

  /**
   * A call that was let through ended after `elapsed`, with this failure or with an answer. A timeout that a client
   * with little patience brought about tells nothing, nor does a 429.
   */
  report(reason: FailureReason | undefined, elapsed: Duration): void {
    const isTimeout = reason === "timeout" || reason === "connect-timeout";
    if (reason === "http-429" || (isTimeout && !this.isFairTrial(elapsed))) this.forget();
    else this.record(reason === undefined || !consequences[reason].unhealthy);
  }

  /** Whether so much time is enough to blame the upstream for not answering. */
  isFairTrial(elapsed: Duration): boolean {
    return elapsed >= this.patience * 0.9;
  }

  /** A call that was let through succeeded, or failed on all the nodes it was worth trying. */
  record(isGood: boolean): void {
    const now = this.clock.now();
    if (this.currentState === "closed") {
      this.window.record(isGood, now);
      if (!isGood && this.isTooMuch(now)) this.open(now);
      return;
    }
    // Calls that began before the breaker opened tell nothing new, unless one of them succeeds.
    if (this.currentState === "open" && !isGood) return;
    this.isProbing = false;
    if (isGood) {
      this.pause = FIRST_PAUSE;
      this.window.clear();
      this.change("closed");
    } else {
      this.pause = Math.min(this.pause * 2, LONGEST_PAUSE);
      this.open(now);
    }
  }

  /** A call that was let through ended without telling anything: its client went away. */
  forget(): void {
    this.isProbing = false;
  }

  /** A check found a node well: the next call may probe at once. */
  hint(): void {
    if (this.currentState === "open") this.openUntil = this.clock.now();
  }

  private isTooMuch(now: Instant): boolean {
    const { total, failed } = this.window.count(now);
    return total >= LEAST_CALLS && failed >= total * FAILED_SHARE;
  }

  private open(now: Instant): void {
    this.openUntil = now + this.pause;
    this.change("open");
  }

  private change(state: BreakerState): void {
    if (state === this.currentState) return;
    this.currentState = state;
    this.onChange(state);
  }
}
