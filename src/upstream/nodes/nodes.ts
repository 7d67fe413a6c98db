import { Abort, type Clock, type Deadline, withDeadline } from "../../clock.ts";
import type { GatewayError } from "../../errors.ts";
import type { Credentials } from "../credentials/credentials.ts";
import { nodeAddressOf } from "../../config/urls.ts";
import { answerTimeout, type Failure } from "../failure.ts";
import type { OperatorActions } from "../operator-actions.ts";
import type { RateLimit } from "../../limits/rate-limit.ts";
import { ProofFailed } from "../wire/connection-failure.ts";
import type { StepFault } from "../wire/in-step.ts";
import type { Connection } from "../wire/connection.ts";
import type { ConnectionTarget } from "../wire/socket.ts";
import type { AgreementStatus, NodeState } from "../status.ts";
import { NodeChecks } from "./checks.ts";
import { type HealthEvent, isInUse, nextHealth, stateOf, whyEjected } from "./health.ts";
import { UpstreamNode } from "./node.ts";
import { hasProved, isWaiting, RegistryAdmin, type RegistryAdminParts } from "./registry-admin.ts";
import { SupportedApis } from "./supported-apis.ts";

interface NodesParts extends Omit<RegistryAdminParts, "note"> {
  readonly clock: Clock;
  readonly random: () => number;
  readonly credentials: Credentials | undefined;
  readonly rateLimit: RateLimit | undefined;
  readonly target: Omit<ConnectionTarget, "origin">;
  readonly operatorActions: OperatorActions;
  /** A check ended, or a node was ejected; `isWell`: a node was found well. */
  readonly onCheck: (isWell: boolean) => void;
}

/** What a call found out about its node. */
export type CallEvent = Exclude<HealthEvent, "proved" | "awaited" | "other-admin" | "silent" | "unasked" | "activated">;

/**
 * The nodes of one upstream and what is known about each: whether it proved that it serves this registry, and whether
 * it is well (see {@link nextHealth}). Unproved and ejected nodes are asked for their info again and again, proved ones
 * before `proof.every` is over.
 */
export class Nodes {
  readonly all: readonly UpstreamNode[];
  private readonly parts: NodesParts;
  private readonly registry: RegistryAdmin;
  private readonly supportedApis: SupportedApis;
  private readonly checks: NodeChecks;
  private readonly closing = new Abort();
  private hasStarted = false;
  private hasStopped = false;
  /** In cache-only mode. */
  private isPaused = false;

