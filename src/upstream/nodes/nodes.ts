import { Abort, type Clock, type Deadline, type Instant, withDeadline } from "../../clock.ts";
import type { GatewayError } from "../../errors.ts";
import type { Credentials } from "../credentials/credentials.ts";
import { addressOf } from "../../config/urls.ts";
import { answerTimeout, consequences, type FailureReason } from "../failure.ts";
import type { OperatorOrders } from "../operator-orders.ts";
import type { RateLimit } from "../../limits/rate-limit.ts";
import { ProofFailed } from "../wire/connection-failure.ts";
import type { StepFault } from "../wire/step-record.ts";
import type { Connection, ConnectionTarget } from "../wire/connection.ts";
import type { AgreementStatus } from "../status.ts";
import { countOpen, hasProved, NodeStates, type NodeStatesParts } from "./node-states.ts";
import { UpstreamNode } from "./node.ts";
import { NodeProof } from "./proof.ts";
import { isWaiting, RegistryAdmin } from "./registry-admin.ts";
import { SupportedApis } from "./supported-apis.ts";

interface NodesParts extends NodeStatesParts {
  readonly clock: Clock;
  readonly random: () => number;
  readonly credentials: Credentials | undefined;
  readonly rateLimit: RateLimit | undefined;
  readonly target: Omit<ConnectionTarget, "origin">;
  /** Why this upstream may not have `admin`, if it may not. */
  readonly claim: (admin: string) => string | undefined;
  readonly orders: OperatorOrders;
}

/**
 * The nodes of one upstream and what is known about each: whether it proved that it serves this registry, and whether
 * it is well. Unproved and ejected nodes are asked for their info again and again, proved ones before `proof.every` is over.
 */
export class Nodes {
  readonly all: readonly UpstreamNode[];
  private readonly parts: NodesParts;
  private readonly registry: RegistryAdmin;
  private readonly supportedApis: SupportedApis;
  private readonly states: NodeStates;
  private readonly proof: NodeProof;
  private readonly closing = new Abort();
  private hasStarted = false;
  private hasStopped = false;
  /** In cache-only mode. */
  private isPaused = false;

  constructor(parts: NodesParts) {
    this.parts = parts;
    const prove = (node: UpstreamNode, connection: Connection) => this.prove(node, connection);
    const { every } = parts.config.proof;
    const onStepFault = ({ url }: UpstreamNode, fault: StepFault) =>
      parts.observer.outOfStep(parts.config.name, url, fault);
    const nodeParts = { ...parts, prove, every, onStepFault };
    this.all = parts.config.urls.map((node, index) => new UpstreamNode(index, addressOf(node), nodeParts));
    this.registry = new RegistryAdmin(parts.config, parts.claim);
    this.supportedApis = new SupportedApis(parts.clock);
    this.states = new NodeStates(this.all, this.registry, parts);
    this.proof = new NodeProof({
      ...parts,
      signal: this.closing,
      expected: () => this.admin,
      told: (node, admin, supportedApis) => {
        this.states.hear(node, admin);
        this.hearApis(node, supportedApis);
        this.throwIfDisabled();
      },
      failed: (node, failure) => {
        if (this.states.noteFailure(node, failure)) this.schedule(node);
        return new ProofFailed(failure);
      },
    });
  }

  /** The party id of the registry's admin: configured or learned. */
  get admin(): string | undefined {
    return this.registry.id;
  }

  /** Why no request may be sent at all: nodes or upstreams contradict each other. */
  get disabledBecause(): string | undefined {
    return this.registry.contradiction;
  }

  /** What a call is told when no node may be asked. */
  whyNone(): GatewayError {
    const { disabledBecause, all } = this;
    const cordoned = all.find(({ isCordoned, state }) => isCordoned && (state === "up" || state === "ejected"));
    if (disabledBecause === undefined && cordoned !== undefined) return this.parts.orders.whyCordoned(cordoned.url);
    return this.registry.whyNone(all);
  }

  /** Finds out anew whether nodes or upstreams contradict each other. */
  reconsider(): void {
    this.registry.reconsider(this.all);
  }

  /** Some node has proved the admin, and so many name it as have to agree. */
  get hasProved(): boolean {
    return hasProved(this.all);
  }

  /** Some node named its admin, and more have to name the same before it is used. */
  get isAgreementAwaited(): boolean {
    return this.parts.config.agree > 1 && this.all.some(isWaiting);
  }

  /** How many nodes name the same admin, and how many have to; undefined where one is enough. */
  agreement(): AgreementStatus | undefined {
    return this.registry.status(this.all);
  }

  /** Starts checking in the background. */
  start(): void {
    if (this.hasStarted) return;
    this.hasStarted = true;
    this.checkAll();
  }

  /** Begins no more checks by itself; calls may still have nodes asked. */
  stopChecks(): void {
    this.hasStopped = true;
    for (const { watch } of this.all) watch.cancel();
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
    this.supportedApis.inherit(old.supportedApis);
    for (const node of this.all) {
      const same = old.all.find(({ url }) => url === node.url);
      if (same?.admin === undefined || same.admin !== this.admin) continue;
      node.admin = same.admin;
      node.supportedApis = same.supportedApis;
      node.state = "up";
      node.provedAt = same.provedAt;
      node.calls = same.calls;
      node.connections.inherit(same.connections);
    }
    // More have to agree now, or some of those that did are gone.
    if (!this.registry.isAgreed(this.all)) this.states.withdraw();
    // Nodes that disappeared do not vouch for the admin they taught.
    if (!this.hasProved) this.registry.forget();
  }

