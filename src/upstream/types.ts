import type { Duration, Instant } from "../clock.ts";
import type { Fields } from "../fields.ts";
import type { Operation } from "../spec/operations.ts";

/** The border of the folder: calls and answers, and what operators see of upstreams and their nodes. */

/** One question to a registry. */
export interface Call {
  readonly operation: Operation;
  readonly method: string;
  /** `registry`: `path` begins with `/registry/`, and follows a node's URL. `origin`: it follows the node's origin. */
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
  /** Fields for the node alone that gave their `ETag`: it is asked first, and other nodes are asked without them. */
  readonly condition?: { readonly node: string; readonly fields: Fields } | undefined;
  /** The id that the answer has to name: an instrument's. */
  readonly id?: string | undefined;
  /** Called once, when the call has ended: for the request's log line. */
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
  /** Index in `urls` of the node that was asked last; undefined: none was. */
  readonly node: number | undefined;
  /** Waits before requests were sent: for a place, a pause, credentials, the limit, a connection and its proof. */
  readonly waited: Duration;
}

/** `unproved`: has not told its admin yet. `out`: its last info failed. `wrong`: it named another admin. */
export type NodeState = "unproved" | "up" | "out" | "wrong";

export interface NodeStatus {
  /** Host and port, for operators. */
  readonly url: string;
  readonly state: NodeState;
  /** One sentence, printable; undefined where all is well. */
  readonly cause?: string;
  /** Unix ms. */
  readonly since: number;
  /** Unix ms of the last answer; undefined: none yet. */
  readonly lastAnswer?: number;
  /** Unix ms until which the last 429 of the registry is obeyed; the pause may have ended some seconds ago. */
  readonly pausedUntil?: number;
  readonly inFlight: number;
}

export interface UpstreamStatus {
  readonly name: string;
  readonly admin?: string;
  readonly mode: "normal" | "cache-only";
  /** `up`: a node is. `down`: all are out or wrong. `unproved`: else. `disabled`: upstreams or nodes contradict each other. */
  readonly state: "up" | "down" | "unproved" | "disabled";
  /** One sentence, printable, cause first; undefined where all is well. */
  readonly cause?: string;
  readonly since: number;
  readonly nodes: readonly NodeStatus[];
  readonly inFlight: number;
  readonly waiting: number;
  readonly limit?: { readonly requests: string; readonly burst?: string; readonly waiting: number };
  /** Why the gateway's own credential cannot be had, or that it is refused; undefined where all is well. */
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
