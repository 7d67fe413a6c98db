import type { Clock, Instant } from "../../clock.ts";
import type { UpstreamConfig } from "../../config/schema.ts";
import { GatewayError, toGatewayError } from "../../errors.ts";
import type { Credentials } from "../credentials/credentials.ts";
import type { RateLimit } from "../limits/rate-limit.ts";
import { Opening } from "../wire/connections.ts";
import { connectionFailure, ProofFailed } from "../wire/connection-failure.ts";
import { answerTimeout, connectTimeout, consequences, unusable } from "../failure.ts";
import type { Failure, FailureReason } from "../failure.ts";
import type { Connection, ConnectionTarget } from "../wire/connection.ts";
import { askAdmin, isPartyId } from "./node-check.ts";
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
  private learned: string | undefined;
  private contradiction: string | undefined;
  private readonly closing = new AbortController();
  private hasStarted = false;
  private hasStopped = false;

  constructor(parts: NodesParts) {
    this.parts = parts;
    const prove = (node: UpstreamNode, connection: Connection) => this.prove(node, connection);
    this.all = parts.config.urls.map((url, index) => new UpstreamNode(index, url, { ...parts, prove }));
    this.watches = this.all.map(() => new NodeWatch(parts.clock, parts.random));
  }

  /** The party id of the registry's admin: configured or learned. */
  get admin(): string | undefined {
    return this.parts.config.admin ?? this.learned;
  }

  /** Some node has proved the admin. */
  get hasProved(): boolean {
    for (const { state } of this.all) if (state === "up" || state === "ejected") return true;
    return false;
  }

  /** Why no request may be sent at all: nodes or upstreams contradict each other. */
  get disabledBecause(): string | undefined {
    return this.contradiction;
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
    if (old.contradiction !== undefined) return;
    this.learned = this.parts.config.admin ?? old.learned;
    for (const node of this.all) {
      const same = old.all.find(({ url }) => url === node.url);
      if (same?.admin === undefined || same.admin !== this.admin) continue;
      node.admin = same.admin;
      node.state = "up";
      node.connections.inherit(same.connections);
    }
    // Nodes that disappeared do not vouch for the admin they taught.
    if (!this.hasProved) this.learned = undefined;
  }

  /**
   * Resolves when a node has proved its admin.
   * @throws GatewayError that says why none has: 502, 503 or 504.
   */
  async whenProved(patience: Omit<Deadline, "late">): Promise<void> {
    this.throwIfDisabled();
    if (this.hasProved) return;
    const checks = this.all.map((node) => this.check(node, true));
    const late = () => answerTimeout(this.parts.config.name).error;
    try {
      await withDeadline(Promise.any(checks), { ...patience, late }, this.parts.clock);
    } catch (error) {
      const first: unknown = error instanceof AggregateError ? error.errors[0] : error;
      throw first instanceof ProofFailed ? first.failure.error : first;
    }
    this.throwIfDisabled();
  }

  /** What a call is told when no node may be asked. */
  whyNone(): GatewayError {
    const { config } = this.parts;
    if (this.contradiction === undefined) {
      const why = this.all.find(({ state }) => state === "wrong-admin")?.lastError ?? "none has told its admin";
      return unusable(config.name, `has no node that may be asked: ${why}`, "wrong_admin");
    }
    return new GatewayError("upstream_disabled", `upstream "${config.name}" is disabled: ${this.contradiction}`, {
      retryAfter: 5,
    });
  }

  private throwIfDisabled(): void {
    if (this.contradiction !== undefined) throw this.whyNone();
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

  /** Finds out anew whether nodes or upstreams contradict each other. */
  reconsider(): void {
    const { admin } = this;
    if (admin !== undefined) this.contradiction = this.findContradiction(admin);
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
    const patience = Math.min(config.attemptTimeout, config.timeout);
    const asked = this.all.filter(({ state }) => state === "up" || state === "ejected");
    const late = () => answerTimeout(config.name).error;
    try {
      const deadline = clock.now() + patience;
      for (const _ of asked) await rateLimit?.take({ operation: "info", priority: "post", deadline, signal });
    } catch {
      return undefined;
    }
    const checks = asked.map((node) => this.share(node, () => this.ask(node)));
    try {
      await withDeadline(Promise.any(checks), { deadline: clock.now() + patience, signal, late }, clock);
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
      await this.pay(isWaitedFor, this.deadlineOf(node));
      await this.ask(node);
    });
  }

  private share(node: UpstreamNode, begin: () => Promise<void>): Promise<void> {
    return this.watchOf(node).share(() => begin().finally(() => this.schedule(node)));
  }

  private checkInBackground(node: UpstreamNode): void {
    // Whatever came of it was noted, and the next check is scheduled.
    this.check(node, false).catch(() => undefined);
  }

  /** Asks a node over a new connection, with a call that was paid for. */
  private async ask(node: UpstreamNode): Promise<void> {
    const { clock, config } = this.parts;
    const deadline = this.deadlineOf(node);
    const opening = new Opening();
    const stop = () => opening.cancel();
    let isLate = false;
    const cancelTimer = clock.after(deadline - clock.now(), () => {
      isLate = true;
      stop();
    });
    this.closing.signal.addEventListener("abort", stop);
    try {
      await node.connections.check(opening, (connection) => this.question(node, connection, deadline));
    } catch (error) {
      if (error instanceof ProofFailed) throw error;
      throw this.noteFailure(node, isLate ? connectTimeout(config.name) : connectionFailure(config.name, error, false));
    } finally {
      cancelTimer();
      this.closing.signal.removeEventListener("abort", stop);
    }
  }

  /** A call may go over `connection` only when the node names the right admin there. */
  private async prove(node: UpstreamNode, connection: Connection): Promise<void> {
    const deadline = this.deadlineOf(node);
    try {
      await this.pay(true, deadline);
    } catch (error) {
      throw new ProofFailed({ reason: "http-429", error: toGatewayError(error) });
    }
    try {
      await this.question(node, connection, deadline);
    } finally {
      this.schedule(node);
    }
  }

  /** Asks a node over this connection, and notes what comes of it. */
  private async question(node: UpstreamNode, connection: Connection, deadline: Instant): Promise<void> {
    const { config } = this.parts;
    let admin: string;
    try {
      admin = await askAdmin(node, connection, {
        ...this.parts,
        upstream: config.name,
        deadline,
        signal: this.closing.signal,
      });
      if (this.admin === undefined && !isPartyId(admin)) {
        const error = unusable(config.name, `names the admin ${quote(admin)} in its info, which is no party id`);
        throw new ProofFailed({ reason: "unproved", error });
      }
    } catch (error) {
      throw this.noteFailure(node, connectionFailure(config.name, error, false));
    }
    try {
      this.hear(node, admin);
      this.throwIfDisabled();
    } catch (error) {
      throw new ProofFailed({ reason: "wrong-admin", error: toGatewayError(error) });
    }
  }

  private deadlineOf(node: UpstreamNode): Instant {
    const { config, clock } = this.parts;
    const usual = this.all.length === 1 ? config.timeout : Math.min(config.attemptTimeout, config.timeout);
    return clock.now() + this.watchOf(node).timeout(node.state, usual);
  }

  /** @throws GatewayError 429 when there is no call left for a check. */
  private async pay(isWaitedFor: boolean, deadline: Instant): Promise<void> {
    const { rateLimit, config } = this.parts;
    if (rateLimit === undefined) return;
    if (isWaitedFor) return rateLimit.take({ operation: "info", priority: "post", deadline });
    if (await rateLimit.tryTake("info", "refresh")) return;
    throw new GatewayError("too_many_requests", `no call is left of rateLimit to check upstream "${config.name}"`, {
      retryAfter: 1,
    });
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
    const expected = this.admin ?? admin;
    node.admin = admin;
    this.learned = expected;
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

  private findContradiction(expected: string): string | undefined {
    const { config, claim } = this.parts;
    const other = claim(expected);
    if (other !== undefined) return other;
    if (config.admin !== undefined) return undefined;
    const odd = this.all.find(({ admin }) => admin !== undefined && admin !== expected);
    if (odd === undefined) return undefined;
    return `its nodes name different admins, ${quote(expected)} and ${quote(odd.admin!)}; set admin or correct urls`;
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

/** An admin as it came from a registry: shortened, and without what could act on a terminal. */
function quote(admin: string): string {
  return JSON.stringify(admin.length > 200 ? `${admin.slice(0, 200)}…` : admin);
}
