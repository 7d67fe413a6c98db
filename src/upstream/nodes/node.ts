import type { CertificateStatus } from "../../config/certificates.ts";
import type { Clock, Duration, Instant } from "../../clock.ts";
import type { NodeAddress } from "../../config/urls.ts";
import type { Action } from "../../sharing/actions.ts";
import { Connections } from "../wire/connections.ts";
import type { Connection } from "../wire/connection.ts";
import type { ConnectionTarget } from "../wire/socket.ts";
import type { StepFault } from "../wire/in-step.ts";
import type { NodeState, NodeStatus } from "../status.ts";
import { type Health, isInUse, NEW_NODE, stateOf } from "./health.ts";

/** Weight of a new latency in the moving average. */
const SAMPLE_WEIGHT = 0.2;
/** An average nobody has confirmed for so long counts for 1/e of itself: slow nodes get another chance. */
const FADING: Duration = 20_000;

interface NodeParts {
  readonly clock: Clock;
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
  /** Changed by `Nodes` alone. */
  health: Health = NEW_NODE;
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
  private average: Duration | undefined;
  private averagedAt: Instant = 0;

  constructor(index: number, { url, weight }: NodeAddress, parts: NodeParts) {
    const { origin, pathname } = new URL(url);
    this.index = index;
    this.url = url;
    this.weight = weight;
    this.configuredWeight = weight;
    this.basePath = pathname.replace(/\/+$/, "");
    this.clock = parts.clock;
    this.connections = new Connections({ ...parts.target, origin }, parts.clock, {
      prove: (connection) => parts.prove(this, connection),
      every: parts.every,
      onStepFault: (fault) => parts.onStepFault(this, fault),
    });
  }

  get state(): NodeState {
    return stateOf(this.health);
  }

  /** Whether it takes calls: it is in use, and no operator has cordoned it. */
  get isOpen(): boolean {
    return isInUse(this.health) && !this.isCordoned;
  }

  /** It was among the ones that failed last. */
  get isFailing(): boolean {
    return this.health.strikes > 0;
  }

  /** Nothing has said that it is well since its last call or check failed. */
  get isInTrouble(): boolean {
    return this.health.trouble !== undefined;
  }

  /** Moving average of latencies; undefined before the first. */
  get latency(): Duration | undefined {
    return this.average;
  }

  /** What another call on this node is expected to cost; `fallback` stands for a latency not known yet. */
  cost(fallback: Duration): number {
    const fading = Math.exp((this.averagedAt - this.clock.now()) / FADING);
    const latency = this.average === undefined ? fallback : Math.max(this.average * fading, 0.1);
    return latency * (this.inFlight + 1);
  }

  /** An answer took so long, or would have taken longer. */
  recordLatency(latency: Duration): void {
    this.average = this.average === undefined ? latency : this.average + (latency - this.average) * SAMPLE_WEIGHT;
    this.averagedAt = this.clock.now();
  }

  /** It comes back: what it took before says nothing. */
  forgetLatency(): void {
    this.average = undefined;
  }

  /** What an operator did to it from now on; undefined: nothing, it is as configured. */
  follow(action: Action | undefined): void {
    this.isCordoned = action?.state === "cordoned";
    this.weight = action?.weight ?? this.configuredWeight;
  }

  /** What the node at the same URL was under an earlier configuration, and proved. */
  inherit(old: UpstreamNode): void {
    this.admin = old.admin;
    this.supportedApis = old.supportedApis;
    this.health = { ...NEW_NODE, state: "up", hasProved: true };
    this.provedAt = old.provedAt;
    this.calls = old.calls;
    this.connections.inherit(old.connections);
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
      protocol: this.connections.protocol,
      provedAt: this.provedAt === undefined ? undefined : new Date(this.provedAt).toISOString(),
      certificateExpiresAt: this.connections.certificateEnd,
      cordoned: this.isCordoned,
      weight: this.weight,
    };
  }
}
