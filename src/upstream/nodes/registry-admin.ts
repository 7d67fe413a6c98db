import { quote } from "../../json.ts";
import type { UpstreamConfig } from "../../config/schema.ts";
import { GatewayError } from "../../errors.ts";
import { unusable } from "../failure.ts";
import type { UpstreamObserver } from "../observer.ts";
import type { AgreementStatus } from "../status.ts";
import { type HealthEvent, isInUse } from "./health.ts";
import type { UpstreamNode } from "./node.ts";

/** When to come back, in seconds: no node that is waited for is asked more rarely. */
const COME_BACK = 5;
/** Admins that a text names; a registry has one. */
const MOST_NAMED = 3;

export interface RegistryAdminParts {
  readonly config: UpstreamConfig;
  readonly observer: UpstreamObserver;
  /** Why this upstream may not have `admin`, if it may not. */
  readonly claim: (admin: string) => string | undefined;
  /** The node is now as this event leaves it; `why` for operators. */
  readonly note: (node: UpstreamNode, event: HealthEvent, why: string) => void;
  /**
   * A node is another registry. With `admin`: it took requests for the registry of that admin, or may be as right as those
   * that did, so that nothing stored of that registry may be used.
   */
  readonly onImpostor: (node: UpstreamNode, admin: string | undefined) => void;
}

/**
 * The admin of an upstream's registry: configured, or learned from nodes, which must not contradict each other. Where
 * `agreement.admin` asks for several nodes, it is the admin that so many of them name. What a node's info names makes the node,
 * and maybe others, proved, or another registry's.
 */
export class RegistryAdmin {
  /** Its party id: configured or learned; undefined before so many nodes have named it as have to agree. */
  id: string | undefined;
  /** Why no request may be sent at all: nodes or upstreams contradict each other. For operators: it may name other upstreams. */
  contradiction: string | undefined;
  private isAnothers = false;
  private readonly parts: RegistryAdminParts;
  private readonly config: UpstreamConfig;
  private readonly nodes: readonly UpstreamNode[];

  constructor(nodes: readonly UpstreamNode[], parts: RegistryAdminParts) {
    this.nodes = nodes;
    this.parts = parts;
    this.config = parts.config;
    this.id = parts.config.admin;
  }

  /** Takes over what was learned under an earlier configuration, as far as nodes that are left vouch for it. */
  inherit(old: RegistryAdmin): void {
    this.id = this.config.admin ?? old.id;
  }

  /** The nodes are those that were taken over: more have to agree now, or some that did are gone. */
  reviewInherited(): void {
    if (!this.isAgreed) this.withdraw();
    if (!this.nodes.some(hasProved)) this.id = this.config.admin;
  }

  /**
   * The info of `node` named `admin`. Where several have to agree, all that name it are used as soon as there are enough.
   * @throws GatewayError 502 when it is not the one that is expected; 503 while too few nodes name it.
   */
  named(node: UpstreamNode, admin: string): void {
    const { note, observer } = this.parts;
    node.info.admin = admin;
    const expected = this.learn();
    const isOther = expected !== undefined && admin !== expected;
    observer.check(this.config.name, node.url, isOther ? "failure" : "success");
    if (isOther) throw this.refuse(node, admin, expected);
    if (expected === undefined || !this.isAgreed) {
      note(node, "awaited", this.sayAwaited(node));
      this.reconsider();
      throw this.whyNone();
    }
    note(node, "proved", "its info names the right admin");
    this.settle(expected);
    this.reconsider();
  }

  /** Finds out anew whether nodes or upstreams contradict each other. */
  reconsider(): void {
    const other = this.id === undefined ? undefined : this.parts.claim(this.id);
    this.isAnothers = other !== undefined;
    this.contradiction = other ?? this.findContradiction();
  }

  private learn(): string | undefined {
    if (this.id === undefined) {
      const agreed = [...this.countNames()].filter(([, count]) => count >= this.config.agreement.admin);
      if (agreed.length === 1) this.id = agreed[0]![0];
    }
    return this.id;
  }

  /** Whether enough nodes name it. What a node said counts until it says something else. */
  private get isAgreed(): boolean {
    return this.id !== undefined && this.isNamedEnough(this.id);
  }

  private isNamedEnough(admin: string): boolean {
    return (this.countNames().get(admin) ?? 0) >= this.config.agreement.admin;
  }

  private refuse(node: UpstreamNode, admin: string, expected: string): GatewayError {
    const { onImpostor } = this.parts;
    const { state } = node;
    const wasDisabled = this.contradiction !== undefined;
    this.markOther(node, expected);
    if (!this.isAgreed) this.withdraw();
    // Without a configured admin nothing says which of the two is right, once enough nodes name the other one.
    const isRival = this.config.admin === undefined && this.isNamedEnough(admin);
    const tookCalls = state === "up" || state === "ejected" || (isRival && (state === "unproved" || !wasDisabled));
    if (tookCalls) onImpostor(node, expected);
    // Other processes may count on its word.
    else if (this.config.agreement.admin > 1 && state !== "wrong-admin") onImpostor(node, undefined);
    this.reconsider();
    const text = `serves another registry than configured: ${node.lastError}; report it to the gateway's operator`;
    return unusable(this.config.name, text, "wrong_admin");
  }

