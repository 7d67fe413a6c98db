import type { Duration } from "../clock.ts";
import type { NodeState } from "./types.ts";

/**
 * What an info said of a node. Nothing else changes its state: clients choose ids, and none takes a node out by what it asks
 * for. `named`: the registry's admin. `named_another`: another admin. `failed`: there was no info to be had.
 */
export type NodeEvent = "named" | "named_another" | "failed";

/** node × event → state. */
export const NODE_STATES: Readonly<Record<NodeState, Readonly<Record<NodeEvent, NodeState>>>> = {
  unproved: { named: "up", named_another: "wrong", failed: "out" },
  up: { named: "up", named_another: "wrong", failed: "out" },
  out: { named: "up", named_another: "wrong", failed: "out" },
  // Gone for good or not: that another registry was there is forgotten when nobody is.
  wrong: { named: "up", named_another: "wrong", failed: "out" },
};

const FIRST_DELAY: Duration = 1_000;
const LONGEST_DELAY: Duration = 10_000;

/**
 * After how long a node's info is asked again by itself; undefined: when a call needs it.
 *
 * @param failures infos in a row that failed
 */
export function askAgainAfter(state: NodeState, failures: number, proofEvery: Duration): Duration | undefined {
  if (state === "wrong") return proofEvery;
  return state === "out" ? Math.min(FIRST_DELAY * 2 ** (failures - 1), LONGEST_DELAY) : undefined;
}

/** The two figures that decide between nodes. */
export interface Candidate {
  readonly inFlight: number;
  readonly hasOpenConnection: boolean;
}

/**
 * Of two drawn at random the one with fewer calls in flight, of equal ones the one with an open connection: how fast a node
 * answers errors is no reason to ask it more.
 *
 * @param candidates one at least
 */
export function chooseNode<T extends Candidate>(candidates: readonly T[], random: () => number): T {
  const at = Math.floor(random() * candidates.length);
  const first = candidates[at]!;
  if (candidates.length === 1) return first;
  const step = 1 + Math.floor(random() * (candidates.length - 1));
  const second = candidates[(at + step) % candidates.length]!;
  if (first.inFlight !== second.inFlight) return first.inFlight < second.inFlight ? first : second;
  return second.hasOpenConnection && !first.hasOpenConnection ? second : first;
}
