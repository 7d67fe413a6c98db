import type { Duration } from "../clock.ts";
import type { Fields } from "../fields.ts";
import type { Operation } from "../spec/endpoints.ts";
import { retryAfter } from "./answer.ts";
import { consequences } from "./failure.ts";
import type { Failure, FailureReason } from "./failure.ts";
import type { UpstreamNode } from "./node.ts";
import type { UpstreamParts } from "./parts.ts";

/** Longest pause that a node may ask for with `Retry-After`. */
const LONGEST_PAUSE: Duration = 60_000;

interface Outcome {
  /** Undefined when it brought an answer that is the registry's own. */
  readonly failure: Failure | undefined;
  /** How long the node had. */
  readonly elapsed: Duration;
}

interface Refusal {
  readonly operation: Operation;
  readonly reason: FailureReason;
  /** The end-to-end fields of the answer; undefined when none can be given to a client. */
  readonly fields: Fields | undefined;
}

/** Keeps the node's record of how an attempt ended: a failure makes it suspect, or ejects it. */
export function recordOutcome(parts: UpstreamParts, node: UpstreamNode, { failure, elapsed }: Outcome): void {
  if (failure === undefined || !consequences[failure.reason].unhealthy) return node.recordGood();
  // A client with little patience that ended it says nothing about the node.
  if (isTimeout(failure) && !parts.breaker.isFairTrial(elapsed)) return;
  node.lastError = failure.error.message;
  const { nodes } = parts;
  const why = node.recordFailure();
  if (why === undefined || !nodes.eject(node, why)) nodes.suspect(node, failure.reason === "refused");
}

/** Does what a refusal asks for: fewer calls, a pause for its node, other credentials. */
export function heedRefusal(parts: UpstreamParts, node: UpstreamNode, { operation, reason, fields }: Refusal): void {
  const { credentials, egress, clock } = parts;
  if (reason === "credentials") credentials?.distrust();
  if (fields === undefined) return;
  const asked = retryAfter(fields);
  if (reason === "http-429") egress?.shrink(operation, asked);
  const seconds = asked ?? (reason === "http-429" ? 1 : 0);
  node.pausedUntil = clock.now() + Math.min(seconds * 1_000, LONGEST_PAUSE);
}

/** Whether the time was up, for a connection or for an answer. */
export function isTimeout({ reason }: Failure): boolean {
  return reason === "timeout" || reason === "connect-timeout";
}
