import type { Duration, Instant } from "../../clock.ts";
import { consequences, type FailureReason } from "../failure.ts";

/** Longest pause before another attempt on another node; it doubles with each attempt. */
const BACKOFF: Duration = 20;
/** The same node gets some time to come back. */
const SOLE_BACKOFF: Duration = 100;
/** A call holds its place while it waits: it does not wait longer than this for a node that asked for a pause. */
const LONGEST_WAIT: Duration = 2_000;

/** What a call knows when all its attempts have failed. */
export interface RetryState {
  /** Why the last one failed. */
  readonly reason: FailureReason;
  /** How many were made, and how many there may be. */
  readonly attempts: number;
  readonly most: number;
  /** Of the whole call. */
  readonly deadline: Instant;
  /** The request failed on every node a moment ago. */
  readonly hasFailedEverywhere: boolean;
  /** A node that was not tried takes requests, and asked for no pause. */
  readonly hasUntried: boolean;
  /** When the first of the nodes but the last one may be asked; undefined where there is no other. */
  readonly othersFreeAt: Instant | undefined;
  /** From 0 to 1. */
  readonly random: number;
}

/** When to try again, and which nodes not to ask if there are others. */
export interface RetryPlan {
  readonly at: Instant;
  readonly avoid: "tried" | "last" | "none";
}

/** When and where to try again; undefined when it is not worth it, not allowed, or too late. */
export function planRetry(state: RetryState, now: Instant): RetryPlan | undefined {
  if (state.attempts >= state.most || state.hasFailedEverywhere) return undefined;
  const plan = findPlan(state, now);
  return plan !== undefined && plan.at < state.deadline ? plan : undefined;
}

function findPlan({ reason, attempts, hasUntried, othersFreeAt, random }: RetryState, now: Instant) {
  const soon = now + random * BACKOFF * 2 ** (attempts - 1);
  if (hasUntried) return { at: soon, avoid: "tried" } as const;
  // Nodes that all say 429 count by the same address: ours. The client learns when to come back.
  if (othersFreeAt !== undefined && reason !== "http-429") {
    // All were tried, or asked for a pause: the one that may be asked first.
    if (othersFreeAt - now > LONGEST_WAIT) return undefined;
    return { at: Math.max(soon, othersFreeAt), avoid: "last" } as const;
  }
  if (!consequences[reason].again) return undefined;
  return { at: now + SOLE_BACKOFF * (0.5 + random * 0.5), avoid: "none" } as const;
}
