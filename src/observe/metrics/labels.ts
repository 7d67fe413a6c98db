import { STATUS_CODES } from "node:http";
import type { CollapseScope, RefreshOutcome, SkipReason, StaleReason } from "../../cache/observer.ts";
import type { CacheOutcome, CacheTier } from "../../cache/resource.ts";
import type { PurgeReach } from "../../coordination/coordinator.ts";
import type { CommandOutcome } from "../../coordination/redis/observer.ts";
import { type ErrorCode, ERRORS } from "../../errors.ts";
import { type CachedOperation, OPERATIONS, type Operation } from "../../spec/endpoints.ts";
import type { FailureReason } from "../../upstream/call/failure.ts";
import { CREDENTIAL_KEYS } from "../../upstream/observer.ts";
import type { AttemptOutcome, BreakerState, CallOutcome, HedgeResult, Refusal } from "../../upstream/observer.ts";
import type { NodeState, UpstreamState } from "../../upstream/node/status.ts";

/** Stands for the names of the upstreams, which the configuration gives. */
export const ALIAS = "alias";

/** The same, and `none` for what was about no upstream or about several. */
export const ALIAS_OR_NONE = "alias or none";

/** Labels of a metric, each with every value it may have: that is what bounds the number of series. */
export type LabelSet = Readonly<Record<string, readonly string[] | typeof ALIAS | typeof ALIAS_OR_NONE>>;

/** Of a metric without labels. */
export type NoLabels = Readonly<Record<string, never>>;

/** The labels that have to be given, each with one of its values. */
export type LabelValues<Labels extends LabelSet> = {
  readonly [Name in keyof Labels]: Labels[Name] extends readonly (infer Value)[] ? Value : string;
};

/** All values of a union; one that is left out, or that does not exist, is a compile error. */
function allOf<Value extends string>(values: Readonly<Record<Value, true>>): readonly Value[] {
  return Object.keys(values) as Value[];
}

export const ERROR_CODE = Object.keys(ERRORS) as readonly ErrorCode[];

export type OperationLabel = Operation | "none";
export const OPERATION: readonly OperationLabel[] = [...OPERATIONS, "none"];

export const CACHED_OPERATION = allOf<CachedOperation>({ info: true, instruments: true, instrument: true });

export const CACHE_OUTCOME = allOf<CacheOutcome>({
  hit: true,
  stale: true,
  revalidated: true,
  miss: true,
  bypass: true,
});

/** `refused`: answered with an error of the gateway's own. */
export type OutcomeLabel = CacheOutcome | "refused";
export const OUTCOME: readonly OutcomeLabel[] = [...CACHE_OUTCOME, "refused"];

/** `gone`: the client went away before its answer. */
export type StatusClass = "1xx" | "2xx" | "3xx" | "4xx" | "5xx" | "gone";
export const STATUS_CLASS = allOf<StatusClass>({
  "1xx": true,
  "2xx": true,
  "3xx": true,
  "4xx": true,
  "5xx": true,
  gone: true,
});

/** The status of a request whose client went away before its answer, as nginx counts it. */
export const CLIENT_GONE = 499;

export function statusClassOf(status: number): StatusClass {
  if (status === CLIENT_GONE) return "gone";
  if (status < 200) return "1xx";
  if (status < 300) return "2xx";
  if (status < 400) return "3xx";
  return status < 500 ? "4xx" : "5xx";
}

/** Registered status codes; whatever else an upstream makes up is `other`. */
export const STATUS: readonly string[] = [...Object.keys(STATUS_CODES), String(CLIENT_GONE), "other"];

export function statusLabelOf(status: number): string {
  return status in STATUS_CODES || status === CLIENT_GONE ? String(status) : "other";
}

/**
 * Why the gateway closed a connection of a client: nothing was read on it, too much waited on all of them together, its
 * place was needed while it was idle, or it stayed open after a refusal.
 */
export type ClosingReason = "pipelined" | "unread" | "crowded" | "idle" | "refused";
export const CLOSING_REASON = allOf<ClosingReason>({
  pipelined: true,
  unread: true,
  crowded: true,
  idle: true,
  refused: true,
});

export const TIER = allOf<CacheTier>({ memory: true, shared: true, upstream: true });

export const SKIP_REASON = allOf<SkipReason>({
  "no-store": true,
  private: true,
  vary: true,
  authorization: true,
  status: true,
  ttl: true,
  useless: true,
  superseded: true,
  "unissued-token": true,
  purged: true,
  failure: true,
  "too-large": true,
  unstorable: true,
});

export const STALE_REASON = allOf<StaleReason>({
  "stale-while-revalidate": true,
  "stale-if-error": true,
  "max-stale": true,
});

export const COLLAPSE_SCOPE = allOf<CollapseScope>({ process: true, fleet: true });

export const REFRESH_OUTCOME = allOf<RefreshOutcome>({
  stored: true,
  revalidated: true,
  "not-stored": true,
  failed: true,
});

/** Of the fetches that one replica makes for all. */
export const LEASE_STATE = ["held", "awaited"] as const;

export const PURGE_REACH = allOf<PurgeReach>({ replica: true, fleet: true, pending: true });

/** What a call or attempt was for: the latencies of the two kinds have nothing to do with each other. */
export type CallKind = "metadata" | "other";
export const CALL_KIND = allOf<CallKind>({ metadata: true, other: true });

export const CALL_OUTCOME = allOf<CallOutcome>({ answered: true, failed: true });

export const ATTEMPT_OUTCOME = allOf<AttemptOutcome>({ success: true, error: true, failure: true, cancelled: true });

export const FAILURE_REASON = allOf<FailureReason>({
  refused: true,
  reset: true,
  dns: true,
  tls: true,
  unreachable: true,
  proxy: true,
  "connect-timeout": true,
  timeout: true,
  "http-429": true,
  "http-502": true,
  "http-503": true,
  "http-504": true,
  incomplete: true,
  protocol: true,
  unreadable: true,
  redirect: true,
  "too-large": true,
  "wrong-url": true,
  credentials: true,
  "wrong-admin": true,
  unproved: true,
  internal: true,
});

export const HEDGE_RESULT = allOf<HedgeResult>({ started: true, won: true, lost: true, refused: true });

export const REFUSAL = allOf<Refusal>({ breaker: true, queue: true, "rate-limit": true, disabled: true });

/** Keys below an upstream. */
export const CREDENTIAL_KEY = CREDENTIAL_KEYS;

export const CHECK_OUTCOME = ["success", "failure"] as const;

export const BREAKER_STATE = allOf<BreakerState>({ closed: true, "half-open": true, open: true });

export const NODE_STATE = allOf<NodeState>({ unproved: true, up: true, ejected: true, "wrong-admin": true });

export const UPSTREAM_STATE = allOf<UpstreamState>({
  unproved: true,
  up: true,
  degraded: true,
  failing: true,
  "wrong-admin": true,
  disabled: true,
});

export const REDIS_OUTCOME = allOf<CommandOutcome>({ ok: true, error: true, timeout: true });

export const RELOAD_RESULT = ["applied", "unchanged", "refused"] as const;
