import { createHash } from "node:crypto";
import type { Duration } from "../../clock.ts";
import { GatewayError } from "../../errors.ts";
import { type Fields, retryAfter } from "../../fields.ts";
import type { CircuitBreaker } from "../../limits/circuit-breaker.ts";
import type { StreamedCall } from "../call.ts";
import { consequences, type Failure, type FailureReason } from "../failure.ts";
import type { UpstreamNode } from "../nodes/node.ts";
import type { CallOutcome } from "../observer.ts";
import type { UpstreamParts } from "../parts.ts";
import type { Attempt } from "./attempt.ts";

/** What a call, whatever its attempts, counts as; undefined where the client or the gateway's own limits are the reason. */
export function outcomeOfError(error: unknown): CallOutcome | undefined {
  if (!(error instanceof GatewayError) || error.status < 502) return undefined;
  return error.proxyError === "connection_limit_reached" ? undefined : "failed";
}

export function outcomeOfAnswer(status: number): CallOutcome {
  return status >= 500 || status === 429 ? "failed" : "answered";
}

/**
 * Keeps the node's record of how an attempt ended; `failure` is undefined when it brought an answer that is the
 * registry's own. A failure that the request may be to blame for makes the node unhealthy, so that its info is asked, and
 * counts when another node answers that request.
 */
export function recordOutcome(attempt: Attempt, failure: Failure | undefined, fields: Fields | undefined): void {
  const { parts, node, call } = attempt;
  const { status } = attempt.request;
  const isGood = failure === undefined || consequences[failure.reason].fault === "none";
  // A refusal is quick: its latency would draw more calls to where they are refused.
  const isAnswer = isGood && fields !== undefined && status! < 500 && status !== 429;
  if (isAnswer || (failure !== undefined && isTimeout(failure))) recordLatency(attempt);
  if (failure === undefined) clearUp(parts, node, call);
  if (failure === undefined || isGood) return parts.nodes.report(node, "answered");
  // A client in a hurry that ended it says nothing about the node.
  if (isTimeout(failure) && !parts.breaker.isFairTrial(attempt.elapsed)) return;
  const { nodes, doubtful } = parts;
  const { reason } = failure;
  if (consequences[reason].fault === "node") return nodes.report(node, "unreachable", failure);
  nodes.report(node, hasFailedEverywhere(parts, reason, call) ? "failed-everywhere" : "doubted", failure);
  if (nodes.all.length > 1) doubtful.set(digestOf(call), node.index);
}

/** How long the node took, or at least would have taken. */
function recordLatency({ parts, call, kind, node, elapsed }: Attempt): void {
  // A streamed call that fails is not tried elsewhere: a node that fails quickly would be chosen ever again.
  if (kind === "stream") return;
  // A sole node is neither chosen nor hedged by its latency, but operators want to see it.
  node.load.record(elapsed);
  if (parts.nodes.all.length > 1) parts.latencies.record(call.operation, elapsed);
}

/** An attempt is so late that it speaks against its node. */
export function noteLate({ parts, node, call, startedAt }: Attempt): void {
  // When no other node answers either, it is not this one's fault.
  if (!parts.nodes.all.some((each) => each !== node && each.load.lastGoodAt > startedAt)) return;
  if (!hasFailedEverywhere(parts, "timeout", call)) parts.nodes.report(node, "overdue");
}

/** Ends an attempt because another node was quicker. */
export function endOutrun(attempt: Attempt): void {
  attempt.close();
  // Without the lower bounds of those that were too slow, the tail would look shorter than it is.
  recordLatency(attempt);
  // The earlier attempt was very late, too: the request may take as long anywhere.
  if (attempt.isBeside && attempt.kind === "retry") attempt.parts.failedEverywhere.set(digestOf(attempt.call), true);
  if (attempt.kind === "hedge") attempt.parts.observer.hedge(attempt.parts.config.name, "lost");
  attempt.observe("cancelled");
}

interface EndedCall {
  readonly parts: UpstreamParts;
  readonly call: StreamedCall;
  /** That of its kind of call; undefined where it is known already. */
  readonly breaker: CircuitBreaker | undefined;
  /** The request was tried more than once, or there was nothing else to try. */
  readonly isExhausted: boolean;
}

/** Reports to the breaker what came of a call, and remembers a request that failed everywhere. `elapsed`: what a node had. */
export function reportCall(
  { parts, call, breaker, isExhausted }: EndedCall,
  failure: Failure | undefined,
  elapsed: Duration,
): void {
  // What the gateway has no room for says nothing of the registry.
  if (failure?.reason === "internal") return;
  // That a registry wants fewer calls says nothing of how it is.
  if (failure?.reason !== "http-429") {
    const fault = failure === undefined ? "none" : consequences[failure.reason].fault;
    breaker?.report({ fault, isTimeout: failure !== undefined && isTimeout(failure), elapsed }, () => digestOf(call));
  }
  if (failure === undefined || !isExhausted) return;
  const isHasty = isTimeout(failure) && !parts.breaker.isFairTrial(elapsed);
  if (!isHasty && consequences[failure.reason].fault !== "node") parts.failedEverywhere.set(digestOf(call), true);
}

/** Whether a failure of this request means nothing, and trying again helps nobody: it failed everywhere a moment ago. */
export function hasFailedEverywhere(
  { failedEverywhere }: UpstreamParts,
  reason: FailureReason,
  call: StreamedCall,
): boolean {
  return (
    consequences[reason].fault !== "node" && !failedEverywhere.isEmpty && failedEverywhere.get(digestOf(call)) === true
  );
}

/** A node answered the request: another one that failed it was to blame itself. */
function clearUp(parts: UpstreamParts, node: UpstreamNode, call: StreamedCall): void {
  const { doubtful, failedEverywhere, nodes } = parts;
  if (doubtful.isEmpty && failedEverywhere.isEmpty) return;
  const digest = digestOf(call);
  const failed = doubtful.get(digest);
  doubtful.delete(digest);
  failedEverywhere.delete(digest);
  if (failed !== undefined && failed !== node.index) nodes.report(nodes.all[failed]!, "failed");
}

/** Does what a refusal asks for: fewer calls, a pause for its node, other credentials. */
export function obeyRefusal(
  { parts, node, call }: Attempt,
  { reason, isConflict = false }: Failure,
  fields: Fields | undefined,
): void {
  const { credentials, rateLimit, clock } = parts;
  if (reason === "credentials") credentials?.distrust();
  if (fields === undefined) return;
  const asked = retryAfter(fields);
  const isRateLimit = reason === "http-429" && !isConflict;
  if (isRateLimit) rateLimit?.shrink(call.operation, asked);
  node.rest(clock.now(), asked ?? (isRateLimit ? 1 : 0), reason === "http-429" && asked !== undefined);
}

/** Whether the time was up, for a connection or for an answer. */
function isTimeout({ reason }: Failure): boolean {
  return reason === "timeout" || reason === "connect-timeout";
}

/** Of calls of which more than one thing is remembered. */
const digests = new WeakMap<StreamedCall, string>();

/** Stands for a request: path, query and, where it is at hand, body. Ids and bodies themselves are kept nowhere. */
function digestOf(call: StreamedCall): string {
  const known = digests.get(call);
  if (known !== undefined) return known;
  const { method, path, body } = call;
  const hash = createHash("sha256").update(`${method} ${path}\n`);
  if (Buffer.isBuffer(body)) hash.update(body);
  const digest = hash.digest("base64url");
  digests.set(call, digest);
  return digest;
}
