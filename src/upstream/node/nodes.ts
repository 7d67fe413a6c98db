import type { Clock, Instant } from "../../clock.ts";
import type { UpstreamConfig } from "../../config/schema.ts";
import { type GatewayError, toGatewayError } from "../../errors.ts";
import type { Credentials } from "../credentials/credentials.ts";
import type { RateLimit } from "../limits/rate-limit.ts";
import { ProofFailed } from "../wire/connection-failure.ts";
import { answerTimeout, consequences, unusable } from "../failure.ts";
import type { Failure, FailureReason } from "../failure.ts";
import type { Connection, ConnectionTarget } from "../wire/connection.ts";
import { NodeProof } from "./proof.ts";
import { quote, RegistryAdmin } from "./registry-admin.ts";
import { NodeWatch } from "./node-watch.ts";
import { UpstreamNode } from "./node.ts";
import type { UpstreamObserver } from "../observer.ts";
import { withDeadline } from "../../deadline.ts";
import type { Deadline } from "../../deadline.ts";
import type { NodeState } from "../status.ts";

export interface NodesParts {
  readonly config: UpstreamConfig;
  readonly clock: Clock;
  readonly random: () => number;
  readonly observer: UpstreamObserver;
  readonly credentials: Credentials | undefined;
  readonly rateLimit: RateLimit | undefined;
  readonly target: Omit<ConnectionTarget, "origin">;
  /** Why this upstream may not have `admin`, if it may not. */
  readonly claim: (admin: string) => string | undefined;
  /** A node that took requests for the registry of `admin`, or that may be as right as those that did, is another. */
  readonly onImpostor: (node: UpstreamNode, admin: string) => void;
  /** A check ended, or a node was ejected; `isWell`: a node was found well. */
  readonly onCheck: (isWell: boolean) => void;
}

/**
 * The nodes of one upstream and what is known about each: whether it proved that it serves this registry, and whether
 * it is well. Unproved and ejected nodes are asked for their info again and again, proved ones every five minutes.
 */
export class Nodes {
  readonly all: readonly UpstreamNode[];
  private readonly parts: NodesParts;
  private readonly watches: readonly NodeWatch[];
  private readonly registry: RegistryAdmin;
  private readonly proof: NodeProof;
  private readonly closing = new AbortController();
  private hasStarted = false;
  private hasStopped = false;

  constructor(parts: NodesParts) {
    this.parts = parts;
    const prove = (node: UpstreamNode, connection: Connection) => this.prove(node, connection);
    this.all = parts.config.urls.map((url, index) => new UpstreamNode(index, url, { ...parts, prove }));
    this.registry = new RegistryAdmin(parts.config, parts.claim);
    this.proof = new NodeProof({
      ...parts,
      signal: this.closing.signal,
      expected: () => this.admin,
      told: (node, admin) => {
        this.hear(node, admin);
        this.throwIfDisabled();
      },
      failed: (node, failure) => this.noteFailure(node, failure),
    });
    this.watches = this.all.map(() => new NodeWatch(parts.clock, parts.random));
  }

  /** The party id of the registry's admin: configured or learned. */
  get admin(): string | undefined {
    return this.registry.id;
  }

  /** Why no request may be sent at all: nodes or upstreams contradict each other. */
  get disabledBecause(): string | undefined {
    return this.registry.contradictedBecause;
  }

  /** What a call is told when no node may be asked. */
  whyNone(): GatewayError {
    return this.registry.whyNone(this.all);
  }

  /** Finds out anew whether nodes or upstreams contradict each other. */
  reconsider(): void {
    this.registry.reconsider(this.all);
  }

  /** Some node has proved the admin. */
  get hasProved(): boolean {
    for (const { state } of this.all) if (state === "up" || state === "ejected") return true;
    return false;
  }

  get upCount(): number {
    let count = 0;
    for (const { state } of this.all) if (state === "up") count += 1;
    return count;
  }

  /** Starts checking in the background. */
  start(): void {
    if (this.hasStarted) return;
    this.hasStarted = true;
    for (const node of this.all) this.checkInBackground(node);
  }

  /** Begins no more checks by itself; calls may still have nodes asked. */
  stopChecks(): void {
    this.hasStopped = true;
    for (const watch of this.watches) watch.cancel();
  }

