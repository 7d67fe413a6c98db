import type { CertificateStatus } from "../../config/certificates.ts";
import type { Clock, Duration, Instant } from "../../clock.ts";
import type { NodeAddress } from "../../config/urls.ts";
import type { Action } from "../../sharing/actions.ts";
import { Connections } from "../wire/connections.ts";
import type { Connection, ConnectionTarget } from "../wire/connection.ts";
import type { StepFault } from "../wire/step-record.ts";
import { consequences, type Failure } from "../failure.ts";
import type { NodeState, NodeStatus } from "../status.ts";
import { NodeWatch } from "./node-watch.ts";

/** Weight of a new latency in the moving average. */
const SAMPLE_WEIGHT = 0.2;
/** An average nobody has confirmed for so long counts for 1/e of itself: slow nodes get another chance. */
const FADING: Duration = 20_000;

const SPAN: Duration = 10_000;
/** As many as the retry budget pays for at a quiet start: another node has to answer for a failure to count. */
const MOST_FAILURES_IN_A_ROW = 3;
const MOST_LATE_IN_A_ROW = 3;
/** Any node is outrun now and then: so often in a row is worth a check. */
const MOST_OUTRUN_IN_A_ROW = 3;
const LEAST_FOR_RATE = 10;
const MOST_FAILED_SHARE = 0.5;
/** A node that came back stays on probation for so many good answers: one failure sends it out again. */
const PROBATION = 5;

interface NodeParts {
  readonly clock: Clock;
  readonly random: () => number;
  readonly target: Omit<ConnectionTarget, "origin">;
  /** Asks the node over a connection which registry it is; rejects when a call may not go that way. */
  readonly prove: (node: UpstreamNode, connection: Connection) => Promise<void>;
  /** For how long a proof holds. */
  readonly every: Duration;
  readonly onStepFault: (node: UpstreamNode, fault: StepFault) => void;
}

/** One URL of an upstream: its connections, its load and how it has been doing. */
export class UpstreamNode {
  readonly index: number;
  readonly url: string;
  /** Put before the path of each call. */
  readonly basePath: string;
  readonly connections: Connections;
  readonly watch: NodeWatch;
  state: NodeState = "unproved";
  /** The admin that the node's own info named last. */
  admin: string | undefined;
  /** The APIs that the node's own info named last. */
  supportedApis: readonly string[] | undefined;
  /** Why it is not up, or why its last failed call failed. */
  lastError: string | undefined;
  inFlight = 0;
  /** Not asked before then if others can be: it said so with `Retry-After`. */
  pausedUntil: Instant = -Infinity;
  /** Not asked before then at all: it answered 429 with `Retry-After`. */
  refusesUntil: Instant = -Infinity;
  lastGoodAt: Instant = -Infinity;
  ejections = 0;
  /** Calls sent to it so far. */
  calls = 0;
  /** When it last named the expected admin, in milliseconds since the Unix epoch. */
  provedAt: number | undefined;
  /** An operator took it out: it gets no new calls, and goes on being checked. */
  isCordoned = false;
  /** Its share of the calls, in relation to those of the other nodes. 0: used only when no other can be. */
  weight: number;
  private readonly configuredWeight: number;
  private readonly clock: Clock;
  private readonly window = new OutcomeWindow(SPAN);
  private average: Duration | undefined;
  private averagedAt: Instant = 0;
  private failuresInARow = 0;
  private lateInARow = 0;
  private outrunInARow = 0;
  private probation = 0;
  /** Its last call or check failed, and what will show that this is over; undefined: it did not fail, or it is over. */
  private troubleEndsWith: "info" | "answer" | undefined;

  constructor(index: number, { url, weight }: NodeAddress, parts: NodeParts) {
    const { origin, pathname } = new URL(url);
    this.index = index;
    this.url = url;
    this.weight = weight;
    this.configuredWeight = weight;
    this.basePath = pathname.replace(/\/+$/, "");
    this.clock = parts.clock;
    this.watch = new NodeWatch(parts.clock, parts.random, parts.every);
    this.connections = new Connections({ ...parts.target, origin }, parts.clock, {
      prove: (connection) => parts.prove(this, connection),
      every: parts.every,
      onStepFault: (fault) => parts.onStepFault(this, fault),
    });
  }

  /** Moving average of latencies; undefined before the first. */
  get latency(): Duration | undefined {
    return this.average;
  }

  /** It was among the ones that failed last. */
  get isFailing(): boolean {
    return this.failuresInARow > 0 || this.lateInARow > 0;
  }

  /** What another call on this node is expected to cost; `fallback` stands for a latency not known yet. */
  cost(fallback: Duration): number {
    const fading = Math.exp((this.averagedAt - this.clock.now()) / FADING);
    const latency = this.average === undefined ? fallback : Math.max(this.average * fading, 0.1);
    return latency * (this.inFlight + 1);
  }

  /** A call failed. What its own info can tell is whether it can be reached, not whether calls succeed. */
  noteFailedCall({ reason, error }: Failure): void {
    this.lastError = error.message;
    this.troubleEndsWith = consequences[reason].fault === "node" ? "info" : "answer";
  }

  /** Its info was asked for, in vain. */
  noteFailedCheck({ error }: Failure): void {
    this.lastError = error.message;
    this.troubleEndsWith ??= "info";
  }

