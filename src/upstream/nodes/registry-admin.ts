import type { UpstreamConfig } from "../../config/schema.ts";
import { GatewayError } from "../../errors.ts";
import { unusable } from "../failure.ts";
import type { AgreementStatus } from "../status.ts";
import type { UpstreamNode } from "./node.ts";

/** When to come back, in seconds: no node that is waited for is asked more rarely. */
const COME_BACK = 5;
/** Admins that a text names; a registry has one. */
const MOST_NAMED = 3;

/**
 * The admin of an upstream's registry: configured, or learned from nodes, which must not contradict each other. Where
 * `agree` asks for several nodes, it is the admin that so many of them name.
 */
export class RegistryAdmin {
  /** Its party id: configured or learned; undefined before so many nodes have told it as have to agree. */
  id: string | undefined;
  /** Why no request may be sent at all: nodes or upstreams contradict each other. */
  contradiction: string | undefined;
  private readonly config: UpstreamConfig;
  private readonly claim: (admin: string) => string | undefined;

  /** `claim` says why this upstream may not have an admin, if it may not. */
  constructor(config: UpstreamConfig, claim: (admin: string) => string | undefined) {
    this.config = config;
    this.claim = claim;
    this.id = config.admin;
  }

  /** Takes over what was learned under an earlier configuration. */
  inherit(old: RegistryAdmin): void {
    this.id = this.config.admin ?? old.id;
  }

  /** None of the nodes vouches for it any more. */
  forget(): void {
    this.id = this.config.admin;
  }

  /** A node told its admin. Returns the one that is expected; undefined while too few nodes name the same one. */
  learn(nodes: readonly UpstreamNode[]): string | undefined {
    if (this.id === undefined) {
      const agreed = [...countNames(nodes)].filter(([, count]) => count >= this.config.agree);
      if (agreed.length === 1) this.id = agreed[0]![0];
    }
    return this.id;
  }

  /** Whether so many nodes name it that they may be used. What a node said counts until it says something else. */
  isAgreed(nodes: readonly UpstreamNode[]): boolean {
    return this.id !== undefined && this.isNamedEnough(this.id, nodes);
  }

  /** Whether so many nodes name `admin` as have to agree. */
  isNamedEnough(admin: string, nodes: readonly UpstreamNode[]): boolean {
    return (countNames(nodes).get(admin) ?? 0) >= this.config.agree;
  }

  /** Finds out anew whether nodes or upstreams contradict each other. */
  reconsider(nodes: readonly UpstreamNode[]): void {
    this.contradiction = this.findContradiction(nodes);
  }

  /** What a call is told when none of these nodes may be asked. */
  whyNone(nodes: readonly UpstreamNode[]): GatewayError {
    const { name, agree } = this.config;
    if (this.contradiction !== undefined) {
      const text = `upstream "${name}" is disabled: ${this.contradiction}`;
      return new GatewayError("upstream_disabled", text, { retryAfter: COME_BACK });
    }
    if (agree > 1 && nodes.some(isWaiting)) {
      const text = `upstream "${name}" is not used yet: ${this.sayCounts(nodes)}; try again in ${COME_BACK} s`;
      return new GatewayError("agreement_missing", text, { retryAfter: COME_BACK });
    }
    const why = nodes.find(({ state }) => state === "wrong-admin")?.lastError ?? "none has told its admin";
    return unusable(name, `has no node that may be asked: ${why}`, "wrong_admin");
  }

  /** For `/status`; undefined where one node is enough. */
  status(nodes: readonly UpstreamNode[]): AgreementStatus | undefined {
    const { agree } = this.config;
    if (agree === 1) return undefined;
    const agreeing = this.countMost(countNames(nodes));
    return { needed: agree, agreeing, isReached: agreeing >= agree && this.contradiction === undefined };
  }

  private findContradiction(nodes: readonly UpstreamNode[]): string | undefined {
    const { id } = this;
    const { admin: configured, agree } = this.config;
    const other = id === undefined ? undefined : this.claim(id);
    if (other !== undefined) return other;
    const counts = countNames(nodes);
    if (configured === undefined) {
      const rivals = [...counts].filter(([admin, count]) => admin !== id && count >= agree).map(([admin]) => admin);
      const [one, another] = id === undefined ? rivals : [id, ...rivals];
      if (one !== undefined && another !== undefined) {
        return `its nodes name different admins, ${quote(one)} and ${quote(another)}; set admin or correct urls`;
      }
    }
    if (agree === 1) return undefined;
    const most = this.countMost(counts);
    const silent = nodes.filter(({ admin }) => admin === undefined).length;
    if (most === 0 || most + silent >= agree) return undefined;
    return `${this.sayCounts(nodes)}; correct urls or agree`;
  }

  /** How many name the admin that is expected; while none is, the one that most of them name. */
  private countMost(counts: ReadonlyMap<string, number>): number {
    return this.id === undefined ? Math.max(0, ...counts.values()) : (counts.get(this.id) ?? 0);
  }

  private sayCounts(nodes: readonly UpstreamNode[]): string {
    const counts = [...countNames(nodes)].toSorted(([, one], [, other]) => other - one);
    const named = counts.slice(0, MOST_NAMED).map(([admin, count]) => `${count} named ${quote(admin)}`);
    const silent = nodes.filter(({ admin }) => admin === undefined).length;
    const parts = [...named, ...(silent === 0 ? [] : [`${silent} did not say yet`])];
    const wanted = this.config.admin === undefined ? "the same admin" : `the admin ${quote(this.config.admin)}`;
    return `${this.config.agree} of its nodes have to name ${wanted} (agree), and of ${nodes.length} ${parts.join(", ")}`;
  }
}

/** It named an admin and gets no calls: more nodes have to name the same. */
export function isWaiting({ state, admin }: UpstreamNode): boolean {
  return state === "unproved" && admin !== undefined;
}

/** How many nodes name each admin. */
function countNames(nodes: readonly UpstreamNode[]): ReadonlyMap<string, number> {
  const counts = new Map<string, number>();
  for (const { admin } of nodes) if (admin !== undefined) counts.set(admin, (counts.get(admin) ?? 0) + 1);
  return counts;
}

/** Whether it has the form of a party id, which no alias has: a name, `::1220` and a fingerprint in hex (field.md). */
export function isPartyId(admin: string): boolean {
  return admin.length <= 255 && /^[\w:\- ]+::1220[0-9a-f]*$/i.test(admin);
}

/** An admin as it came from a registry: shortened, and without what could act on a terminal. */
export function quote(admin: string): string {
  return JSON.stringify(admin.length > 200 ? `${admin.slice(0, 200)}…` : admin);
}