  /**
   * Resolves when a node has proved its admin, and so many have named it as have to agree.
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
      const isOver = error instanceof AggregateError;
      // What each of them was told is of less use than how far they agree.
      if (isOver && this.isAgreementAwaited) throw this.whyNone();
      const first: unknown = isOver ? error.errors[0] : error;
      throw first instanceof ProofFailed ? first.failure.error : first;
    }
    this.throwIfDisabled();
  }

  /** Another process found that this node is another registry: it gets no call before it was asked again, now. */
  doubt(node: UpstreamNode): void {
    node.connections.revoke();
    this.checkInBackground(node);
  }

  /** Asks every node anew. */
  checkAll(): void {
    if (!this.mayCheck) return;
    for (const node of this.all) this.checkInBackground(node);
  }

  /**
   * What operators did may be another now. In cache-only mode no node is checked; afterwards each is asked before it gets
   * another call, for much may have happened meanwhile.
   */
  heed(): void {
    const { orders } = this.parts;
    for (const node of this.all) {
      node.heed(orders.ofNode(node.url));
      const activeSince = orders.activeSince(node.url);
      if (activeSince !== undefined && node.watch.forgive(activeSince)) this.checkInBackground(node);
    }
    if (orders.isCacheOnly === this.isPaused) return;
    this.isPaused = orders.isCacheOnly;
    for (const node of this.all) {
      if (this.isPaused) node.watch.cancel();
      else if (this.mayCheck) this.doubt(node);
    }
  }

  private get mayCheck(): boolean {
    return this.hasStarted && !this.hasStopped && !this.isPaused;
  }

  /** Takes a node out for a while, unless it is the last one that takes requests. `error`: that of its last failure. */
  eject(node: UpstreamNode, why: string, error?: string): void {
    if (node.state === "up" && this.states.eject(node, why, error)) this.schedule(node);
  }

  /**
   * A call failed or is late on a node: it is checked, and ejected when it fails the check as well. The last one that
   * takes requests is checked only when it `refused` the connection, for then another registry may come in its place.
   */
  suspect(node: UpstreamNode, reason?: FailureReason): void {
    if (
      !this.mayCheck ||
      node.state !== "up" ||
      (countOpen(this.all) === 1 && !node.isCordoned && reason !== "refused")
    )
      return;
    const isCertain = reason !== undefined && consequences[reason].fault === "node";
    if (node.watch.suspect(isCertain)) this.checkInBackground(node);
  }

  /**
   * Asks all nodes for their info: true when one tells it within `attemptTimeout`, false when none does, undefined when
   * there is no call left to ask with.
   */
  async askInfo(): Promise<boolean | undefined> {
    const { clock, config, rateLimit } = this.parts;
    const signal = this.closing;
    const timeout = Math.min(config.attemptTimeout, config.timeout);
    const asked = this.all.filter(({ state, isCordoned }) => !isCordoned && (state === "up" || state === "ejected"));
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
      this.states.hear(node, admin);
    } finally {
      this.schedule(node);
    }
  }

  /** The node's own info, which names the right admin, says which APIs the registry supports. */
  hearApis(node: UpstreamNode, supportedApis: readonly string[] | undefined): void {
    const change = supportedApis === undefined ? undefined : this.supportedApis.hear(node, supportedApis);
    if (change !== undefined) this.parts.observer.supportedApisChanged(this.parts.config.name, change);
  }

  /** One check for all that wait for it; rejects when it proves nothing. */
  private check(node: UpstreamNode, isWaitedFor: boolean): Promise<void> {
    return this.share(node, async () => {
      if (this.parts.orders.isCacheOnly) throw this.parts.orders.refusal();
      if (node.watch.isBarred) throw this.whyNone();
      // No call left for a check says nothing about the node.
      await this.proof.pay(isWaitedFor, this.deadlineOf(node));
      await this.proof.ask(node, this.deadlineOf(node));
    });
  }

  private share(node: UpstreamNode, begin: () => Promise<void>): Promise<void> {
    return node.watch.share(() => begin().finally(() => this.schedule(node)));
  }

  private checkInBackground(node: UpstreamNode): void {
    // Whatever came of it was noted, and the next check is scheduled.
    this.check(node, false).catch(() => undefined);
  }

  /** A call may go over `connection` only when the node names the right admin there. */
  private async prove(node: UpstreamNode, connection: Connection): Promise<void> {
    const deadline = this.deadlineOf(node);
    await this.proof.payForCall(deadline);
    try {
      await this.proof.askOver(connection, node, deadline);
    } finally {
      this.schedule(node);
    }
  }

  private deadlineOf(node: UpstreamNode): Instant {
    const { config, clock } = this.parts;
    const usual = this.all.length === 1 ? config.timeout : Math.min(config.attemptTimeout, config.timeout);
    return clock.now() + node.watch.timeout(node.state, usual);
  }

  private throwIfDisabled(): void {
    if (this.disabledBecause !== undefined) throw this.whyNone();
  }

  private schedule(node: UpstreamNode): void {
    if (!this.mayCheck) return;
    node.watch.schedule(node.state, () => this.checkInBackground(node));
  }
}
