import type { UpstreamConfig } from "../../config/schema.ts";
import { GatewayError } from "../../errors.ts";
import { type Failure, unusable } from "../failure.ts";
import type { UpstreamObserver } from "../observer.ts";
import type { NodeState } from "../status.ts";
import type { UpstreamNode } from "./node.ts";

export interface NodeStatesParts {
  readonly config: UpstreamConfig;
  readonly observer: UpstreamObserver;
  /** A node that took requests for the registry of `admin`, or that may be as right as those that did, is another. */
  readonly onImpostor: (node: UpstreamNode, admin: string) => void;
  /** A check ended, or a node was ejected; `isWell`: a node was found well. */
  readonly onCheck: (isWell: boolean) => void;
}

/** The states of the nodes of one upstream: what follows from what a node's info says, or from its failures. */
export class NodeStates {
  private readonly nodes: readonly UpstreamNode[];
  private readonly registry: RegistryAdmin;
  private readonly parts: NodeStatesParts;

  constructor(nodes: readonly UpstreamNode[], registry: RegistryAdmin, parts: NodeStatesParts) {
    this.nodes = nodes;
    this.registry = registry;
    this.parts = parts;
  }

  /**
   * The node named its admin.
   * @throws GatewayError 502 when it is not the one that is expected.
   */
  hear(node: UpstreamNode, admin: string): void {
    const { config, observer } = this.parts;
    const expected = this.registry.hear(admin);
    node.admin = admin;
    if (admin !== expected) this.refuse(node, { admin, expected });
    observer.check(config.name, node.url, "success");
    node.watch.noteTold();
    if (node.state !== "up") this.admit(node);
    this.registry.reconsider(this.nodes);
    this.parts.onCheck(true);
  }

  /** A check of the node failed. Returns whether the node was ejected for it. */
  noteFailure(node: UpstreamNode, failure: Failure): boolean {
    const { observer, config } = this.parts;
    const { watch } = node;
    const why = failure.error.message;
    observer.check(config.name, node.url, "failure");
    if (node.state === "unproved") node.lastError = why;
    if (node.state === "ejected" || node.state === "unproved") watch.noteFailure();
    // A proved node that fails a check need not have become another registry: it is out only if calls failed as well.
    const isEjected = node.state === "up" && watch.isSuspect && this.eject(node, why);
    if (node.state === "up") watch.noteDoubt();
    this.parts.onCheck(false);
    return isEjected;
  }

  /** Takes a node that is up out for a while, unless it is the last one that takes requests. Returns whether it is out. */
  eject(node: UpstreamNode, why: string): boolean {
    if (!node.isCordoned && countOpen(this.nodes) === 1) return false;
    node.watch.noteEjected();
    node.ejections += 1;
    node.lastError = why;
    this.change(node, "ejected", why);
    this.parts.onCheck(false);
    return true;
  }

  private refuse(node: UpstreamNode, { admin, expected }: { admin: string; expected: string }): never {
    const { config, observer, onImpostor } = this.parts;
    const why = `its info names the admin ${quote(admin)} and not ${quote(expected)}`;
    const from = node.state;
    node.lastError = why;
    node.watch.noteFailure();
    observer.check(config.name, node.url, "failure");
    observer.adminMismatch(config.name, node.url, { expected, told: admin, isNew: from !== "wrong-admin" });
    this.change(node, "wrong-admin", why);
    node.connections.disown();
    // Without a configured admin nothing says which of the two is right.
    const tookCalls = from === "up" || from === "ejected" || (from === "unproved" && config.admin === undefined);
    if (tookCalls) onImpostor(node, expected);
    this.registry.reconsider(this.nodes);
    this.parts.onCheck(false);
    throw unusable(
      config.name,
      `serves another registry than configured: ${why}; tell the gateway's operator`,
      "wrong_admin",
    );
  }

  private admit(node: UpstreamNode): void {
    if (node.state === "ejected") node.readmit();
    node.watch.noteUp(node.state);
    if (!hasProved(this.nodes)) this.parts.observer.adminProved(this.parts.config.name, node.admin!);
    this.change(node, "up", "its info names the right admin");
  }

