import type { CertificateStatus } from "../config/certificates.ts";
import type { Difference } from "./agreement.ts";
import type { BreakerState } from "../limits/circuit-breaker.ts";

/** `unproved`: its admin is not known yet, or not named by as many nodes as `agreement.admin` asks for; `wrong-admin`: it serves another registry; `ejected`: out for a while. */
const NODE_STATES = ["unproved", "up", "ejected", "wrong-admin"] as const;
export type NodeState = (typeof NODE_STATES)[number];

/** As nodes are counted: one that is out and that an operator cordoned for it is in a state of its own. */
export const COUNTED_STATES = [...NODE_STATES, "cordoned"] as const;

export function countedState({ state, cordoned }: NodeStatus): (typeof COUNTED_STATES)[number] {
  return cordoned && state !== "up" ? "cordoned" : state;
}

export const UPSTREAM_MODES = ["normal", "cache-only"] as const;
export type UpstreamMode = (typeof UPSTREAM_MODES)[number];

/**
 * `unproved`: no node has proved the admin yet · `up`: every node is well · `degraded`: some are ·
 * `failing`: the breaker is open · `wrong-admin`: every node serves another registry than configured ·
 * `disabled`: by configuration, or because nodes or upstreams contradict each other.
 */
export const UPSTREAM_STATES = ["unproved", "up", "degraded", "failing", "wrong-admin", "disabled"] as const;
export type UpstreamState = (typeof UPSTREAM_STATES)[number];

export interface NodeStatus {
  readonly url: string;
  readonly state: NodeState;
  /** The admin that its own info named last; undefined before it did. */
  readonly admin: string | undefined;
  /** Why it is not up, or why its last call or check failed: the last node is never ejected. Undefined: it is well. */
  readonly lastError: string | undefined;
  /** Moving average; undefined until something was measured. */
  readonly latencyMs: number | undefined;
  readonly inFlight: number;
  /** How often it was ejected since the start. */
  readonly ejections: number;
  /** Calls sent to it since the start, checks apart. */
  readonly calls: number;
  /** How often its answers were out of step since the start. */
  readonly outOfStep: number;
  /** What it spoke last; undefined: no connection was made yet. */
  readonly protocol: "http/1.1" | "h2" | undefined;
  /** When it last named the expected admin (RFC 3339); undefined: not yet. */
  readonly provedAt: string | undefined;
  /** When the certificate ends that it showed last (RFC 3339); undefined: it showed none. */
  readonly certificateExpiresAt: string | undefined;
  /** An operator took it out: no new calls. */
  readonly cordoned: boolean;
  /** Its share of the calls in relation to the other nodes: configured, or by an operator. */
  readonly weight: number;
}

/** How far the nodes of an upstream agree about its admin. */
export interface AgreementStatus {
  /** So many have to name the same one before any of them is used: `agreement.admin`. */
  readonly needed: number;
  /** So many do. */
  readonly agreeing: number;
  /** Enough do, and nothing contradicts them. */
  readonly isReached: boolean;
}

/** Nodes that did not say the same. */
export interface DifferenceStatus extends Difference {
  /** RFC 3339. */
  readonly at: string;
}

/** For `/status` and `/readyz`. */
export interface UpstreamStatus {
  readonly name: string;
  readonly admin: string | undefined;
  readonly state: UpstreamState;
  /** `cache-only`: by an operator, nothing is asked of the registry. */
  readonly mode: UpstreamMode;
  /** Another upstream claims the same admin, and neither has it configured: neither is used. */
  readonly isContested: boolean;
  /** Undefined where one node is enough. */
  readonly agreement: AgreementStatus | undefined;
  /** What nodes said differently the last time. */
  readonly lastDifference: DifferenceStatus | undefined;
  /** Why it is not up, or what is the trouble with a node of it. */
  readonly lastError: string | undefined;
  readonly breaker: BreakerState;
  /** That of calls that are passed through. */
  readonly passThroughBreaker: BreakerState;
  /** Calls left in the window of `rateLimit`, as last seen within it; undefined without `rateLimit`. */
  readonly budgetLeft: number | undefined;
  /** Calls that `rateLimit` allows in one window, and how long that is; undefined without `rateLimit`. */
  readonly budget: { readonly requests: number; readonly perMs: number } | undefined;
  /** The group that has this limit together: what is left is left for all of them. */
  readonly rateLimitGroup: string | undefined;
  /** Calls running and waiting for their turn. */
  readonly running: number;
  readonly queued: number;
  /** Whole retries the retry budget allows now. */
  readonly retriesLeft: number;
  /** Its own, those that it trusts, and of those that its nodes show the one that ends first. */
  readonly certificates: readonly CertificateStatus[];
  readonly nodes: readonly NodeStatus[];
}