  /** Closes the connections; those in use, when their calls are over. */
  close(): void {
    this.stopChecks();
    this.closing.abort();
    for (const node of this.all) node.connections.close();
  }

  /** Takes over what `old` nodes of the same URL have proved, so that a new configuration begins without a gap. */
  adopt(old: Nodes): void {
    if (old.disabledBecause !== undefined) return;
    this.registry.inherit(old.registry);
    for (const node of this.all) {
      const same = old.all.find(({ url }) => url === node.url);
      if (same?.admin === undefined || same.admin !== this.admin) continue;
      node.admin = same.admin;
      node.state = "up";
      node.connections.inherit(same.connections);
    }
    // Nodes that disappeared do not vouch for the admin they taught.
    if (!this.hasProved) this.registry.forget();
  }

  /**
   * Resolves when a node has proved its admin.
   * @throws GatewayError that says why none has: 502, 503 or 504.
   */
  async whenProved(until: Omit<Deadline, "late">): Promise<void> {
    this.throwIfDisabled();
    if (this.hasProved) return;
    const checks = this.all.map((node) => this.check(node, true));
    const late = () => answerTimeout(this.parts.config.name).error;
    try {
      await withDeadline(Promise.any(checks), { ...until, late }, this.parts.clock);
    } catch (error) {
      const first: unknown = error instanceof AggregateError ? error.errors[0] : error;
      throw first instanceof ProofFailed ? first.failure.error : first;
    }
    this.throwIfDisabled();
  }

  /** Somebody else found that this node is another registry: it gets no call before it was asked again, now. */
  doubt(node: UpstreamNode): void {
    node.connections.revoke();
    this.checkInBackground(node);
  }

  /** Asks every node anew. */
  checkAll(): void {
    if (this.hasStarted && !this.hasStopped) for (const node of this.all) this.checkInBackground(node);
  }

  /** Takes a node out for a while, unless it is the last one that takes requests. Returns whether it is out. */
  eject(node: UpstreamNode, why: string): boolean {
    if (node.state !== "up") return true;
    if (this.upCount === 1) return false;
    this.watchOf(node).noteEjected();
    node.ejections += 1;
    node.lastError = why;
    this.change(node, "ejected", why);
    this.schedule(node);
    this.parts.onCheck(false);
    return true;
  }

  /**
   * A call failed or is late on a node: it is checked, and ejected when it fails the check as well. The last one that
   * takes requests is checked only when it `refused` the connection, for then another registry may come in its place.
   */
  suspect(node: UpstreamNode, reason?: FailureReason): void {
    if (!this.hasStarted || this.hasStopped || node.state !== "up" || (this.upCount === 1 && reason !== "refused"))
      return;
    const isCertain = reason !== undefined && consequences[reason].fault === "node";
    if (this.watchOf(node).suspect(isCertain)) this.checkInBackground(node);
  }

  /**
   * Asks all nodes for their info: true when one tells it within `attemptTimeout`, false when none does, undefined when
   * there is no call left to ask with.
   */
  async askInfo(): Promise<boolean | undefined> {
    const { clock, config, rateLimit } = this.parts;
    const { signal } = this.closing;
    const timeout = Math.min(config.attemptTimeout, config.timeout);
    const asked = this.all.filter(({ state }) => state === "up" || state === "ejected");
    const late = () => answerTimeout(config.name).error;
    try {
      const deadline = clock.now() + timeout;
      for (const _ of asked) await rateLimit?.take({ operation: "info", priority: "post", deadline, signal });
    } catch {
      return undefined;
    }
    const checks = asked.map((node) => this.share(node, () => this.proof.ask(node, this.deadlineOf(node))));
    try {
      await withDeadline(Promise.any(checks), { deadline: clock.now() + timeout, signal, late }, clock);
      return true;
    } catch {
      return signal.aborted ? undefined : false;
    }
  }

  /**
   * A call brought the node's own info, which counts as a check.
   * @throws GatewayError 502 when it names another admin; the node gets no request before it names the right one.
   */
  hearFromCall(node: UpstreamNode, admin: string): void {
    try {
      this.hear(node, admin);
    } finally {
      this.schedule(node);
    }
  }

  private watchOf(node: UpstreamNode): NodeWatch {
    return this.watches[node.index]!;
  }

