import { isDeepStrictEqual } from "node:util";
import type { AbortSignalLike, Instant } from "../clock.ts";
import { firstEnds } from "../config/certificates.ts";
import type { UpstreamConfig } from "../config/schema.ts";
import type { GatewayError } from "../errors.ts";
import type { CollectedAnswer, StreamedAnswer, StreamedCall, UpstreamAnswer, UpstreamCall } from "./call.ts";
import { collectCall } from "./call/collected-call.ts";
import { streamCall } from "./call/streamed-call.ts";
import {
  credentialLooks,
  type CredentialParts,
  openCredentials,
  type OwnCredentials,
} from "./credentials/credentials.ts";
import { removed } from "./failure.ts";
import { RateLimitGroups } from "../limits/counted-calls.ts";
import type { UpstreamNode } from "./nodes/node.ts";
import { CREDENTIAL_KEYS, type CredentialKey } from "./observer.ts";
import { createParts, impostorAt, type UpstreamEnvironment, type UpstreamLimits, type UpstreamParts } from "./parts.ts";
import { SeveralNodes } from "./several-nodes.ts";
import type { UpstreamState, UpstreamStatus } from "./status.ts";
import type { AdminClaims } from "./upstreams.ts";

/** An upstream among others. */
export interface UpstreamRelations {
  /** Which of them has which admin. */
  readonly claims?: AdminClaims;
  /** Which of them share a rate limit. */
  readonly groups?: RateLimitGroups;
  /** What this upstream was before its configuration changed: the proofs of nodes it still has are taken over. */
  readonly old?: Upstream | undefined;
}

/** One configured registry: calls to it go to the node that is likely to answer soonest. */
export class Upstream {
  readonly config: UpstreamConfig;
  private readonly environment: UpstreamEnvironment;
  private readonly own: OwnCredentials;
  /** Why what a key names is no good, as last seen. */
  private readonly credentialFaults = new Map<CredentialKey, string | undefined>();
  private readonly onLook: CredentialParts["onLook"];
  private readonly claims: AdminClaims | undefined;
  private readonly parts: UpstreamParts;
  private readonly several: SeveralNodes;
  private lastState: UpstreamState = "unproved";
  /** `retired`: it is being closed, and takes calls only of requests that began with it. */
  private life: "open" | "retired" | "closed" = "open";
  private running = 0;
  private onIdle: (() => void) | undefined;

  constructor(config: UpstreamConfig, environment: UpstreamEnvironment, relations: UpstreamRelations = {}) {
    const { claims, groups = new RateLimitGroups(), old } = relations;
    this.config = config;
    this.environment = environment;
    const { clock, files, observer } = environment;
    const look = credentialLooks(clock);
    this.onLook = (key, fault) => {
      // What an earlier configuration names is still in use by requests that began with it, and no fault of this one.
      if (this.life !== "open") return;
      this.credentialFaults.set(key, fault);
      observer.credential(config.name, key, look(key, fault));
    };
    // What an earlier configuration named may not be named any more.
    if (old !== undefined) this.sayCredentials();
    this.own = openCredentials({ config, files, onLook: this.onLook, previous: old?.own });
    this.claims = claims;
    this.parts = createParts(config, environment, {
      own: this.own,
      groups,
      // What nodes of an earlier configuration still say must not take an admin from who has it now.
      claim: (admin) => (this.life !== "open" ? undefined : claims?.claim(admin, config.name)),
      onChange: () => this.noteState(),
    });
    this.several = new SeveralNodes(this.parts);
    if (old !== undefined) this.parts.nodes.adopt(old.parts.nodes);
    this.followActions();
  }

  get name(): string {
    return this.config.name;
  }

  /** The party id of the registry's admin: configured, or learned from a node. */
  get admin(): string | undefined {
    return this.parts.nodes.admin;
  }

  /** Nothing is asked of it: another upstream has its admin, or nodes name different ones. */
  get isDisabled(): boolean {
    return this.parts.nodes.disabledBecause !== undefined;
  }