  constructor(parts: NodesParts) {
    this.parts = parts;
    const { config, observer } = parts;
    const nodeParts = {
      ...parts,
      prove: (node: UpstreamNode, connection: Connection) => this.checks.prove(node, connection),
      every: config.proof.every,
      onStepFault: ({ url }: UpstreamNode, fault: StepFault) => observer.outOfStep(config.name, url, fault),
    };
    this.all = config.urls.map((node, index) => new UpstreamNode(index, nodeAddressOf(node), nodeParts));
    this.registry = new RegistryAdmin(this.all, { ...parts, note: (node, event, why) => this.note(node, event, why) });
    this.supportedApis = new SupportedApis(parts.clock);
    this.checks = new NodeChecks(this.all, {
      ...parts,
      signal: this.closing,
      mayCheck: () => this.mayCheck,
      expected: () => this.admin,
      onInfo: (node, { adminId, supportedApis }) => {
        this.named(node, adminId);
        this.noteApis(node, supportedApis);
        this.throwIfDisabled();
      },
      failed: (node, failure) => {
        observer.check(config.name, node.url, "failure");
        this.note(node, "silent", failure.error.message);
        parts.onCheck(false);
        return new ProofFailed(failure);
      },
      unasked: (node) => this.note(node, "unasked", undefined),
      whyNone: () => this.whyNone(),
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

  /** What a call gets when no node may be asked. */
  whyNone(): GatewayError {
    const { disabledBecause, all } = this;
    const cordoned = all.find(({ isCordoned, state }) => isCordoned && (state === "up" || state === "ejected"));
    if (disabledBecause === undefined && cordoned !== undefined)
      return this.parts.operatorActions.whyCordoned(cordoned.url);
    return this.registry.whyNone();
  }

  /** Finds out anew whether nodes or upstreams contradict each other. */
  reconsider(): void {
    this.registry.reconsider();
  }

  /** Some node has proved the admin, and so many name it as have to agree. */
  get hasProved(): boolean {
    return this.all.some(hasProved);
  }

  /** Some node named its admin, and more have to name the same before it is used. */
  get isAgreementAwaited(): boolean {
    return this.parts.config.agreement.admin > 1 && this.all.some(isWaiting);
  }

  /** How many nodes name the same admin, and how many have to; undefined where one is enough. */
  agreement(): AgreementStatus | undefined {
    return this.registry.status();
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
    this.checks.cancelAll();
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
      node.inherit(same);
    }
    this.registry.reviewInherited();
  }

  /**
   * Resolves when a node has proved its admin, and so many have named it as have to agree.
   * @throws GatewayError that says why none has: 502, 503 or 504.
   */
  async whenProved(until: Omit<Deadline, "late">): Promise<void> {
    this.throwIfDisabled();
    if (this.hasProved) return;
    const checks = this.all.map((node) => this.checks.check(node, true));
    const late = () => answerTimeout(this.parts.config.name).error;
    try {
      await withDeadline(Promise.any(checks), { ...until, late }, this.parts.clock);
    } catch (error) {
      const isOver = error instanceof AggregateError;
      // What each of them got is of less use than how far they agree.
      if (isOver && this.isAgreementAwaited) throw this.whyNone();
      const first: unknown = isOver ? error.errors[0] : error;
      throw first instanceof ProofFailed ? first.failure.error : first;
    }
    this.throwIfDisabled();
  }

  /**
   * Resolves when so many nodes take calls, or all that have not named their admin yet were asked. Rejects as
   * {@link whenProved}, and when the deadline passes.
   */
  async whenOpen(count: number, until: Omit<Deadline, "late">): Promise<void> {
    await this.whenProved(until);
    const unproved = this.all.filter(({ state }) => state === "unproved");
    if (unproved.length === 0 || countOpen(this.all) >= count) return;
    const { promise, resolve } = Promise.withResolvers<void>();
    let left = unproved.length;
    const settle = (): void => {
      left -= 1;
      if (left === 0 || countOpen(this.all) >= count) resolve();
    };
    for (const node of unproved) this.checks.check(node, true).then(settle, settle);
    const late = () => answerTimeout(this.parts.config.name).error;
    await withDeadline(promise, { ...until, late }, this.parts.clock);
  }

  /** Another process found that this node is another registry: it gets no call before it was asked again, now. */
  doubt(node: UpstreamNode): void {
    node.connections.revoke();
    this.checks.begin(node);
  }

  /** Asks every node anew. */
  checkAll(): void {
    if (!this.mayCheck) return;
    for (const node of this.all) this.checks.begin(node);
  }

  /**
   * Operators may have changed what is to be done. In cache-only mode no node is checked; afterwards each is asked before
   * it gets another call, for much may have happened meanwhile.
   */
  followOrders(): void {
    const { operatorActions } = this.parts;
    for (const node of this.all) {
      node.follow(operatorActions.ofNode(node.url));
      const activeSince = operatorActions.activeSince(node.url) ?? -Infinity;
      if (node.health.turns === 0 || activeSince < node.health.turnedAt) continue;
      this.note(node, "activated", node.lastError);
      this.checks.begin(node);
    }
    if (operatorActions.isCacheOnly === this.isPaused) return;
    this.isPaused = operatorActions.isCacheOnly;
    if (this.isPaused) this.checks.cancelAll();
    else if (this.mayCheck) for (const node of this.all) this.doubt(node);
  }

  private get mayCheck(): boolean {
    return this.hasStarted && !this.hasStopped && !this.isPaused;
  }

  /** A call found this out about its node; `failure`: how it failed. */
  report(node: UpstreamNode, event: CallEvent, failure?: Failure): void {
    if (event === "answered") node.load.lastGoodAt = this.parts.clock.now();
    // A call that was under way when the node went out of use says nothing new.
    if (!isInUse(node.health)) return;
    // Of the last node that is left no info is asked but when it refused the connection: another registry may come then.
    const mayAsk = this.mayCheck && (!this.isNeeded(node) || failure?.reason === "refused");
    this.note(node, event, failure?.error.message, mayAsk);
  }

  /**
   * Asks all nodes for their info: true when one gives it within `attemptTimeout`, false when none does, undefined when
   * nothing may be asked: there is no call left for it, the nodes want fewer, or an operator wants none.
   */
  async askInfo(): Promise<boolean | undefined> {
    const { clock, config, operatorActions } = this.parts;
    if (operatorActions.isCacheOnly) return undefined;
    const signal = this.closing;
    const deadline = clock.now() + Math.min(config.attemptTimeout, config.timeout);
    const proved = this.all.filter((node) => !node.isCordoned && hasProved(node));
    const free = proved.filter(({ refusesUntil }) => refusesUntil <= clock.now());
    if (free.length === 0 && proved.length > 0) return undefined;
    const checks = await this.checks.beginAll(free, deadline);
    if (checks === undefined) return undefined;
    try {
      await withDeadline(
        Promise.any(checks),
        { deadline, signal, late: () => answerTimeout(config.name).error },
        clock,
      );
      return true;
    } catch (error) {
      return signal.aborted || wantsFewerCalls(error) ? undefined : false;
    }
  }

  /**
   * The info of the node, asked for by a check or a call, named this admin.
   * @throws GatewayError 502 when it is another one; the node gets no request before it names the right one.
   */
  named(node: UpstreamNode, admin: string): void {
    let isWell = false;
    try {
      this.registry.named(node, admin);
      isWell = true;
    } finally {
      this.parts.onCheck(isWell);
    }
  }

  /** The node's own info, which names the right admin, says which APIs the registry supports. */
  noteApis(node: UpstreamNode, supportedApis: readonly string[] | undefined): void {
    const change = supportedApis === undefined ? undefined : this.supportedApis.note(node.info, supportedApis);
    if (change !== undefined) this.parts.observer.supportedApisChanged(this.parts.config.name, change);
  }

  /** What becomes of the node by this event; `said` for operators. */
  private note(node: UpstreamNode, event: HealthEvent, said: string | undefined, mayAsk = false): void {
    const before = node.health;
    const { clock, observer, config } = this.parts;
    const health = nextHealth(before, event, { now: clock.now(), isNeeded: this.isNeeded(node), mayAsk });
    if (health === before) return;
    if (event === "proved" && !this.hasProved) observer.adminProved(config.name, node.admin!);
    node.health = health;
    const isShutOut = event === "other-admin" && health.barredUntil === Infinity;
    const why = isShutOut ? `${said}, again: it is asked no more before an operator sets it active` : said;
    if (event === "proved") node.info.provedAt = clock.wallNow();
    else if (why !== undefined) node.lastError = why;
    const [from, to] = [stateOf(before), stateOf(health)];
    if (from !== to)
      this.moved(node, { from, to, why: to === "ejected" ? whyEjected(before, event, why) : (why ?? "") });
    if (from !== to || health.misses !== before.misses || event === "proved") this.checks.schedule(node);
    if (health.askedAt !== before.askedAt && node.isOpen) this.checks.begin(node);
  }

  private moved(node: UpstreamNode, change: { from: NodeState; to: NodeState; why: string }): void {
    const { config, observer, onCheck } = this.parts;
    // It comes back: what it took before says nothing.
    if (node.health.state === "half-open") node.load.latency = undefined;
    if (change.to === "ejected") {
      node.ejections += 1;
      const { lastError } = node;
      node.lastError = lastError === undefined || lastError === change.why ? change.why : `${change.why}: ${lastError}`;
    }
    observer.nodeState(config.name, node.url, change);
    if (change.to === "ejected") onCheck(false);
  }

  /** No other node takes calls. */
  private isNeeded(node: UpstreamNode): boolean {
    return node.isOpen && countOpen(this.all) === 1;
  }

  private throwIfDisabled(): void {
    if (this.disabledBecause !== undefined) throw this.whyNone();
  }
}

/** Each check was answered 429, or there was no call left for it, which says nothing of how the registry is. */
function wantsFewerCalls(error: unknown): boolean {
  if (!(error instanceof AggregateError) || error.errors.length === 0) return false;
  return error.errors.every((each) => each instanceof ProofFailed && each.failure.reason === "http-429");
}

/** How many nodes take calls: they are in use, and not cordoned. */
function countOpen(nodes: readonly UpstreamNode[]): number {
  let count = 0;
  for (const { isOpen } of nodes) if (isOpen) count += 1;
  return count;
}