  /** One check for all who wait for it; rejects when it proves nothing. */
  private check(node: UpstreamNode, isWaitedFor: boolean): Promise<void> {
    return this.share(node, async () => {
      // No call left for a check says nothing about the node.
      await this.proof.pay(isWaitedFor, this.deadlineOf(node));
      await this.proof.ask(node, this.deadlineOf(node));
    });
  }

  private share(node: UpstreamNode, begin: () => Promise<void>): Promise<void> {
    return this.watchOf(node).share(() => begin().finally(() => this.schedule(node)));
  }

  private checkInBackground(node: UpstreamNode): void {
    // Whatever came of it was noted, and the next check is scheduled.
    this.check(node, false).catch(() => undefined);
  }

  /** A call may go over `connection` only when the node names the right admin there. */
  private async prove(node: UpstreamNode, connection: Connection): Promise<void> {
    const deadline = this.deadlineOf(node);
    try {
      await this.proof.pay(true, deadline);
    } catch (error) {
      throw new ProofFailed({ reason: "http-429", error: toGatewayError(error) });
    }
    try {
      await this.proof.askOver(connection, node, deadline);
    } finally {
      this.schedule(node);
    }
  }

  private deadlineOf(node: UpstreamNode): Instant {
    const { config, clock } = this.parts;
    const usual = this.all.length === 1 ? config.timeout : Math.min(config.attemptTimeout, config.timeout);
    return clock.now() + this.watchOf(node).timeout(node.state, usual);
  }

  private throwIfDisabled(): void {
    if (this.disabledBecause !== undefined) throw this.whyNone();
  }

  private noteFailure(node: UpstreamNode, failure: Failure): ProofFailed {
    const { observer, config } = this.parts;
    const watch = this.watchOf(node);
    const why = failure.error.message;
    observer.check(config.name, node.url, "failure");
    if (node.state === "unproved") node.lastError = why;
    if (node.state === "ejected" || node.state === "unproved") watch.noteFailure();
    // A proved node that fails a check need not have become another registry: it is out only if calls failed as well.
    if (node.state === "up" && watch.isSuspect) this.eject(node, why);
    if (node.state === "up") watch.noteDoubt();
    this.parts.onCheck(false);
    return new ProofFailed(failure);
  }

  /**
   * The node named its admin.
   * @throws GatewayError 502 when it is not the one that is expected.
   */
  private hear(node: UpstreamNode, admin: string): void {
    const { config, observer } = this.parts;
    const expected = this.registry.hear(admin);
    node.admin = admin;
    if (admin !== expected) this.refuse(node, { admin, expected });
    observer.check(config.name, node.url, "success");
    this.watchOf(node).noteTold();
    if (node.state !== "up") this.admit(node);
    this.reconsider();
    this.parts.onCheck(true);
  }

  private refuse(node: UpstreamNode, { admin, expected }: { admin: string; expected: string }): never {
    const { config, observer, onImpostor } = this.parts;
    const why = `its info names the admin ${quote(admin)} and not ${quote(expected)}`;
    const from = node.state;
    node.lastError = why;
    this.watchOf(node).noteFailure();
    observer.check(config.name, node.url, "failure");
    observer.adminMismatch(config.name, node.url, { expected, told: admin, isNew: from !== "wrong-admin" });
    this.change(node, "wrong-admin", why);
    node.connections.disown();
    // Without a configured admin nothing says which of the two is right.
    const tookCalls = from === "up" || from === "ejected" || (from === "unproved" && config.admin === undefined);
    if (tookCalls) onImpostor(node, expected);
    this.reconsider();
    this.parts.onCheck(false);
    throw unusable(
      config.name,
      `serves another registry than configured: ${why}; tell the gateway's operator`,
      "wrong_admin",
    );
  }

  private admit(node: UpstreamNode): void {
    if (node.state === "ejected") node.readmit();
    this.watchOf(node).noteUp(node.state);
    if (!this.hasProved) this.parts.observer.adminProved(this.parts.config.name, node.admin!);
    this.change(node, "up", "its info names the right admin");
  }

  private change(node: UpstreamNode, to: NodeState, why: string): void {
    const from = node.state;
    if (from === to) return;
    node.state = to;
    this.parts.observer.nodeState(this.parts.config.name, node.url, { from, to, why });
  }

  private schedule(node: UpstreamNode): void {
    if (this.hasStopped || !this.hasStarted) return;
    this.watchOf(node).schedule(node.state, () => this.checkInBackground(node));
  }
}
