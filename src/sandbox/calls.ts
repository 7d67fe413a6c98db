import type { Duration, Instant } from "../clock.ts";
import { ENDPOINTS, type EndpointName } from "../spec/operations.ts";

/** Requests by endpoint; `other`: paths that are no endpoint. Preflights are not counted. */
export type Calls = Record<EndpointName | "other", number>;

export function noCalls(): Calls {
  return Object.fromEntries(
    [...ENDPOINTS.map(({ operation }) => operation), "other"].map((name) => [name, 0]),
  ) as Calls;
}

/** Requests in any window of `per`. */
export interface RateLimit {
  readonly requests: number;
  readonly per: Duration;
}

/** A sliding window over the requests that were let in. */
export class Window {
  readonly #limit: RateLimit;
  /** Moments of the requests that were let in: at most `requests` of them. */
  readonly #admitted: Instant[] = [];

  constructor(limit: RateLimit) {
    this.#limit = limit;
  }

  /** Whether the request is within the limit; then it counts. */
  take(now: Instant): boolean {
    while (this.#admitted.length > 0 && this.#admitted[0]! <= now - this.#limit.per) this.#admitted.shift();
    if (this.#admitted.length >= this.#limit.requests) return false;
    this.#admitted.push(now);
    return true;
  }
}
