import type { CancelTimer, Clock, Duration, Instant } from "../../clock.ts";
import type { NodeState } from "../status.ts";

const RECHECK: Duration = 300_000;
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

/** When one node is checked, how long each check may take, and what a failed one means. */
export class NodeWatch {
  private readonly clock: Clock;
  private readonly random: () => number;
  private cancelTimer: CancelTimer | undefined;
  private checking: Promise<void> | undefined;
  /** Failures in a row, for the growing pause. */
  private failures = 0;
  private upSince: Instant = 0;
  private suspectedAt: Instant = -Infinity;
  /** The pause between suspicions: clients whose requests fail by themselves have a node that is well checked rarely. */
  private truce: Duration = SUSPECT_TIMEOUT;
  /** Checks in a row that failed while the node took requests. */
  private doubts = 0;

  constructor(clock: Clock, random: () => number) {
    this.clock = clock;
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
    if (state === "up" && this.doubts === 0) return RECHECK;
    if (state === "up") return Math.min(FIRST_RETRY * 2 ** Math.min(this.doubts - 1, 10), LONGEST_WAIT);
    const first = state === "ejected" ? FIRST_PAUSE : FIRST_RETRY / 2;
    return Math.min(first * 2 ** Math.min(this.failures, 10), LONGEST_WAIT);
  }
}
