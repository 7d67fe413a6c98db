import type { UpstreamConfig } from "../../config/schema.ts";
import { GatewayError } from "../../errors.ts";
import { unusable } from "../failure.ts";
import type { UpstreamNode } from "./node.ts";

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
