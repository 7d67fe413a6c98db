import type { CancelTimer, Duration, Instant } from "../../clock.ts";
import { type GatewayError, toGatewayError } from "../../errors.ts";
import { quote } from "../../json.ts";
import { connectTimeout, type Failure, leftAlone, unusable } from "../failure.ts";
import type { OperatorActions } from "../operator-actions.ts";
import { connectionFailure, ProofFailed, refusedByLimit } from "../wire/connection-failure.ts";
import type { Connection } from "../wire/connection.ts";
import { Opening } from "../wire/connections.ts";
import { checkTimeout, pauseBeforeCheck } from "./health.ts";
import type { UpstreamNode } from "./node.ts";
import { askInfo, type AskTerms, type Info, noCallLeft, type ProofParts, unproved } from "./proof.ts";
import { isPartyId } from "./registry-admin.ts";

interface CheckParts extends ProofParts {
  readonly random: () => number;
  readonly operatorActions: OperatorActions;
  /** Whether nodes are asked in the background. */
  readonly mayCheck: () => boolean;
  /** The admin that is expected; undefined before one is known. */
  readonly expected: () => string | undefined;
  /** The node's info is here. @throws GatewayError when a call may not go to the node */
  readonly onInfo: (node: UpstreamNode, info: Info) => void;
  /** The node named no admin. Returns what those get who wait for it. */
  readonly failed: (node: UpstreamNode, failure: Failure) => ProofFailed;
  /** The node could not be asked, for no fault of its own. */
  readonly unasked: (node: UpstreamNode) => void;
  readonly whyNone: () => GatewayError;
}

/** Asks nodes which registry they are: one check of a node for all who wait for it, and the next in time. */
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
    const { operatorActions, clock, config, whyNone } = this.parts;
    return this.share(node, async () => {
      if (operatorActions.isCacheOnly) throw operatorActions.refusal();
      if (node.health.barredUntil > clock.now()) throw whyNone();
      if (node.refusesUntil > clock.now()) throw leftAlone(config.name, node.refusesUntil - clock.now());
      // No call left for a check says nothing about the node.
      await this.ask(node, await this.pay(isWaitedFor, this.deadlineOf(node)));
    });
  }

  /** Asks the node; nobody waits for it. */
  begin(node: UpstreamNode): void {
    // Whatever came of it was noted, and the next check is scheduled.
    this.check(node, false).catch(() => undefined);
  }

  /** Asks each of these nodes as soon as there is a call for it; undefined when there is none left for one by then. */
  async beginAll(nodes: readonly UpstreamNode[], deadline: Instant): Promise<Promise<void>[] | undefined> {
    const checks: Promise<void>[] = [];
    try {
      for (const node of nodes) {
        const paidAt = await this.pay(true, deadline);
        const check = this.share(node, () => this.ask(node, paidAt));
        // Whatever comes of it is noted, whether or not somebody waits for it.
        check.catch(() => undefined);
        checks.push(check);
      }
    } catch {
      return undefined;
    }
    return checks;
  }

  /**
   * A call may go over `connection` only when the node names the right admin there. A connection in doubt is asked only
   * where there is a call for it at once: another one may be opened.
   */
  async prove(node: UpstreamNode, connection: Connection): Promise<void> {
    const deadline = this.deadlineOf(node);
    const paidAt = await this.pay(!connection.isInDoubt, deadline).catch(refusedByLimit);
    await this.askOver(connection, node, { deadline, paidAt });
  }

  /** Asks the node again when that is due, in place of what was scheduled before. */
  schedule(node: UpstreamNode): void {
    const { mayCheck, clock, random, config } = this.parts;
    if (!mayCheck()) return;
    this.timers[node.index]?.();
    const pause = pauseBeforeCheck(node.health, clock.now(), config.proof.every);
    if (pause === undefined) return;
    const least = node.refusesUntil - clock.now();
    this.timers[node.index] = clock.after(Math.max(pause * (0.9 + random() * 0.2), least), () => this.begin(node));
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

  /** Takes a call to ask with; returns when. @throws GatewayError 429 when there is none left */
  private async pay(isWaitedFor: boolean, deadline: Instant): Promise<Instant> {
    const { rateLimit, config, clock } = this.parts;
    if (isWaitedFor) await rateLimit?.take({ operation: "info", priority: "post", deadline });
    else if ((await rateLimit?.tryTake("info", "refresh")) === false) throw noCallLeft(config.name);
    return clock.now();
  }

  /** Asks over a new connection, with a call that was paid for. @throws ProofFailed */
  private async ask(node: UpstreamNode, paidAt: Instant): Promise<void> {
    const { clock, config, signal, failed } = this.parts;
    const deadline = this.deadlineOf(node);
    const opening = new Opening();
    const stop = () => opening.abort();
    let isLate = false;
    const cancelTimer = clock.after(deadline - clock.now(), () => {
      isLate = true;
      stop();
    });
    signal.addEventListener("abort", stop);
    try {
      await node.connections.check(opening, (connection) => this.askOver(connection, node, { deadline, paidAt }));
    } catch (error) {
      if (error instanceof ProofFailed) throw error;
      throw failed(node, isLate ? connectTimeout(config.name) : connectionFailure(config.name, error, false));
    } finally {
      cancelTimer();
      signal.removeEventListener("abort", stop);
    }
  }

  /** Asks over this connection, which stays the caller's. @throws ProofFailed */
  private async askOver(connection: Connection, node: UpstreamNode, terms: AskTerms): Promise<void> {
    const { config, expected, onInfo, failed, unasked } = this.parts;
    let info: Info;
    try {
      info = await askInfo(node, connection, terms, this.parts);
      if (expected() === undefined && !isPartyId(info.adminId)) {
        const text = `names the admin ${quote(info.adminId)} in its info, which is no party id`;
        throw unproved(unusable(config.name, text));
      }
    } catch (error) {
      const failure = connectionFailure(config.name, error, false);
      // What comes over a connection in doubt says nothing about the node, nor does a limit.
      if (failure.reason === "http-429") unasked(node);
      else if (!connection.isInDoubt) throw failed(node, failure);
      throw new ProofFailed(failure);
    }
    try {
      onInfo(node, info);
    } catch (error) {
      const reason = node.state === "unproved" ? "unproved" : "wrong-admin";
      throw new ProofFailed({ reason, error: toGatewayError(error) });
    }
  }
}
