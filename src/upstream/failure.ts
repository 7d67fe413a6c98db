import { GatewayError } from "../errors.ts";
import type { ErrorCode } from "../errors.ts";
import type { Duration } from "../clock.ts";
import { formatSize } from "../units.ts";

interface Consequences {
  /** Worth another node. */
  readonly elsewhere: boolean;
  /** Worth the same node again when there is no other. */
  readonly again: boolean;
  /**
   * Who is to blame. `node`: no request came so far that it could be. `unclear`: the node, or the request, which a client
   * can choose so that it fails: only another node that answers it, or the node's own info, shows which.
   */
  readonly fault: "node" | "unclear" | "none";
}

const UNREACHED: Consequences = { elsewhere: true, again: false, fault: "node" };
const UNCLEAR: Consequences = { elsewhere: true, again: false, fault: "unclear" };
const FINAL: Consequences = { elsewhere: false, again: false, fault: "none" };

/**
 * Why an attempt brought no usable answer, and what follows: by the reason decide retries, ejection and the breaker, and
 * it is a label of metrics. All operations are lookups: whatever came of an attempt, another one does no harm.
 */
const CONSEQUENCES = {
  refused: { ...UNREACHED, again: true },
  reset: { ...UNCLEAR, again: true },
  dns: UNREACHED,
  tls: UNREACHED,
  unreachable: UNREACHED,
  proxy: UNREACHED,
  "connect-timeout": UNREACHED,
  timeout: UNCLEAR,
  // The node is well, it only wants to be left alone.
  "http-429": { elsewhere: true, again: false, fault: "none" },
  "http-502": UNCLEAR,
  "http-503": UNCLEAR,
  "http-504": UNCLEAR,
  incomplete: UNCLEAR,
  protocol: UNCLEAR,
  "out-of-step": { ...UNCLEAR, again: true },
  unreadable: UNCLEAR,
  redirect: UNCLEAR,
  "too-large": FINAL,
  "wrong-url": FINAL,
  credentials: FINAL,
  "wrong-admin": UNREACHED,
  unproved: UNREACHED,
  internal: FINAL,
} as const satisfies Readonly<Record<string, Consequences>>;

export type FailureReason = keyof typeof CONSEQUENCES;

export const FAILURE_REASONS = Object.keys(CONSEQUENCES) as readonly FailureReason[];

export const consequences: Readonly<Record<FailureReason, Consequences>> = CONSEQUENCES;

/** An attempt without a usable answer, and the error that a client gets when it was the last one. */
export interface Failure {
  readonly reason: FailureReason;
  readonly error: GatewayError;
  /** A 429 that is about the ledger, and asks for no fewer calls. */
  readonly isConflict?: boolean;
}

/** The time for connecting was up. */
export function connectTimeout(upstream: string): Failure {
  return {
    reason: "connect-timeout",
    error: new GatewayError(
      "upstream_connect_timeout",
      `upstream "${upstream}" could not be connected to in time; try again later`,
      {},
    ),
  };
}

/** The time for an answer was up. */
export function answerTimeout(upstream: string): Failure {
  return {
    reason: "timeout",
    error: new GatewayError("upstream_timeout", `upstream "${upstream}" did not answer in time; try again later`, {}),
  };
}

/** An answer larger than `limit` bytes. */
export function tooLarge(upstream: string, limit: number): Failure {
  return {
    reason: "too-large",
    error: new GatewayError(
      "upstream_too_large",
      `upstream "${upstream}" answered with more than the ${formatSize(limit)} that limits.responseBody allows`,
    ),
  };
}

/** For an answer with more header fields than clients take. */
export function tooLargeHead(upstream: string): Failure {
  const text = "answered with more header fields than clients take; report it to the gateway's operator";
  const proxyError = "http_response_header_section_size";
  return {
    reason: "too-large",
    error: new GatewayError("upstream_too_large", `upstream "${upstream}" ${text}`, { proxyError }),
  };
}

/** An answer that nobody can be expected to read. */
export function tooCostly(upstream: string): Failure {
  const text = "answered with a body that takes more time or memory to read than the gateway gives one";
  return { reason: "too-large", error: unusable(upstream, text, "upstream_too_large") };
}

/** Answers that are kept until they are complete take too much memory in all: this one is given up. */
export function tooManyAnswers(): Failure {
  const text = "the gateway has too many large answers of registries on their way; try again in 1 s";
  return { reason: "internal", error: new GatewayError("overloaded", text, { retryAfter: 1 }) };
}

/** A 502 for an answer that is none of the registry API; `text` follows `upstream "alias" `. */
export function unusable(upstream: string, text: string, code: ErrorCode = "upstream_invalid"): GatewayError {
  return new GatewayError(code, `upstream "${upstream}" ${text}`);
}

/** A failure because of the content coding; `text` follows `upstream "alias" `. */
export function undecodable(upstream: string, text: string): Failure {
  return { reason: "unreadable", error: unusable(upstream, text, "upstream_coding") };
}

/** The 503 for who still waits for an upstream that a reload removed. */
export function removed(upstream: string): GatewayError {
  const text = `upstream "${upstream}" was removed from the configuration; try again`;
  return new GatewayError("upstream_disabled", text, { retryAfter: 1, proxyError: "destination_unavailable" });
}

/** The 429 while no node may be asked: each answered 429 and said for how long. */
export function leftAlone(upstream: string, wait: Duration): GatewayError {
  const retryAfter = Math.max(1, Math.ceil(wait / 1_000));
  const text = `upstream "${upstream}" answered 429 Too Many Requests and is left alone for as long as it asked`;
  return new GatewayError("too_many_requests", `${text}; try again in ${retryAfter} s`, { retryAfter });
}
