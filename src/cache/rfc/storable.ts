import type { ResponseDirectives } from "./cache-control.ts";
import type { SkipReason } from "../observer.ts";
import type { CachePolicy } from "../resource.ts";
import { isFailure } from "./reuse.ts";

/** Statuses whose meaning for a cache is implemented here, for `must-understand` (RFC 9111 §5.2.2.3). */
const UNDERSTOOD = new Set([
  200, 203, 204, 300, 301, 302, 303, 307, 308, 400, 401, 403, 404, 405, 410, 414, 500, 501, 502, 503, 504,
]);

/** What decides whether a response may be stored. */
export interface StorableInput {
  readonly status: number;
  /** Undefined when the policy does not honour the upstream. */
  readonly directives: ResponseDirectives | undefined;
  readonly policy: CachePolicy;
  /** Whether the upstream stated a freshness lifetime. */
  readonly explicit: boolean;
  readonly varies: readonly string[] | "*";
  /** Whether the request carried the client's Authorization upstream. */
  readonly authorized: boolean;
}

/** Why HTTP or the policy forbids storing the response (RFC 9111 §3), or undefined when it may be stored. */
export function whyNotStorable(input: StorableInput): SkipReason | undefined {
  const { directives } = input;
  if (directives !== undefined && forbidsStoring(directives, input.status)) return "no-store";
  if (directives?.private === true) return "private";
  if (input.varies === "*") return "vary";
  if (input.authorized && !isForAll(directives)) return "authorization";
  if (directives?.mustUnderstand === true && !UNDERSTOOD.has(input.status)) return "status";
  if (!isStoredStatus(input)) return "status";
  return undefined;
}

/**
 * Whether only the client that asked may get the answer: nobody else may be handed it, not even one that waits for it
 * (RFC 9111 §4: what cannot be reused cannot satisfy collapsed requests). `no-cache` answers one request each. That a
 * failure is not to be stored is no reason for everybody who waits to ask a failing upstream again.
 */
export function isExclusive(
  status: number,
  reason: SkipReason | undefined,
  directives: ResponseDirectives | undefined,
): boolean {
  if (reason === "private" || reason === "vary" || reason === "authorization") return true;
  if (isFailure(status)) return false;
  return reason === "no-store" || directives?.noCache === true;
}

/** §5.2.2.5; where `must-understand` is present and the status understood, `no-store` is ignored (§5.2.2.3). */
function forbidsStoring(directives: ResponseDirectives, status: number): boolean {
  return directives.noStore && !(directives.mustUnderstand && UNDERSTOOD.has(status));
}

/**
 * Whether a response may go to requests with Authorization and to requests without, whichever it was fetched for. RFC
 * 9111 §3.5 asks for one of these directives before the response to a request with Authorization is stored. Here it
 * holds the other way too: a registry that personalises without saying so means different things by its answers.
 */
export function isForAll(directives: ResponseDirectives | undefined): boolean {
  if (directives === undefined) return false;
  return directives.public || directives.mustRevalidate || directives.sMaxage !== undefined;
}

function isStoredStatus({ status, policy, explicit }: StorableInput): boolean {
  if (status === 200) return true;
  if (status === 404 && policy.notFoundTtl !== undefined) return true;
  // 206 and 304 are parts and updates of other responses; ranges are never asked for.
  if (policy.errors === "never" || status < 200 || status === 206 || status === 304) return false;
  return explicit;
}
