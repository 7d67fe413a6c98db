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

/** Longest pause that a node may ask for with `Retry-After`. */
const LONGEST_PAUSE: Duration = 60_000;

interface NodeParts {
  readonly clock: Clock;
  readonly target: Omit<ConnectionTarget, "origin">;
  /** Asks the node over a connection which registry it is; rejects when a call may not go that way. */
  readonly prove: (node: UpstreamNode, connection: Connection) => Promise<void>;
  /** For how long a proof holds. */
  readonly every: Duration;
  readonly onStepFault: (node: UpstreamNode, fault: StepFault) => void;
}

/** What a node has to do, and how quickly it does it. */
class NodeLoad {
  inFlight = 0;
  /** Calls sent to it so far. */
  calls = 0;
  /** When it last gave a good answer. */
  lastGoodAt: Instant = -Infinity;
  /** Moving average of latencies; undefined before the first. */
  latency: Duration | undefined;
  private readonly clock: Clock;
  private averagedAt: Instant = 0;

  constructor(clock: Clock) {
    this.clock = clock;
  }

  /** What another call is expected to cost; `fallback` stands for a latency not known yet. */
  cost(fallback: Duration): number {
    const fading = Math.exp((this.averagedAt - this.clock.now()) / FADING);
    const latency = this.latency === undefined ? fallback : Math.max(this.latency * fading, 0.1);
    return latency * (this.inFlight + 1);
  }

  /** An answer took so long, or would have taken longer. */
  record(latency: Duration): void {
    this.latency = this.latency === undefined ? latency : this.latency + (latency - this.latency) * SAMPLE_WEIGHT;
    this.averagedAt = this.clock.now();
  }
}

/** What a node's own info said last. */
interface NodeInfo {
  admin: string | undefined;
  supportedApis: readonly string[] | undefined;
  /** When it named the expected admin, in milliseconds since the Unix epoch. */
  provedAt: number | undefined;
}

/** One URL of an upstream: its connections, its load and how it has been doing. */
export class UpstreamNode {
  readonly index: number;
  /** Put before the path of each call. */
  readonly basePath: string;
  readonly connections: Connections;
  /** Changed by `Nodes` alone. */
  health: Health = NEW_NODE;
  info: NodeInfo = { admin: undefined, supportedApis: undefined, provedAt: undefined };
  readonly load: NodeLoad;
  /** Why it is not up, or why its last failed call failed. */
  lastError: string | undefined;
  /** Not asked before then if others can be: it said so with `Retry-After`. */
  pausedUntil: Instant = -Infinity;
  /** Not asked before then at all: it answered 429 with `Retry-After`. */
  refusesUntil: Instant = -Infinity;
  ejections = 0;
  private readonly address: NodeAddress;
  /** What an operator did to it; undefined: it is as configured. */
  private action: Action | undefined;

  constructor(index: number, address: NodeAddress, parts: NodeParts) {
    const { origin, pathname } = new URL(address.url);
    this.index = index;
    this.address = address;
    this.basePath = pathname.replace(/\/+$/, "");
    this.load = new NodeLoad(parts.clock);
    this.connections = new Connections({ ...parts.target, origin }, parts.clock, {
      prove: (connection) => parts.prove(this, connection),
      every: parts.every,
      onStepFault: (fault) => parts.onStepFault(this, fault),
    });
  }

  get url(): string {
    return this.address.url;
  }

  /** The admin that its info named last. */
  get admin(): string | undefined {
    return this.info.admin;
  }

  /** An operator took it out: it gets no new calls, and goes on being checked. */
  get isCordoned(): boolean {
    return this.action?.state === "cordoned";
  }

  /** Its share of the calls, in relation to those of the other nodes. 0: used only when no other can be. */
  get weight(): number {
    return this.action?.weight ?? this.address.weight;
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

  /**
   * It asked to be left alone for so many seconds, a minute at most: while others can be asked, or altogether. What it asked
   * for before still holds.
   */
  rest(now: Instant, seconds: number, altogether: boolean): void {
    const until = now + Math.min(seconds * 1_000, LONGEST_PAUSE);
    this.pausedUntil = Math.max(this.pausedUntil, until);
    if (altogether) this.refusesUntil = Math.max(this.refusesUntil, until);
  }

  /** What an operator did to it from now on; undefined: nothing, it is as configured. */
  follow(action: Action | undefined): void {
    this.action = action;
  }

  /** What the node at the same URL was under an earlier configuration, and proved. */
  inherit(old: UpstreamNode): void {
    this.info = { ...old.info };
    this.health = { ...NEW_NODE, state: "up", hasProved: true };
    this.load.calls = old.load.calls;
    this.pausedUntil = old.pausedUntil;
    this.refusesUntil = old.refusesUntil;
    this.connections.inherit(old.connections);
  }

  /** The one that it showed last. */
  certificates(): readonly CertificateStatus[] {
    const certificateEnd = this.connections.last?.certificateEnd;
    return certificateEnd === undefined ? [] : [{ role: "node", expiresAt: certificateEnd }];
  }

  status(): NodeStatus {
    const { latency, inFlight, calls } = this.load;
    const { provedAt } = this.info;
    return {
      url: this.url,
      state: this.state,
      admin: this.admin,
      lastError: this.state === "up" && !this.isInTrouble ? undefined : this.lastError,
      latencyMs: latency === undefined ? undefined : Math.round(latency * 10) / 10,
      inFlight,
      ejections: this.ejections,
      calls,
      outOfStep: this.connections.stepFaults,
      protocol: this.connections.last?.protocol,
      provedAt: provedAt === undefined ? undefined : new Date(provedAt).toISOString(),
      certificateExpiresAt: this.connections.last?.certificateEnd,
      cordoned: this.isCordoned,
      weight: this.weight,
    };
  }
}