  private markOther(node: UpstreamNode, expected: string): void {
    const { note, observer } = this.parts;
    const named = node.admin!;
    observer.adminMismatch(this.config.name, node.url, { expected, named, isNew: node.state !== "wrong-admin" });
    note(node, "other-admin", `its info names the admin ${quote(named)} and not ${quote(expected)}`);
    node.connections.disown();
  }

  /** Too few nodes name the admin any more: those that do get no calls before others do again. */
  private withdraw(): void {
    for (const node of this.nodes) if (hasProved(node)) this.parts.note(node, "awaited", this.sayAwaited(node));
  }

  /** Enough nodes name `expected`: what the others said before is right or wrong by that. */
  private settle(expected: string): void {
    for (const node of this.nodes.filter(isWaiting)) {
      if (node.admin === expected) this.parts.note(node, "proved", "its info names the right admin");
      else {
        this.markOther(node, expected);
        this.parts.onImpostor(node, undefined);
      }
    }
  }

  private sayAwaited(node: UpstreamNode): string {
    return `its info names the admin ${quote(node.admin!)}, and ${this.config.agreement.admin} nodes have to name the same one`;
  }

  /** What a call gets when none of these nodes may be asked. */
  whyNone(): GatewayError {
    const { nodes } = this;
    const { name, agreement } = this.config;
    if (this.contradiction !== undefined) {
      const why = this.isAnothers ? "another upstream has its admin" : this.contradiction;
      const text = `upstream "${name}" is disabled: ${why}`;
      return new GatewayError("upstream_disabled", text, { retryAfter: COME_BACK });
    }
    if (agreement.admin > 1 && nodes.some(isWaiting)) {
      const text = `upstream "${name}" is not used yet: ${this.sayCounts()}; try again in ${COME_BACK} s`;
      return new GatewayError("agreement_missing", text, { retryAfter: COME_BACK });
    }
    const other = nodes.find(({ state }) => state === "wrong-admin")?.lastError;
    const why =
      other === undefined ? "none has named its admin" : `it serves another registry than configured: ${other}`;
    return unusable(name, `has no node that may be asked: ${why}`, "wrong_admin");
  }

  /** For `/status`; undefined where one node is enough. */
  status(): AgreementStatus | undefined {
    const { admin: needed } = this.config.agreement;
    if (needed === 1) return undefined;
    const agreeing = this.countMost(this.countNames());
    return { needed, agreeing, isReached: agreeing >= needed && this.contradiction === undefined };
  }

  /** Among its own nodes. */
  private findContradiction(): string | undefined {
    const { id } = this;
    const {
      admin: configured,
      agreement: { admin: needed },
    } = this.config;
    const counts = this.countNames();
    if (configured === undefined) {
      const rivals = [...counts].filter(([admin, count]) => admin !== id && count >= needed).map(([admin]) => admin);
      const [one, another] = id === undefined ? rivals : [id, ...rivals];
      if (one !== undefined && another !== undefined) {
        return `its nodes name different admins, ${quote(one)} and ${quote(another)}; set admin or correct urls`;
      }
    }
    if (needed === 1) return undefined;
    const most = this.countMost(counts);
    const silent = this.nodes.filter(({ admin }) => admin === undefined).length;
    if (most === 0 || most + silent >= needed) return undefined;
    return `${this.sayCounts()}; correct urls or agree`;
  }

  /** How many name the admin that is expected; while none is, the one that most of them name. */
  private countMost(counts: ReadonlyMap<string, number>): number {
    return this.id === undefined ? Math.max(0, ...counts.values()) : (counts.get(this.id) ?? 0);
  }

  private sayCounts(): string {
    const counts = [...this.countNames()].toSorted(([, one], [, other]) => other - one);
    const named = counts.slice(0, MOST_NAMED).map(([admin, count]) => `${count} named ${quote(admin)}`);
    const silent = this.nodes.filter(({ admin }) => admin === undefined).length;
    const parts = [...named, ...(silent === 0 ? [] : [`${silent} did not say yet`])];
    const wanted = this.config.admin === undefined ? "the same admin" : `the admin ${quote(this.config.admin)}`;
    return `${this.config.agreement.admin} of its nodes have to name ${wanted} (agreement.admin), and of ${this.nodes.length} ${parts.join(", ")}`;
  }

  /** How many nodes name each admin. */
  private countNames(): ReadonlyMap<string, number> {
    const counts = new Map<string, number>();
    for (const { admin } of this.nodes) if (admin !== undefined) counts.set(admin, (counts.get(admin) ?? 0) + 1);
    return counts;
  }
}

/** It has proved the admin. */
export function hasProved({ health }: UpstreamNode): boolean {
  return isInUse(health) || health.state === "ejected";
}

/** It named an admin and gets no calls: more nodes have to name the same. */
export function isWaiting({ state, admin }: UpstreamNode): boolean {
  return state === "unproved" && admin !== undefined;
}

/** Whether it has the form of a party id, which no alias has: a name, `::1220` and a fingerprint in hex (field.md). */
export function isPartyId(admin: string): boolean {
  return admin.length <= 255 && /^[\w:\- ]+::1220[0-9a-f]*$/i.test(admin);
}
