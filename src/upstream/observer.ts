import type { Fields } from "../fields.ts";
import type { BreakerChange } from "../limits/circuit-breaker.ts";
import type { Operation } from "../spec/operations.ts";
import type { AgreementResult, Difference } from "./agreement.ts";
import type { FailureReason } from "./failure.ts";
import type { StepFault } from "./wire/in-step.ts";
import type { ApiChange } from "./nodes/supported-apis.ts";
import type { NodeState, UpstreamState } from "./status.ts";

/** How one attempt ended. `error`: an answer that is an error of the registry's own; `cancelled`: no longer needed. */
export const ATTEMPT_OUTCOMES = ["success", "error", "failure", "cancelled"] as const;
export type AttemptOutcome = (typeof ATTEMPT_OUTCOMES)[number];

/**
 * Why an attempt was made: after, or beside, one that failed or is very late (`retry`); beside one that is slow
 * (`hedge`); for a streamed call, which has only one (`stream`).
 */
export type AttemptKind = "first" | "retry" | "hedge" | "stream";

/** What an attempt is about. */
export interface AttemptTopic {
  readonly upstream: string;
  readonly operation: Operation;
  readonly method: string;
  /** The place of the node in the configured list. */
  readonly node: number;
  readonly kind: AttemptKind;
}

/** How an attempt ended. */
interface AttemptEnd {
  readonly outcome: AttemptOutcome;
  /** Set with `failure`. */
  readonly reason: FailureReason | undefined;
  /** Undefined when no answer began. */
  readonly status: number | undefined;
}

export interface AttemptEvent extends Omit<AttemptTopic, "method">, AttemptEnd {
  /** What the call sends, by which its request can be found again. */
  readonly fields: Fields;
  readonly seconds: number;
  /** The trace that has it, where that is kept. */
  readonly traceId: string | undefined;
}

/**
 * What came of a whole call, whatever its attempts. `failed`: a 5xx or 429 of the registry's, or no usable answer;
 * `answered`: anything else, errors of the registry's about the request too.
 */
export const CALL_OUTCOMES = ["answered", "failed"] as const;
export type CallOutcome = (typeof CALL_OUTCOMES)[number];

export const HEDGE_RESULTS = ["started", "won", "lost", "refused"] as const;
type HedgeResult = (typeof HEDGE_RESULTS)[number];
/** Whose calls a breaker stops: those of the registry's API, or what is passed through. */
export type BreakerScope = "api" | "pass-through";
/** Keys below an upstream whose credentials can turn out to be no good. */
export const CREDENTIAL_KEYS = [
  "auth.bearerTokenFile",
  "auth.header.valueFile",
  "auth.oauth2.clientSecretFile",
  "auth.oauth2.tokenUrl",
  "tls",
] as const;
export type CredentialKey = (typeof CREDENTIAL_KEYS)[number];

/** How a credential was found. */
export interface CredentialLook {
  /** Why it is no good, without secrets; undefined: it is good. The last good one stays in use while it lasts. */
  readonly fault: string | undefined;
  /** It changed, or has been so for another 10 minutes: worth a line in the log. */
  readonly isNew: boolean;
}

/** Why a call was refused before any attempt. */
export const REFUSALS = ["breaker", "queue", "rate-limit", "disabled", "cache-only"] as const;
type Refusal = (typeof REFUSALS)[number];

/**
 * What happens on the way to upstreams, for metrics and for one log line per change of state. Upstreams are named by
 * alias. Implementations must not throw and must be quick: they run between request and answer.
 */
export interface UpstreamObserver {
  /** Every call of the registry's API but those whose client went away or sent no good body, and those that `concurrency` or `rateLimit` refused. */
  called(upstream: string, operation: Operation, outcome: CallOutcome): void;
  /** Every request sent to a node but checks. */
  attempt(event: AttemptEvent): void;
  /** A further attempt was started because of `reason`. */
  retry(upstream: string, reason: FailureReason): void;
  /** A further attempt was wanted and the retry budget was spent. */
  retryBudgetExhausted(upstream: string): void;
  hedge(upstream: string, result: HedgeResult): void;
  refused(upstream: string, refusal: Refusal): void;
  /** A check of a node's `/info`. */
  check(upstream: string, node: string, outcome: "success" | "failure"): void;
  /** `node`: its URL, for the log and the operations listener only. */
  nodeState(upstream: string, node: string, change: { from: NodeState; to: NodeState; why: string }): void;
  upstreamState(upstream: string, change: { from: UpstreamState; to: UpstreamState; why: string }): void;
  breaker(upstream: string, calls: BreakerScope, change: BreakerChange): void;
  /** The upstream's admin is known from now on. */
  adminProved(upstream: string, admin: string): void;
  /** A node's `/info` names another admin than expected. `isNew`: it did not, or was not asked, the last time. */
  adminMismatch(upstream: string, node: string, admins: { expected: string; named: string; isNew: boolean }): void;
  /** Several nodes were asked for one answer, or one more when it had gone out. */
  agreement(upstream: string, result: AgreementResult): void;
  /** Nodes say something else than others. `isNew`: worth a line in the log. */
  differed(upstream: string, difference: Difference, isNew: boolean): void;
  /** Answers of a node were to other requests, or to none. */
  outOfStep(upstream: string, node: string, fault: StepFault): void;
  /** The registry's info names other APIs than before: it was upgraded, or rolled back. */
  supportedApisChanged(upstream: string, change: ApiChange): void;
  /** The upstream answered 429: calls are rationed to this share of `rateLimit` for a while. `isNew`: worth a line. */
  rationed(upstream: string, share: number, isNew: boolean): void;
  /** What a key of the upstream names was looked at or fetched. */
  credential(upstream: string, key: CredentialKey, look: CredentialLook): void;
}

/** One attempt in a trace. */
export interface AttemptTrace {
  /** What goes upstream so that the trace goes on there, instead of the client's tracing fields. */
  readonly fields: Fields;
  /** The id of the trace, where it is kept. */
  readonly id: string | undefined;
  end(end: AttemptEnd): void;
}

/** Follows a call through its attempts. Implementations must not throw. */
export interface CallTrace {
  attempt(topic: AttemptTopic): AttemptTrace;
}

function ignore(): void {
  // Nobody asked to know.
}

/** Observes nothing. */
export const silentObserver: UpstreamObserver = {
  called: ignore,
  attempt: ignore,
  retry: ignore,
  retryBudgetExhausted: ignore,
  hedge: ignore,
  refused: ignore,
  check: ignore,
  nodeState: ignore,
  upstreamState: ignore,
  breaker: ignore,
  adminProved: ignore,
  adminMismatch: ignore,
  agreement: ignore,
  differed: ignore,
  outOfStep: ignore,
  supportedApisChanged: ignore,
  rationed: ignore,
  credential: ignore,
};
