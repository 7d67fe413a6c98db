import { LRUCache } from "lru-cache";
import type { CancelTimer, Clock, Duration, Instant } from "../clock.ts";
import { Recurrence } from "../recurrence.ts";

/** More than fail at once as a rule; a client that makes up others pushes out its own. */
const MAX_REQUESTS = 256;

/** Requests, by digest, of which something is known for `ttl`: bounded, whatever clients send. */
export class RecentRequests<Value extends {}> {
  private readonly clock: Clock;
  private readonly ttl: Duration;
  /** Made when something is known: of most registries nothing ever is. */
  private values: LRUCache<string, Value> | undefined;
  private newest: Instant = -Infinity;

  constructor(clock: Clock, ttl: Duration) {
    this.clock = clock;
    this.ttl = ttl;
  }

  /** Nothing is known, so that no digest has to be made. */
  get isEmpty(): boolean {
    return this.values === undefined || this.values.size === 0 || this.clock.now() - this.newest > this.ttl;
  }

  get(digest: string): Value | undefined {
    return this.values?.get(digest);
  }

  set(digest: string, value: Value): void {
    const { clock, ttl } = this;
    this.newest = clock.now();
    this.values ??= new LRUCache({ max: MAX_REQUESTS, ttl, perf: clock, ttlResolution: 0 });
    this.values.set(digest, value);
  }

  delete(digest: string): void {
    this.values?.delete(digest);
  }
}

/** So many calls in a row without an answer are worth a look at the registry's info. */
const LEAST_FAILURES = 10;
const FIRST_PAUSE: Duration = 1_000;
const LONGEST_PAUSE: Duration = 8_000;
/** A request that failed while the registry was well is not held against it for so long. */
const EXEMPT_FOR: Duration = 60_000;

export type BreakerState = "closed" | "open" | "half-open";

export interface BreakerChange {
  readonly from: BreakerState;
  readonly to: BreakerState;
  /** Since it left `closed`, milliseconds. */
  readonly openFor: Duration;
  /** It opened, closed, or has been open for another 10 minutes: worth a line in the log. */
  readonly isNew: boolean;
}

/** How a call ended, as far as the breaker goes by it. */
export interface CallEnd {
  /** Who is to blame that there was no answer; `none`: there was one, or nobody is. */
  readonly fault: "node" | "unclear" | "none";
  readonly isTimeout: boolean;
  readonly elapsed: Duration;
}

interface CircuitBreakerParts {
  readonly clock: Clock;
  /** How long a call has to wait before a timeout is the upstream's fault. */
  readonly timeout: Duration;
  /** Asks the registry for its info: true when a node gives it, false when all fail, undefined when none may be asked. */
  readonly askInfo: () => Promise<boolean | undefined>;
  readonly onChange: (change: BreakerChange) => void;
}

/**
 * Stops calls to an upstream that is down. Failed calls alone never open it, for a client can make calls fail: after
 * 10 in a row the registry's info is asked, and only when that fails too, it opens. It asks again after a pause, which
 * doubles up to 8 s, and closes when the info is given.
 */
export class CircuitBreaker {
  private readonly parts: CircuitBreakerParts;
  private currentState: BreakerState = "closed";
  /** Calls in a row that failed; and those requests among them that may have failed by themselves. */
  private failures = 0;
  private readonly failedRequests = new Set<string>();
  /** Requests that failed while the info was given. */
  private readonly exempt: RecentRequests<true>;
  /** Set while the info is asked: whether a call was answered meanwhile. */
  private asking: { isAnswered: boolean } | undefined;
  private pause: Duration = FIRST_PAUSE;
  /** Not asked before. */
  private askAt: Instant = -Infinity;
  private cancelTimer: CancelTimer | undefined;
  private readonly recurrence: Recurrence;
  private openedAt: Instant = 0;
  private isStopped = false;

  constructor(parts: CircuitBreakerParts) {
    this.parts = parts;
    this.exempt = new RecentRequests(parts.clock, EXEMPT_FOR);
    this.recurrence = new Recurrence(parts.clock);
  }

  get state(): BreakerState {
    return this.currentState;
  }

  /** How long a call would have to wait, or 0 when it may go now. */
  waitTime(): Duration {
    if (this.currentState === "closed") return 0;
    return Math.max(this.askAt - this.parts.clock.now(), FIRST_PAUSE);
  }

  /** A call ended; `digest` names its request. A timeout that a client in a hurry brought about means nothing. */
  report({ fault, isTimeout, elapsed }: CallEnd, digest: () => string): void {
    if (this.currentState !== "closed") return;
    if (fault === "none") return this.noteAnswer();
    if (isTimeout && !this.isFairTrial(elapsed)) return;
    if (fault === "unclear") {
      const request = digest();
      if (this.exempt.get(request) === true) return;
      this.failedRequests.add(request);
    }
    this.failures += 1;
    if (this.failures >= LEAST_FAILURES) void this.ask();
  }

  /** Whether so much time is enough to blame the upstream for not answering. */
  isFairTrial(elapsed: Duration): boolean {
    return elapsed >= this.parts.timeout * 0.9;
  }

  /** A node gave its info. */
  hint(): void {
    if (this.currentState === "closed") return;
    this.cancelTimer?.();
    this.pause = FIRST_PAUSE;
    this.forget();
    this.change("closed");
  }

  /** Asks no more. */
  stop(): void {
    this.isStopped = true;
    this.cancelTimer?.();
  }

  private noteAnswer(): void {
    if (this.asking !== undefined) this.asking.isAnswered = true;
    if (this.failures > 0) this.forget();
  }

  private forget(): void {
    this.failures = 0;
    this.failedRequests.clear();
  }

  private async ask(): Promise<void> {
    const { clock, askInfo } = this.parts;
    if (this.asking !== undefined || this.isStopped || clock.now() < this.askAt) return;
    if (clock.now() - this.askAt > LONGEST_PAUSE) this.pause = FIRST_PAUSE;
    const asking = { isAnswered: false };
    this.asking = asking;
    const isWell = await askInfo();
    this.asking = undefined;
    if (this.isStopped || this.currentState !== "closed") return;
    if (isWell === false && !asking.isAnswered) {
      this.openedAt = clock.now();
      return this.open();
    }
    // Anybody who makes calls fail one after the other has the info asked ever more rarely.
    this.askAt = clock.now() + this.pause;
    this.pause = Math.min(this.pause * 2, LONGEST_PAUSE);
    if (isWell === true) for (const request of this.failedRequests) this.exempt.set(request, true);
    this.forget();
  }

  private open(): void {
    this.askAt = this.parts.clock.now() + this.pause;
    this.cancelTimer = this.parts.clock.after(this.pause, () => void this.tryAgain());
    this.change("open");
  }

  private async tryAgain(): Promise<void> {
    this.change("half-open");
    const isWell = await this.parts.askInfo();
    if (this.isStopped || this.currentState !== "half-open") return;
    if (isWell === true) return this.hint();
    if (isWell === false) this.pause = Math.min(this.pause * 2, LONGEST_PAUSE);
    this.open();
  }

  private change(to: BreakerState): void {
    const from = this.currentState;
    const isNew = to === "closed" || (to === "open" && this.recurrence.isDue());
    if (to === "closed") this.recurrence.end();
    this.currentState = to;
    this.parts.onChange({ from, to, openFor: this.parts.clock.now() - this.openedAt, isNew });
  }
}
