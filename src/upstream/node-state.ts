import type { Duration } from "../clock.ts";
import type { NodeState } from "./types.ts";

/**
 * Outcome of a node's info, which alone changes its state: clients choose ids, and none takes a node out by what it asks for.
 * `named`: the registry's admin. `named_another`: another admin. `failed`: there was no info to be had.
 */
export type NodeEvent = "named" | "named_another" | "failed";

/** The state of a node after its last info, whatever it was before: once nobody is there, another registry is forgotten. */
export const STATE_AFTER: Readonly<Record<NodeEvent, NodeState>> = {
  named: "up",
  named_another: "wrong",
  failed: "out",
};

const FIRST_DELAY: Duration = 1_000;
const LONGEST_DELAY: Duration = 10_000;

/**
 * Delay until a node's info is asked without a call; undefined: a call asks for it.
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
 * Draws two at random and chooses the one with fewer calls in flight, of equal ones the one with an open connection. Speed
 * does not count: a node that answers errors is quick.
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
