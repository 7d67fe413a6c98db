import { type CertificateStatus, firstEnds } from "../config/certificates.ts";
import type { Explanation } from "../cache/explanation.ts";
import type { ActionReport } from "../operations/actions.ts";
import type { PathExplanation } from "../operations/explain.ts";
import type { BreakerState } from "../upstream/observer.ts";
import {
  type AgreementStatus,
  type NodeState,
  type NodeStatus,
  UPSTREAM_MODES,
  type UpstreamState,
  type UpstreamStatus,
} from "../upstream/status.ts";
import type { CachePart } from "../operations/status.ts";
import type { RedisPart } from "../coordination/coordination.ts";
import type { WorkerState } from "./protocol.ts";

/** Workers learn at different times: of two states in these lists the later one counts for all workers. */
const UPSTREAM_STATES: readonly UpstreamState[] = ["unproved", "up", "degraded", "failing", "wrong-admin", "disabled"];
const BREAKER_STATES: readonly BreakerState[] = ["closed", "half-open", "open"];
const NODE_STATES: readonly NodeState[] = ["unproved", "up", "ejected", "wrong-admin"];

/** How the upstreams are, of several workers' view. */
export function mergeUpstreams(states: readonly WorkerState[]): UpstreamStatus[] {
  const [first, ...others] = states.map(({ upstreams }) => upstreams);
  return (first ?? []).map((upstream) =>
    others.reduce((merged, each) => {
      const same = each.find(({ name }) => name === upstream.name);
      return same === undefined ? merged : mergeUpstream(merged, same);
    }, upstream),
  );
}

/** How things are with Redis: away as soon as it is away for one; leases of all together. */
export function mergeRedis(states: readonly WorkerState[]): RedisPart {
  const parts = states.flatMap(({ redis }) => (redis.configured ? [redis] : []));
  const part = parts.find(({ state }) => state === "away") ?? parts[0];
  if (part === undefined) return { configured: false };
  return {
    ...part,
    purgeLagMs: parts.map(({ purgeLagMs }) => purgeLagMs).reduce(greatest),
    leases: {
      held: sum(parts.map(({ leases }) => leases.held)),
      awaited: sum(parts.map(({ leases }) => leases.awaited)),
    },
  };
}

/** What has effect in any worker: all have the same, but for moments. */
export function mergeInForce(states: readonly WorkerState[]): ActionReport[] {
  const reports = states.flatMap(({ inForce }) => inForce);
  return [...new Map(reports.map((report) => [`${report.upstream} ${report.node}`, report])).values()];
}

/** When certificates end that are no upstream's: of workers that have read them at different times, the first end. */
export function mergeCertificates(states: readonly WorkerState[]): CertificateStatus[] {
  return firstEnds(states.map(({ certificates }) => certificates));
}

/** The memory of all workers together. */
export function mergeCache(states: readonly WorkerState[]): CachePart {
  const parts = states.map(({ cache }) => cache.memory);
  return {
    memory: {
      entries: sum(parts.map(({ entries }) => entries)),
      bytes: sum(parts.map(({ bytes }) => bytes)),
      maxBytes: sum(parts.map(({ maxBytes }) => maxBytes)),
    },
  };
}

/** What all workers have of a path: every entry says whose it is. */
export function mergeExplanations(explained: readonly (readonly [worker: number, PathExplanation])[]): PathExplanation {
  const [, first] = explained[0]!;
  if (first.explanation === undefined) return first;
  const explanations = explained.flatMap(([worker, { explanation }]) =>
    explanation === undefined ? [] : [[worker, explanation] as const],
  );
  const skips = explanations.flatMap(([, { lastSkip }]) => (lastSkip === undefined ? [] : [lastSkip]));
  const merged: Explanation = {
    ...first.explanation,
    entries: explanations.flatMap(([worker, { entries }]) => entries.map((entry) => ({ ...entry, worker }))),
    lastSkip: skips.sort((a, b) => a.ago - b.ago)[0],
    fetching: explanations.some(([, { fetching }]) => fetching),
  };
  return { ...first, explanation: merged };
}

function mergeUpstream(one: UpstreamStatus, other: UpstreamStatus): UpstreamStatus {
  const state = laterOf(UPSTREAM_STATES, one.state, other.state);
  return {
    name: one.name,
    admin: one.admin ?? other.admin,
    state,
    mode: laterOf(UPSTREAM_MODES, one.mode, other.mode),
    agreement: mergeAgreement(one.agreement, other.agreement),
    isContested: one.isContested || other.isContested,
    lastError: (other.state === state ? other.lastError : undefined) ?? one.lastError ?? other.lastError,
    breaker: laterOf(BREAKER_STATES, one.breaker, other.breaker),
    passThroughBreaker: laterOf(BREAKER_STATES, one.passThroughBreaker, other.passThroughBreaker),
    budgetLeft: least(one.budgetLeft, other.budgetLeft),
    budget: one.budget,
    rateLimitGroup: one.rateLimitGroup,
    running: one.running + other.running,
    queued: one.queued + other.queued,
    retriesLeft: one.retriesLeft + other.retriesLeft,
    certificates: firstEnds([one.certificates, other.certificates]),
    nodes: one.nodes.map((node) => {
      const same = other.nodes.find(({ url }) => url === node.url);
      return same === undefined ? node : mergeNode(node, same);
    }),
    divergences: [...one.divergences, ...other.divergences]
      .toSorted((each, next) => next.at.localeCompare(each.at))
      .slice(0, Math.max(one.divergences.length, other.divergences.length)),
  };
}

/** That of the worker which knows least of it: it refuses calls that others make. */
function mergeAgreement(
  one: AgreementStatus | undefined,
  other: AgreementStatus | undefined,
): AgreementStatus | undefined {
  if (one === undefined || other === undefined) return one ?? other;
  if (one.isReached !== other.isReached) return one.isReached ? other : one;
  return one.agreeing <= other.agreeing ? one : other;
}

function mergeNode(one: NodeStatus, other: NodeStatus): NodeStatus {
  return {
    url: one.url,
    state: laterOf(NODE_STATES, one.state, other.state),
    admin: one.admin ?? other.admin,
    lastError: one.lastError ?? other.lastError,
    // That of the worker where it is worst; an average of averages says less.
    latencyMs: greatest(one.latencyMs, other.latencyMs),
    inFlight: one.inFlight + other.inFlight,
    ejections: one.ejections + other.ejections,
    calls: one.calls + other.calls,
    // The process that has gone longest without a proof: none may rely on another's.
    provedAt: [one.provedAt, other.provedAt].includes(undefined) ? undefined : earlier(one.provedAt, other.provedAt),
    certificateExpiresAt: earlier(one.certificateExpiresAt, other.certificateExpiresAt),
    cordoned: one.cordoned || other.cordoned,
    weight: one.weight,
  };
}

function sum(values: readonly number[]): number {
  return values.reduce((total, value) => total + value, 0);
}

function laterOf<Value>(order: readonly Value[], one: Value, other: Value): Value {
  return order.indexOf(one) >= order.indexOf(other) ? one : other;
}

/** Of two times as text. */
function earlier(one: string | undefined, other: string | undefined): string | undefined {
  if (one === undefined || other === undefined) return one ?? other;
  return one < other ? one : other;
}

function least(one: number | undefined, other: number | undefined): number | undefined {
  return one === undefined || other === undefined ? (one ?? other) : Math.min(one, other);
}

function greatest(one: number | undefined, other: number | undefined): number | undefined {
  return one === undefined || other === undefined ? (one ?? other) : Math.max(one, other);
}
