import type { Duration } from "../clock.ts";
import type { UpstreamConfig } from "../config/schema.ts";
import { isCached, type Operation } from "../spec/operations.ts";

/** How many nodes have to say the same before an answer to this operation leaves. */
export function neededFor({ agreement }: Pick<UpstreamConfig, "agreement">, operation: Operation): number {
  if (operation === "pass_through") return 1;
  return isCached(operation) ? agreement.metadata : agreement.contexts;
}

/** What is known while nodes are asked. */
export interface AgreementState {
  readonly needed: number;
  /** By node: a digest of what it says, the last time it was asked. */
  readonly votes: ReadonlyMap<number, string>;
  /** Asked, and not answered yet. */
  readonly pending: number;
  /** Those of them beside which others are asked. */
  readonly late: number;
  /** Nodes that may be asked and were not. */
  readonly left: number;
  /** Those that were asked a second time. */
  readonly askedAgain: ReadonlySet<number>;
}

export type AgreementStep =
  /** So many say this that it is the answer. */
  | { readonly step: "answer"; readonly vote: string }
  /** So many more nodes are to be asked. */
  | { readonly step: "ask"; readonly count: number }
  /** These nodes are to be asked once more. */
  | { readonly step: "again"; readonly nodes: readonly number[] }
  | { readonly step: "wait" }
  | { readonly step: "give-up" };

/** What is next: as few questions as can still bring an agreement, and one more for each that fails, differs or is late. */
export function decideAgreement({ needed, votes, pending, late, left, askedAgain }: AgreementState): AgreementStep {
  const counts = new Map<string, number>();
  for (const vote of votes.values()) counts.set(vote, (counts.get(vote) ?? 0) + 1);
  const most = Math.max(0, ...counts.values());
  const leaders = [...counts.keys()].filter((vote) => counts.get(vote) === most);
  if (most >= needed) return { step: "answer", vote: leaders[0]! };
  const missing = needed - most - (pending - late);
  if (missing > 0 && left > 0) return { step: "ask", count: Math.min(missing, left) };
  if (pending > 0) return { step: "wait" };
  // All nodes were asked. Those that differ from the most may know less, and after them the most.
  const others = [...votes.keys()].filter((node) => !askedAgain.has(node));
  const differing = others.filter((node) => leaders.length > 1 || votes.get(node) !== leaders[0]);
  const nodes = differing.length > 0 ? differing : others;
  return nodes.length > 0 && votes.size >= needed ? { step: "again", nodes } : { step: "give-up" };
}

/** What is next where enough nodes list the same, and the page that is asked for was cut by another. */
export function findPage({ pending, left }: Pick<AgreementState, "pending" | "left">): AgreementStep {
  if (pending > 0) return { step: "wait" };
  return left > 0 ? { step: "ask", count: 1 } : { step: "give-up" };
}

/**
 * `agreed`: enough nodes said the same · `disagreed`: too few did · `unanswered`: no node said anything · `same` and
 * `different`: what one more node said when the answer had gone out.
 */
export const AGREEMENT_OUTCOMES = ["agreed", "disagreed", "unanswered", "same", "different"] as const;
type AgreementOutcome = (typeof AGREEMENT_OUTCOMES)[number];

/** What came of asking several nodes. */
export interface AgreementResult {
  readonly operation: Operation;
  readonly outcome: AgreementOutcome;
  readonly questions: number;
  /** From the first answer to the agreement, or to its failure. */
  readonly waited: Duration;
}

/** Nodes that say something else. */
export interface Difference {
  readonly operation: Operation;
  /** Their places in the configured list, grouped by what they say. */
  readonly nodes: readonly (readonly number[])[];
  /** The parts of the answer in which they differ; ids as digests. */
  readonly parts: readonly string[];
}
