import type { CancelTimer, Clock, Duration, Instant } from "../../clock.ts";
import type { NodeState } from "../status.ts";

/** A proved node is asked again when this share of the time is over for which a proof holds. */
const RECHECK_SHARE = 0.9;
const FIRST_RETRY: Duration = 250;
const FIRST_PAUSE: Duration = 500;
const LONGEST_WAIT: Duration = 5_000;
/** A node that stayed up for so long starts again with the shortest pause. */
const FORGIVEN_AFTER: Duration = 60_000;
/** A node under suspicion has to tell its info in so long, and is suspected no more often. */
const SUSPECT_TIMEOUT: Duration = 1_000;
/** Longest pause between suspicions that checks do not bear out. */
const LONGEST_TRUCE: Duration = 8_000;
/** An ejected node that hangs is not waited for longer: its next check is due soon. */
const EJECTED_TIMEOUT: Duration = 2_000;

/** A node that names another admin after it had named the right one is asked again after so long, then after twice that … */
const FIRST_BAR: Duration = 60_000;
const LONGEST_BAR: Duration = 3_600_000;
/** Doing so again within this time, it is asked no more before an operator says so. */
const BAR_REMEMBERED: Duration = 24 * 3_600_000;

/** When one node is checked, how long each check may take, and what a failed one means. */
export class NodeWatch {
  private readonly clock: Clock;
  private readonly random: () => number;
  private readonly every: Duration;
  private cancelTimer: CancelTimer | undefined;
  private checking: Promise<void> | undefined;
  /** Failures in a row, for the growing pause. */
  private failures = 0;
  private upSince: Instant = 0;
  private suspectedAt: Instant = -Infinity;
  /** The pause between suspicions: clients whose requests fail by themselves have a node that is well checked rarely. */
  private truce: Duration = SUSPECT_TIMEOUT;
  /** How often it named another admin after it had named the right one, and when it did so last. */
  private turns = 0;
  private turnedAt: Instant = -Infinity;
  private bar: Duration = FIRST_BAR;
  private barredUntil: Instant = -Infinity;
  /** Checks in a row that failed while the node took requests. */
  private doubts = 0;

  /** `every`: for how long a proof holds. */
  constructor(clock: Clock, random: () => number, every: Duration) {
    this.clock = clock;
    this.every = every;
    this.random = random;
  }

  /** The check that is going on, or the one that `begin` begins: one for all who wait for it. */
  share(begin: () => Promise<void>): Promise<void> {
    this.checking ??= begin().finally(() => {
      this.checking = undefined;
    });
    return this.checking;
  }

  /** Calls `check` when the next check of a node in this state is due, in place of what was scheduled before. */
  schedule(state: NodeState, check: () => void): void {
    this.cancel();
    if (this.awaitsOperator) return;
    this.cancelTimer = this.clock.after(this.pause(state) * (0.9 + this.random() * 0.2), check);
  }

  cancel(): void {
    this.cancelTimer?.();
  }

  /** How long a check of a node in this state may take, if `usual` is what a call may take. */
  timeout(state: NodeState, usual: Duration): Duration {
    if (state === "ejected") return Math.min(usual, EJECTED_TIMEOUT);
    return this.isSuspect ? Math.min(usual, SUSPECT_TIMEOUT) : usual;
  }

  /** A check that fails now speaks against the node. */
  get isSuspect(): boolean {
    return this.clock.now() - this.suspectedAt < 2 * SUSPECT_TIMEOUT;
  }

  /** A call failed or is late; `isCertain`: through the node's own fault. Returns whether a check should find out more. */
  suspect(isCertain: boolean): boolean {
    const now = this.clock.now();
    const since = now - this.suspectedAt;
    if (since > FORGIVEN_AFTER) this.truce = SUSPECT_TIMEOUT;
    if (this.checking !== undefined || since < (isCertain ? SUSPECT_TIMEOUT : this.truce)) return false;
    this.suspectedAt = now;
    return true;
  }

  noteFailure(): void {
    this.failures += 1;
  }

  /** It did not tell its admin and takes requests all the same: whoever answers there next may be another registry. */
  noteDoubt(): void {
    this.doubts += 1;
  }

  /** It may not be asked: it has named another admin after it had named the right one. */
  get isBarred(): boolean {
    return this.clock.now() < this.barredUntil;
  }

  /** It is not asked again before an operator says so. */
  get awaitsOperator(): boolean {
    return this.barredUntil === Infinity;
  }

  /** It names another admin than before. */
  noteTurned(): void {
    const now = this.clock.now();
    this.turns = now - this.turnedAt > BAR_REMEMBERED ? 1 : this.turns + 1;
    this.turnedAt = now;
    this.bar = FIRST_BAR;
    this.barredUntil = this.turns > 1 ? Infinity : now + this.bar;
  }

  /** It goes on naming another admin. */
  noteStillTurned(): void {
    if (this.turns === 0) return;
    this.bar = Math.min(this.bar * 2, LONGEST_BAR);
    this.barredUntil = Math.max(this.barredUntil, this.clock.now() + this.bar);
  }

  /** An operator said at this instant that it is to be used. Returns whether that is later than what barred it. */
  forgive(at: Instant): boolean {
    if (this.turns === 0 || at < this.turnedAt) return false;
    this.turns = 0;
    this.barredUntil = -Infinity;
    return true;
  }

  /** It told its admin. */
  noteTold(): void {
    this.doubts = 0;
    if (this.isSuspect) this.truce = Math.min(this.truce * 2, LONGEST_TRUCE);
  }

  noteUp(from: NodeState): void {
    // A node that comes back and fails again is left out longer.
    if (from !== "ejected") this.failures = 0;
    this.upSince = this.clock.now();
    this.suspectedAt = -Infinity;
  }

  noteEjected(): void {
    this.truce = SUSPECT_TIMEOUT;
    this.failures = this.clock.now() - this.upSince > FORGIVEN_AFTER ? 0 : this.failures + 1;
  }

  private pause(state: NodeState): Duration {
    // A check that comes a moment too early would be none.
    if (this.isBarred) return (this.barredUntil - this.clock.now()) * 1.2;
    if (state === "up" && this.doubts === 0) return this.every * RECHECK_SHARE;
    if (state === "up") return Math.min(FIRST_RETRY * 2 ** Math.min(this.doubts - 1, 10), LONGEST_WAIT);
    const first = state === "ejected" ? FIRST_PAUSE : FIRST_RETRY / 2;
    return Math.min(first * 2 ** Math.min(this.failures, 10), LONGEST_WAIT);
  }
}