  private change(node: UpstreamNode, to: NodeState, why: string): void {
    const from = node.state;
    if (from === to) return;
    node.state = to;
    this.parts.observer.nodeState(this.parts.config.name, node.url, { from, to, why });
  }
}

/** Some node has proved the admin. */
export function hasProved(nodes: readonly UpstreamNode[]): boolean {
  for (const { state } of nodes) if (state === "up" || state === "ejected") return true;
  return false;
}

/** How many nodes take calls: they are well, and not cordoned. */
export function countOpen(nodes: readonly UpstreamNode[]): number {
  let count = 0;
  for (const { isOpen } of nodes) if (isOpen) count += 1;
  return count;
}

/** How many nodes are well. */
export function countUp(nodes: readonly UpstreamNode[]): number {
  let count = 0;
  for (const { state } of nodes) if (state === "up") count += 1;
  return count;
}

/** The admin of an upstream's registry: configured, or learned from nodes, which must not contradict each other. */
export class RegistryAdmin {
  private readonly config: UpstreamConfig;
  private readonly claim: (admin: string) => string | undefined;
  private learned: string | undefined;
  private contradiction: string | undefined;

  /** `claim` says why this upstream may not have an admin, if it may not. */
  constructor(config: UpstreamConfig, claim: (admin: string) => string | undefined) {
    this.config = config;
    this.claim = claim;
  }

  /** Its party id; undefined before a node has told it. */
  get id(): string | undefined {
    return this.config.admin ?? this.learned;
  }

  /** Why no request may be sent at all: nodes or upstreams contradict each other. */
  get contradictedBecause(): string | undefined {
    return this.contradiction;
  }

  /** Takes over what was learned under an earlier configuration. */
  inherit(old: RegistryAdmin): void {
    this.learned = this.config.admin ?? old.learned;
  }

  /** None of the nodes vouches for it any more. */
  forget(): void {
    this.learned = undefined;
  }

  /** A node told this one. Returns the one that is expected. */
  hear(told: string): string {
    this.learned = this.id ?? told;
    return this.learned;
  }

  /** Finds out anew whether nodes or upstreams contradict each other. */
  reconsider(nodes: readonly UpstreamNode[]): void {
    const { id } = this;
    if (id !== undefined) this.contradiction = this.findContradiction(id, nodes);
  }

  /** What a call is told when none of these nodes may be asked. */
  whyNone(nodes: readonly UpstreamNode[]): GatewayError {
    const { name } = this.config;
    if (this.contradiction === undefined) {
      const why = nodes.find(({ state }) => state === "wrong-admin")?.lastError ?? "none has told its admin";
      return unusable(name, `has no node that may be asked: ${why}`, "wrong_admin");
    }
    const text = `upstream "${name}" is disabled: ${this.contradiction}`;
    return new GatewayError("upstream_disabled", text, { retryAfter: 5 });
  }

  private findContradiction(expected: string, nodes: readonly UpstreamNode[]): string | undefined {
    const other = this.claim(expected);
    if (other !== undefined) return other;
    if (this.config.admin !== undefined) return undefined;
    const odd = nodes.find(({ admin }) => admin !== undefined && admin !== expected);
    if (odd === undefined) return undefined;
    return `its nodes name different admins, ${quote(expected)} and ${quote(odd.admin!)}; set admin or correct urls`;
  }
}

/** Whether it has the form of a party id, which no alias has: a name, `::1220` and a fingerprint in hex (field.md). */
export function isPartyId(admin: string): boolean {
  return admin.length <= 255 && /^[\w:\- ]+::1220[0-9a-f]*$/i.test(admin);
}

/** An admin as it came from a registry: shortened, and without what could act on a terminal. */
export function quote(admin: string): string {
  return JSON.stringify(admin.length > 200 ? `${admin.slice(0, 200)}…` : admin);
}
