import type { Duration, Instant } from "../clock.ts";
import type { Fields } from "../fields.ts";
import type { Operation } from "../spec/operations.ts";

/** The border of the folder: a call to a registry, and its answer. */

export interface Call {
  readonly operation: Operation;
  readonly method: string;
  /** `registry`: `path` begins with `/registry/` and is appended to a node's URL. `origin`: it is an extra path of the node's origin. */
  readonly base: "registry" | "origin";
  /** Encoded, with its query. */
  readonly path: string;
  /** Fields of this request alone, lower case: content type, trace, request id, conditions, forwarded authorization. */
  readonly fields: Fields;
  readonly body?: Buffer | undefined;
  /** Calls of clients come before refreshes. */
  readonly priority: "client" | "refresh";
  readonly deadline: Instant;
  /** Aborts when nobody wants the answer any more. */
  readonly signal?: AbortSignal | undefined;
  /** The only node that may be asked: a condition goes to the node that gave its `ETag`. The call goes without condition elsewhere. */
  readonly condition?: { readonly node: string; readonly fields: Fields } | undefined;
  /** The id that the answer has to name: an instrument's. */
  readonly id?: string | undefined;
  /** Told once, when the call has ended: for the request's log line. */
  readonly onEnd?: ((report: CallReport) => void) | undefined;
}

/** A registry's answer that may go to a client: a success, a 304, or an error of the registry's. Failures are thrown. */
export interface Answer {
  readonly status: number;
  /** As received, lower case, body decoded; an error of the registry's in another form is `upstream_error`, thrown. */
  readonly fields: Fields;
  readonly body: Buffer;
  /** `body` parsed, where it is JSON. */
  readonly json: unknown;
  /** The node's URL. */
  readonly node: string;
  readonly receivedAt: Instant;
}

export interface CallReport {
  readonly attempts: number;
  /** Index of the last node that was asked in `urls`; undefined: none was. */
  readonly node: number | undefined;
  /** Milliseconds in queues: for a place, for the limit, for a proof. */
  readonly waited: Duration;
}

export type NodeState = "unproved" | "up" | "out" | "wrong";

export interface NodeStatus {
  /** Host and port, for operators. */
  readonly url: string;
  readonly state: NodeState;
  /** One sentence, printable; undefined where it is up. */
  readonly cause?: string;
  /** Unix ms. */
  readonly since: number;
  /** Unix ms of the last answer; undefined: none yet. */
  readonly lastAnswer?: number;
  /** Unix ms until which the last 429 of the registry is obeyed; it may have been over for some seconds. */
  readonly pausedUntil?: number;
  readonly inFlight: number;
}

export interface UpstreamStatus {
  readonly name: string;
  readonly admin?: string;
  readonly mode: "normal" | "cache-only";
  /** `up`: a node is up. `down`: none is. `disabled`: nodes or upstreams contradict each other. */
  readonly state: "up" | "down" | "unproved" | "disabled";
  /** One sentence, printable, cause first; undefined where all is well. */
  readonly cause?: string;
  readonly since: number;
  readonly nodes: readonly NodeStatus[];
  readonly inFlight: number;
  readonly waiting: number;
  readonly limit?: { readonly requests: string; readonly burst?: string; readonly waiting: number };
  /** Names of credentials that cannot be had, with the cause. */
  readonly credential?: string;
}

/** Metrics of calls. Labels are bounded: an upstream's name, an operation, a reason of the table. */
export interface UpstreamObserver {
  attemptEnded(upstream: string, operation: Operation | "info", outcome: string, seconds: number): void;
  /** A limit of ours, or no node: no attempt was made. */
  callRefused(upstream: string, reason: string): void;
  retried(upstream: string, kind: "retry" | "hedge"): void;
  agreed(upstream: string, outcome: "agreed" | "disagreed"): void;
}
