import { GatewayError } from "../errors.ts";
import type { PostOperation } from "../spec/operations.ts";
import { attempt, type Run } from "./attempt.ts";
import type { Leash } from "./exchange.ts";
import { Failure } from "./failure.ts";
import { whenFree } from "./free-nodes.ts";
import { meaningOf } from "./meaning.ts";
import type { Node } from "./node.ts";
import { chooseNode } from "./node-state.ts";
import type { Answer } from "./types.ts";

/** Nodes that said the same: how many, and the answer of the first. */
interface Side {
  readonly first: Answer | GatewayError;
  nodes: number;
}

/**
 * Asks as many nodes at once as have to agree, and one more for each that fails or differs, until so many say the same.
 *
 * @returns the first one's answer
 * @throws GatewayError `nodes_disagree`, `upstream_down` where fewer are up; of our own limits, which is no disagreement; an
 * error of the registry's that the nodes agree on
 */
export async function agree(run: Run): Promise<Answer> {
  const wanted = run.access.config.agreement;
  await whenFree(run, wanted);
  return new Promise((resolve, reject) => {
    new Agreement(run, (outcome) => {
      if (outcome instanceof GatewayError) reject(outcome);
      else resolve(outcome);
    }).askMore(wanted);
  });
}

/** One agreed call: who is being asked, and what came so far. */
class Agreement {
  private readonly run: Run;
  private readonly onEnd: (outcome: Answer | GatewayError) => void;
  private readonly asked = new Set<Leash>();
  private readonly sides = new Map<string, Side>();
  /** A limit of ours refused, or the client is gone: nobody else is asked. */
  private refusal: GatewayError | undefined;
  private failure: Failure | undefined;
  private isOver = false;

  constructor(run: Run, onEnd: (outcome: Answer | GatewayError) => void) {
    this.run = run;
    this.onEnd = onEnd;
  }

  /** Asks so many more nodes, where there are as many. The call ends when none is being asked. */
  askMore(count: number): void {
    for (let i = 0; i < count; i += 1) {
      const candidates = this.run.candidates();
      if (candidates.length === 0 || this.isOver || this.refusal !== undefined) break;
      this.ask(chooseNode(candidates, Math.random));
    }
    if (this.asked.size === 0 && !this.isOver) this.end(this.whyNoAgreement());
  }

  private ask(node: Node): void {
    const leash = this.run.leash();
    this.asked.add(leash);
    // Before the attempt begins, so that the next node is another.
    this.run.tried.add(node);
    attempt(this.run, node, leash).then(
      (outcome) => this.hear(leash, outcome),
      (error: unknown) => {
        this.asked.delete(leash);
        this.refusal ??= error as GatewayError;
        this.askMore(0);
      },
    );
  }

  private hear(leash: Leash, outcome: Answer | Failure): void {
    this.asked.delete(leash);
    if (this.isOver) return;
    if (outcome instanceof Failure) this.failure = outcome;
    const said = outcome instanceof Failure ? outcome.last : outcome;
    const meaning = meaningOf(this.run.call.operation as PostOperation, said);
    const wanted = this.run.access.config.agreement;
    if (meaning !== undefined) {
      const side = this.sides.get(meaning) ?? { first: said, nodes: 0 };
      this.sides.set(meaning, side);
      side.nodes += 1;
      if (side.nodes === wanted) return this.end(side.first, true);
    }
    // The nodes that are still being asked may say what the largest side says.
    this.askMore(Math.max(0, wanted - this.largest() - this.asked.size));
  }

  private largest(): number {
    return Math.max(0, ...[...this.sides.values()].map(({ nodes }) => nodes));
  }

  private end(outcome: Answer | GatewayError, isAgreed = false): void {
    this.isOver = true;
    for (const leash of this.asked) leash.cut();
    const { observer, config } = this.run.access;
    const isDisagreement = outcome instanceof GatewayError && outcome.code === "nodes_disagree";
    if (isAgreed || isDisagreement) observer.agreed(config.name, isAgreed ? "agreed" : "disagreed");
    this.onEnd(outcome);
  }

  /** The error when there is nobody left to ask. */
  private whyNoAgreement(): GatewayError {
    if (this.refusal !== undefined) return this.refusal;
    const { last } = this.failure ?? {};
    if (last instanceof GatewayError && last.code === "upstream_paused") return last;
    const { config } = this.run.access;
    const wanted = config.agreement;
    const why = this.failure === undefined ? "" : `; the last one that failed ${this.failure.text}`;
    const text = `at most ${this.largest()} of the nodes of the registry "${config.name}" gave the same answer, and ${wanted} have to${why}; try again later`;
    return new GatewayError("nodes_disagree", text);
  }
}
