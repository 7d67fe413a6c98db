import type { Duration, Instant } from "../../clock.ts";
import { isHopeless } from "./attempt-outcome.ts";
import type { StreamedCall } from "../call.ts";
import { consequences } from "../failure.ts";
import type { FailureReason } from "../failure.ts";
import type { UpstreamNode } from "../nodes/node.ts";
import type { UpstreamParts } from "../parts.ts";

/** Longest pause before another attempt on another node; it doubles with each attempt. */
const BACKOFF: Duration = 20;
/** The same node gets some time to come back. */
const SOLE_BACKOFF: Duration = 100;
/** A call holds its place while it waits: it does not wait longer than this for a node that asked for a pause. */
const LONGEST_WAIT: Duration = 2_000;

interface FailedAttempt {
  readonly node: UpstreamNode;
  readonly reason: FailureReason;
  readonly tried: readonly UpstreamNode[];
  /** How many were made. */
  readonly attempts: number;
  readonly deadline: Instant;
  readonly call: StreamedCall;
}

interface RetryPlan {
  readonly at: Instant;
  /** Nodes that should not be asked. */
  readonly avoid: readonly UpstreamNode[];
}

/**
 * When and where to try again; undefined when it is not worth it, not allowed, or too late. Spends from the retry
 * budget.
 */
export function planRetry(parts: UpstreamParts, failed: FailedAttempt): RetryPlan | undefined {
  if (failed.attempts >= parts.config.retry.attempts || isHopeless(parts, failed.reason, failed.call)) return undefined;
  const plan = findPlan(parts, failed);
  if (plan === undefined || plan.at >= failed.deadline) return undefined;
  if (parts.retries.spend()) return plan;
  parts.observer.retryBudgetExhausted(parts.config.name);
  return undefined;
}

/** Takes an attempt that begins beside another out of the budget of its kind; false when there is none left. */
export function payForBeside({ hedges, retries, observer, config }: UpstreamParts, kind: "hedge" | "retry"): boolean {
  if (kind === "hedge") {
    const isPaid = hedges.spend();
    observer.hedge(config.name, isPaid ? "started" : "refused");
    return isPaid;
  }
  const isPaid = retries.spend();
  if (isPaid) observer.retry(config.name, "timeout");
  else observer.retryBudgetExhausted(config.name);
  return isPaid;
}

function findPlan({ choice, nodes, clock, random }: UpstreamParts, failed: FailedAttempt): RetryPlan | undefined {
  const { node, tried, attempts, reason } = failed;
  const now = clock.now();
  const soon = now + random() * BACKOFF * 2 ** (attempts - 1);
  if (choice.hasOther(now, tried)) return { at: soon, avoid: tried };
  // Nodes that all say 429 count by the same address: ours. The client learns when to come back.
  if (choice.hasOther(Infinity, [node]) && reason !== "http-429") {
    // All were tried, or asked for a pause: the one that may be asked first.
    const pause = Math.min(...nodes.all.filter((each) => each !== node && each.isOpen).map((each) => each.pausedUntil));
    return pause - now > LONGEST_WAIT ? undefined : { at: Math.max(soon, pause), avoid: [node] };
  }
  if (!consequences[reason].again) return undefined;
  return { at: now + SOLE_BACKOFF * (0.5 + random() * 0.5), avoid: [] };
}