  /** Nothing has said that it is well since its last call or check failed. */
  get isInTrouble(): boolean {
    return this.troubleEndsWith !== undefined;
  }

  /** An answer came. */
  recordGood(): void {
    this.troubleEndsWith = undefined;
    this.lastGoodAt = this.clock.now();
    this.failuresInARow = 0;
    this.lateInARow = 0;
    this.outrunInARow = 0;
    if (this.probation > 0) this.probation -= 1;
    this.window.record(true, this.lastGoodAt);
  }

  /** A failure that is the node's own fault. Returns why it should be ejected, if it should. */
  recordFailure(): string | undefined {
    const now = this.clock.now();
    this.failuresInARow += 1;
    this.window.record(false, now);
    if (this.probation > 0) return "failed again";
    if (this.failuresInARow >= MOST_FAILURES_IN_A_ROW) return `failed ${this.failuresInARow} times in a row`;
    const { total, failed } = this.window.count(now);
    if (total >= LEAST_FOR_RATE && failed >= total * MOST_FAILED_SHARE) return `failed ${failed} of ${total} calls`;
    return undefined;
  }

  /** A call is much later than usual and goes on. Returns why the node should be ejected, if it should. */
  recordLate(): string | undefined {
    this.lateInARow += 1;
    return this.lateInARow >= MOST_LATE_IN_A_ROW || this.probation > 0 ? "does not answer" : undefined;
  }

  /** A call was given up for one that was quicker elsewhere. Returns whether the node is suspect. */
  recordOutrun(): boolean {
    this.outrunInARow += 1;
    return this.outrunInARow >= MOST_OUTRUN_IN_A_ROW;
  }

  /** An answer took so long, or would have taken longer. */
  recordLatency(latency: Duration): void {
    this.average = this.average === undefined ? latency : this.average + (latency - this.average) * SAMPLE_WEIGHT;
    this.averagedAt = this.clock.now();
  }

  /** Begins anew with an empty record, on probation. */
  readmit(): void {
    this.failuresInARow = 0;
    this.lateInARow = 0;
    this.outrunInARow = 0;
    this.average = undefined;
    this.window.clear();
    this.probation = PROBATION;
  }

  /** It named the admin that is expected of it. */
  noteProved(): void {
    this.provedAt = this.clock.wallNow();
    if (this.troubleEndsWith === "info") this.troubleEndsWith = undefined;
  }

  /** Whether it takes calls: it is well, and no operator has cordoned it. */
  get isOpen(): boolean {
    return this.state === "up" && !this.isCordoned;
  }

  /** What an operator did to it from now on; undefined: nothing, it is as configured. */
  heed(action: Action | undefined): void {
    this.isCordoned = action?.state === "cordoned";
    this.weight = action?.weight ?? this.configuredWeight;
  }

  /** The one that it showed last. */
  certificates(): readonly CertificateStatus[] {
    const { certificateEnd } = this.connections;
    return certificateEnd === undefined ? [] : [{ role: "node", expiresAt: certificateEnd }];
  }

  status(): NodeStatus {
    return {
      url: this.url,
      state: this.state,
      admin: this.admin,
      lastError: this.state === "up" && !this.isInTrouble ? undefined : this.lastError,
      latencyMs: this.average === undefined ? undefined : Math.round(this.average * 10) / 10,
      inFlight: this.inFlight,
      ejections: this.ejections,
      calls: this.calls,
      outOfStep: this.connections.stepFaults,
      provedAt: this.provedAt === undefined ? undefined : new Date(this.provedAt).toISOString(),
      certificateExpiresAt: this.connections.certificateEnd,
      cordoned: this.isCordoned,
      weight: this.weight,
    };
  }
}

const BUCKETS = 10;

/** Counts successes and failures of the last `span`, in tenths of it. */
class OutcomeWindow {
  private readonly width: Duration;
  private readonly good = new Uint32Array(BUCKETS);
  private readonly bad = new Uint32Array(BUCKETS);
  /** Number of the current tenth since the clock's origin. */
  private current = -1;

  constructor(span: Duration) {
    this.width = span / BUCKETS;
  }

  record(isGood: boolean, now: Instant): void {
    this.turn(now);
    const counts = isGood ? this.good : this.bad;
    counts[this.current % BUCKETS]! += 1;
  }

  /** How many there were in the last span, and how many of them failed. */
  count(now: Instant): { total: number; failed: number } {
    this.turn(now);
    let failed = 0;
    let total = 0;
    for (let i = 0; i < BUCKETS; i++) {
      failed += this.bad[i]!;
      total += this.bad[i]! + this.good[i]!;
    }
    return { total, failed };
  }

  clear(): void {
    this.good.fill(0);
    this.bad.fill(0);
  }

  private turn(now: Instant): void {
    const bucket = Math.floor(now / this.width);
    if (bucket === this.current) return;
    if (this.current === -1 || bucket - this.current >= BUCKETS) {
      this.clear();
    } else {
      for (let i = this.current + 1; i <= bucket; i++) {
        this.good[i % BUCKETS] = 0;
        this.bad[i % BUCKETS] = 0;
      }
    }
    this.current = bucket;
  }
}
