import type { CancelTimer, Clock, Duration, Instant } from "../../clock.ts";
import type { UpstreamConfig } from "../../config/schema.ts";
import type { GatewayError } from "../../errors.ts";
import type { RateLimit } from "../../limits/rate-limit.ts";
import type { OperatorActions } from "../operator-actions.ts";
import { ProofFailed } from "../wire/connection-failure.ts";
import type { Connection } from "../wire/connection.ts";
import { checkTimeout, pauseBeforeCheck } from "./health.ts";
import type { UpstreamNode } from "./node.ts";
import type { NodeProof } from "./proof.ts";

interface CheckParts {
  readonly config: UpstreamConfig;
  readonly clock: Clock;
  readonly random: () => number;
  readonly operatorActions: OperatorActions;
  readonly rateLimit: RateLimit | undefined;
  readonly proof: NodeProof;
  /** Whether nodes are asked in the background. */
  readonly mayCheck: () => boolean;
  /** The node could not be asked, for no fault of its own. */
  readonly unasked: (node: UpstreamNode) => void;
  readonly whyNone: () => GatewayError;
}

/** When nodes are asked for their info: one check of a node for all who wait for it, and the next in time. */
export class NodeChecks {
  private readonly parts: CheckParts;
  private readonly nodes: readonly UpstreamNode[];
  private readonly running: (Promise<void> | undefined)[] = [];
  private readonly timers: (CancelTimer | undefined)[] = [];

  constructor(nodes: readonly UpstreamNode[], parts: CheckParts) {
    this.nodes = nodes;
    this.parts = parts;
  }

  /** Asks the node; rejects when that proves nothing. */
  check(node: UpstreamNode, isWaitedFor: boolean): Promise<void> {
    const { operatorActions, clock, proof, whyNone } = this.parts;
    return this.share(node, async () => {
      if (operatorActions.isCacheOnly) throw operatorActions.refusal();
      if (node.health.barredUntil > clock.now()) throw whyNone();
      // No call left for a check says nothing about the node.
      await proof.pay(isWaitedFor, this.deadlineOf(node));
      await proof.ask(node, this.deadlineOf(node));
    });
  }

  /** Asks the node; nobody waits for it. */
  begin(node: UpstreamNode): void {
    // Whatever came of it was noted, and the next check is scheduled.
    this.check(node, false).catch(() => undefined);
  }

  /** Asks these nodes; undefined when there is no call left to ask with by then. */
  async beginAll(nodes: readonly UpstreamNode[], deadline: Instant): Promise<Promise<void>[] | undefined> {
    const { proof } = this.parts;
    try {
      for (const _ of nodes) await proof.pay(true, deadline);
    } catch {
      return undefined;
    }
    return nodes.map((node) => this.share(node, () => proof.ask(node, this.deadlineOf(node))));
  }

  /**
   * A call may go over `connection` only when the node names the right admin there. A connection in doubt is asked only
   * where there is a call for it at once: another one may be opened.
   */
  async prove(node: UpstreamNode, connection: Connection): Promise<void> {
    const { proof } = this.parts;
    const deadline = this.deadlineOf(node);
    if (connection.isInDoubt) await proof.pay(false, deadline);
    else await proof.payForCall(deadline);
    await proof.askOver(connection, node, deadline);
  }

  /** Asks the node again when that is due, in place of what was scheduled before. */
  schedule(node: UpstreamNode): void {
    const { mayCheck, clock, random, config } = this.parts;
    if (!mayCheck()) return;
    this.timers[node.index]?.();
    const pause = pauseBeforeCheck(node.health, clock.now(), config.proof.every);
    if (pause === undefined) return;
    this.timers[node.index] = clock.after(pause * (0.9 + random() * 0.2), () => this.begin(node));
  }

  /** Asks no node again. */
  cancelAll(): void {
    for (const cancelTimer of this.timers) cancelTimer?.();
  }

  private share(node: UpstreamNode, ask: () => Promise<void>): Promise<void> {
    this.running[node.index] ??= ask()
      .catch((error: unknown) => {
        if (!(error instanceof ProofFailed)) this.parts.unasked(node);
        throw error;
      })
      .finally(() => {
        this.running[node.index] = undefined;
        this.schedule(node);
      });
    return this.running[node.index]!;
  }

  private deadlineOf(node: UpstreamNode): Instant {
    const { config, clock } = this.parts;
    const attempt: Duration = Math.min(config.attemptTimeout, config.timeout);
    return clock.now() + checkTimeout(node.health, this.nodes.length === 1 ? config.timeout : attempt);
  }
}
