import type { UpstreamConfig } from "../../config/schema.ts";
import { type Failure, unusable } from "../failure.ts";
import type { UpstreamObserver } from "../observer.ts";
import type { NodeState } from "../status.ts";
import type { UpstreamNode } from "./node.ts";
import { quote, type RegistryAdmin } from "./registry-admin.ts";

export interface NodeStatesParts {
  readonly config: UpstreamConfig;
  readonly observer: UpstreamObserver;
  /**
   * A node is another registry. With `admin`: it took requests for the registry of that admin, or may be as right as those
   * that did, so that nothing stored of that registry may be used.
   */
  readonly onImpostor: (node: UpstreamNode, admin: string | undefined) => void;
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
   * The node named its admin. Where `agree` asks for several, all that name it are used as soon as there are so many.
   * @throws GatewayError 502 when it is not the one that is expected; 503 while too few nodes name it.
   */
  hear(node: UpstreamNode, admin: string): void {
    const { config, observer } = this.parts;
    node.admin = admin;
    const expected = this.registry.learn(this.nodes);
    if (expected !== undefined && admin !== expected) this.refuse(node, { admin, expected });
    observer.check(config.name, node.url, "success");
    node.noteProved();
    node.watch.noteTold();
    if (expected === undefined || !this.registry.isAgreed(this.nodes)) this.wait(node);
    if (node.state !== "up") this.admit(node);
    this.settle(expected);
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
    if (node.state === "up") {
      node.noteFailedCheck(failure);
      watch.noteDoubt();
    }
    this.parts.onCheck(false);
    return isEjected;
  }

  /**
   * Takes a node that is up out for a while, unless it is the last one that takes requests. Returns whether it is out.
   * `error`: that of its last failure, which operators are told as well.
   */
  eject(node: UpstreamNode, why: string, error?: string): boolean {
    if (!node.isCordoned && countOpen(this.nodes) === 1) return false;
    node.watch.noteEjected();
    node.ejections += 1;
    node.lastError = error === undefined ? why : `${why}: ${error}`;
    this.change(node, "ejected", why);
    this.parts.onCheck(false);
    return true;
  }

  private refuse(node: UpstreamNode, { admin, expected }: { admin: string; expected: string }): never {
    const { config, observer, onImpostor } = this.parts;
    const { registry, nodes } = this;
    const from = node.state;
    const wasDisabled = registry.contradiction !== undefined;
    observer.check(config.name, node.url, "failure");
    if (from === "wrong-admin") node.watch.noteStillTurned();
    else if (node.provedAt !== undefined) node.watch.noteTurned();
    this.markWrong(node, expected);
    if (!registry.isAgreed(nodes)) this.withdraw();
    // Without a configured admin nothing says which of the two is right, once enough nodes name the other one.
    const isRival = config.admin === undefined && registry.isNamedEnough(admin, nodes);
    const tookCalls = from === "up" || from === "ejected" || (isRival && (from === "unproved" || !wasDisabled));
    if (tookCalls) onImpostor(node, expected);
    // Other processes may count on its word.
    else if (config.agree > 1 && from !== "wrong-admin") onImpostor(node, undefined);
    registry.reconsider(nodes);
    this.parts.onCheck(false);
    throw unusable(
      config.name,
      `serves another registry than configured: ${node.lastError}; tell the gateway's operator`,
      "wrong_admin",
    );
  }

  private markWrong(node: UpstreamNode, expected: string): void {
    const { config, observer } = this.parts;
    const told = node.admin!;
    const what = `its info names the admin ${quote(told)} and not ${quote(expected)}`;
    const why = node.watch.awaitsOperator
      ? `${what}, again: it is asked no more before an operator sets it active`
      : what;
    node.lastError = why;
    node.watch.noteFailure();
    observer.adminMismatch(config.name, node.url, { expected, told, isNew: node.state !== "wrong-admin" });
    this.change(node, "wrong-admin", why);
    node.connections.disown();
  }

  /** The node named the right admin, or one that may be right, and more have to: it gets no calls before. */
  private wait(node: UpstreamNode): never {
    node.watch.noteFailure();
    this.hold(node);
    this.registry.reconsider(this.nodes);
    this.parts.onCheck(false);
    throw this.registry.whyNone(this.nodes);
  }

  /** Too few nodes name the admin any more: those that do get no calls before others do again. */
  withdraw(): void {
    for (const node of this.nodes) if (node.state === "up" || node.state === "ejected") this.hold(node);
  }

  private hold(node: UpstreamNode): void {
    const why = `its info names the admin ${quote(node.admin!)}, and ${this.parts.config.agree} nodes have to name the same one`;
    node.lastError = why;
    this.change(node, "unproved", why);
  }

  /** So many nodes name `expected` that it is the one: what the others said before is right or wrong by that. */
  private settle(expected: string): void {
    for (const node of this.nodes) {
      if (node.state !== "unproved" || node.admin === undefined) continue;
      if (node.admin === expected) this.admit(node);
      else {
        this.markWrong(node, expected);
        this.parts.onImpostor(node, undefined);
      }
    }
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