  /** As clients may know it: that of a disabled one may be another registry's. */
  get usableAdmin(): string | undefined {
    return this.isDisabled ? undefined : this.admin;
  }

  /** What a request for it gets while none of its nodes may be asked. */
  whyNone(): GatewayError {
    return this.parts.nodes.whyNone();
  }

  /** A node has proved the admin and nothing contradicts it. */
  get isProved(): boolean {
    return this.parts.nodes.hasProved && !this.isDisabled;
  }

  get state(): UpstreamState {
    const { nodes, breaker } = this.parts;
    if (this.isDisabled) return "disabled";
    if (!nodes.hasProved) {
      const isWrong = nodes.all.some(({ state }) => state === "wrong-admin") && !nodes.isAgreementAwaited;
      return isWrong ? "wrong-admin" : "unproved";
    }
    if (breaker.state !== "closed") return "failing";
    return nodes.all.every(({ state }) => state === "up") ? "up" : "degraded";
  }

  /** A credential that is configured was never any good: calls fail until it is. */
  get lacksCredentials(): boolean {
    return this.own.isLacking;
  }

  /** Says of each credential how it is, whatever was said of it by another configuration. */
  sayCredentials(): void {
    for (const key of CREDENTIAL_KEYS) this.onLook(key, this.credentialFaults.get(key));
  }

  /** Begins to prove the nodes in the background and keeps checking them. */
  start(): void {
    this.parts.nodes.start();
  }

  /**
   * Refuses new calls, lets those that run end (each has its deadline), then closes all connections. With `users`,
   * requests that began with this upstream and may still call it, it refuses none before they are over.
   */
  async close(users?: Promise<unknown>): Promise<void> {
    this.life = "retired";
    this.parts.nodes.stopChecks();
    this.parts.breaker.stop();
    this.parts.passThroughBreaker.stop();
    if (users !== undefined) await users;
    this.life = "closed";
    if (this.running > 0) {
      await new Promise<void>((resolve) => {
        this.onIdle = resolve;
      });
    }
    this.parts.nodes.close();
    this.parts.credentials?.close();
    this.own.close();
  }

  /** Whether this upstream would be the same with another configuration. */
  isSameAs(config: UpstreamConfig, limits: UpstreamLimits): boolean {
    return isDeepStrictEqual(this.config, config) && isDeepStrictEqual(this.environment.limits, limits);
  }

  /** Another upstream was removed or named its admin: finds out anew whether two have the same. */
  reconsider(): void {
    this.parts.nodes.reconsider();
    this.noteState();
  }

  /** What operators did may be another now: takes it from the coordinator. */
  followActions(): void {
    const { operatorActions, nodes, choice } = this.parts;
    operatorActions.followActions();
    nodes.followOrders();
    choice.reweigh();
  }

  /** The place of the node at this URL in the configuration; -1 where there is none. */
  nodeIndex(url: string): number {
    return this.parts.nodes.all.findIndex((node) => node.url === url);
  }

  /** What a call would get now because an operator lets nothing be asked of the registry; undefined: nothing. */
  refusal(): GatewayError | undefined {
    const { operatorActions } = this.parts;
    return operatorActions.isCacheOnly ? operatorActions.refusal() : undefined;
  }

  /** See `Upstreams.receive`. */
  receive(event: string | undefined): void {
    const { nodes, rateLimit } = this.parts;
    if (event === undefined) return nodes.checkAll();
    rateLimit?.receive(event);
    for (const node of nodes.all) {
      if (node.state !== "wrong-admin" && event === impostorAt(node.url)) nodes.doubt(node);
    }
  }

  /**
   * The admin, as soon as a node has proved it; asks unproved nodes at once.
   * @throws {@link GatewayError} 502, 503 or 504 that says why none has.
   */
  async learnAdmin(deadline: Instant, signal?: AbortSignalLike): Promise<string> {
    await this.parts.nodes.whenProved({ deadline, signal });
    return this.admin!;
  }

