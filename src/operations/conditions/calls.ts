import type { CallKind } from "../../observe/metrics/labels.ts";
import type { UpstreamStatus } from "../../upstream/status.ts";
import { sayCount, sayDuration } from "../../words/quantity.ts";
import { BOUNDS, type Facts } from "./condition.ts";

/** Calls of one kind to a registry in the last minutes. */
export function callsOf(name: string, recent: Facts["recent"], kind: CallKind) {
  return { kind, failed: recent.risen(`calls ${kind} failed ${name}`), all: recent.risen(`calls ${kind} ${name}`) };
}

/** As the alerts have it: most of the calls fail, of however few. */
export function nearlyAllFailed(
  { name }: UpstreamStatus,
  { recent }: Facts,
  { kind, what }: { readonly kind: CallKind; readonly what: string },
): string | undefined {
  const { failed, all } = callsOf(name, recent, kind);
  if (failed < BOUNDS.callsFail.least || failed / all <= BOUNDS.callsFail.share) return undefined;
  return `${name}: ${failed} of ${all} ${what} failed in the last ${sayDuration(recent.period)}`;
}

/**
 * No node takes requests, as the alert has it: one call that a half-open breaker lets through for a try is none. What is
 * disabled, serves another registry or is in cache-only mode is said by conditions and remarks of its own.
 */
export function isDown({ state, mode, breaker, nodes }: UpstreamStatus): boolean {
  if (state === "disabled" || state === "wrong-admin" || mode === "cache-only") return false;
  return breaker !== "closed" || nodes.every((node) => node.state !== "up");
}

export function sayDown({ state, breaker, nodes }: UpstreamStatus): string {
  if (breaker !== "closed") return `fails, its circuit breaker is ${breaker}`;
  if (state === "unproved") return "has not proved its admin yet";
  return nodes.length === 1 ? "has its only node out" : `has none of its ${sayCount(nodes.length, "node")} up`;
}

export function lastErrorOf({ lastError, nodes }: UpstreamStatus): string | undefined {
  return lastError ?? nodes.find((node) => node.lastError !== undefined)?.lastError;
}