  /**
   * The upstream's answer, retried, failed over and hedged as configured.
   * @throws {@link GatewayError} 429, 502, 503 or 504; ClientGone when `signal` aborts.
   */
  async call(call: UpstreamCall): Promise<UpstreamAnswer> {
    this.throwIfRefused();
    this.running += 1;
    try {
      return await this.several.call(call);
    } finally {
      this.noteSettled();
    }
  }

  /**
   * The upstream's answer as a stream: one attempt, status and body as they come.
   * @throws as {@link call}, and 413 when the request body is too large.
   */
  stream(call: StreamedCall): Promise<StreamedAnswer> {
    return this.streamBy(streamCall, call);
  }

  /**
   * The same with the whole answer at once.
   * @throws as {@link stream}, and 502 where the answer breaks off.
   */
  collect(call: StreamedCall): Promise<CollectedAnswer> {
    return this.streamBy(collectCall, call);
  }

  status(): UpstreamStatus {
    const { nodes, operatorActions, breaker, passThroughBreaker, concurrency, rateLimit, retries } = this.parts;
    const limit = this.config.rateLimit;
    return {
      name: this.name,
      admin: this.admin,
      state: this.state,
      mode: operatorActions.isCacheOnly ? "cache-only" : "normal",
      agreement: nodes.agreement(),
      lastDifference: this.several.lastDifference,
      isContested: this.admin !== undefined && this.claims?.isContested(this.admin) === true,
      lastError: nodes.disabledBecause ?? this.findLastError(),
      breaker: breaker.state,
      passThroughBreaker: passThroughBreaker.state,
      budgetLeft: rateLimit?.left,
      budget: limit === undefined ? undefined : { requests: limit.requests, perMs: limit.per },
      rateLimitGroup: this.config.rateLimit?.group,
      running: concurrency.running,
      queued: concurrency.queued + (rateLimit?.queued ?? 0),
      retriesLeft: Math.floor(retries.left),
      certificates: firstEnds([this.own.certificates(), ...nodes.all.map((node) => node.certificates())]),
      nodes: nodes.all.map((node) => node.status()),
    };
  }

  private async streamBy<Answer>(
    run: (parts: UpstreamParts, call: StreamedCall) => Promise<Answer>,
    call: StreamedCall,
  ): Promise<Answer> {
    this.throwIfRefused();
    this.running += 1;
    try {
      return await run(this.parts, call);
    } finally {
      this.noteSettled();
    }
  }

  /** @throws GatewayError when no call may begin at all */
  private throwIfRefused(): void {
    const { life, parts } = this;
    if (life === "closed") throw removed(this.name);
    if (!parts.operatorActions.isCacheOnly) return;
    this.environment.observer.refused(this.name, "cache-only");
    throw parts.operatorActions.refusal();
  }

  private noteSettled(): void {
    this.running -= 1;
    if (this.running === 0) this.onIdle?.();
  }

  /** Why a node is not up or in trouble, or, when the breaker is open, why calls failed. */
  private findLastError(): string | undefined {
    const { nodes, breaker } = this.parts;
    const isBroken = breaker.state !== "closed";
    const isUnwell = ({ state, isInTrouble }: UpstreamNode) => isBroken || state !== "up" || isInTrouble;
    return nodes.all.find((node) => isUnwell(node) && node.lastError !== undefined)?.lastError;
  }

  private noteState(): void {
    const { state, lastState } = this;
    if (state === lastState) return;
    // At a start one node is proved before the others have been asked: that is no trouble.
    if (lastState === "unproved" && state === "degraded" && this.parts.nodes.all.some(isUnasked)) return;
    this.lastState = state;
    const { lastError } = this.status();
    this.environment.observer.upstreamState(this.name, { from: lastState, to: state, why: lastError ?? "" });
  }
}

function isUnasked({ state, lastError }: UpstreamNode): boolean {
  return state === "unproved" && lastError === undefined;
}
