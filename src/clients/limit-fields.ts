import type { LimitWindow } from "../sharing/limits.ts";
import type { LimitState } from "./client.ts";

/** Texts that are kept for a tier. Most clients have one of a few numbers of requests left. */
const MOST_KEPT = 4_096;

/** What numbers of requests and seconds have to stay below to be kept. */
const LARGEST_KEPT = 1_000_000;

/**
 * What clients of one tier read of their limits: `RateLimit-Policy` and `RateLimit` of
 * draft-ietf-httpapi-ratelimit-headers-11, lists of strings with parameters (RFC 9651).
 *
 * The policy has an item for each window: `q` requests in `w` seconds. `RateLimit` says the one that is nearest to its
 * end: `r` requests left; after `t` seconds without a request all are there again, and where none is left, as
 * `Retry-After` says, one may be.
 */
export class LimitFields {
  /** Where no window counts the request. */
  readonly uncounted: LimitState;
  private readonly policy: readonly string[];
  private readonly kept = new Map<string, Map<number, LimitState>>();

  /** @param windows of the tier; none: its clients read nothing */
  constructor(windows: readonly LimitWindow[]) {
    this.policy = windows.length === 0 ? [] : ["ratelimit-policy", windows.map(policyItem).join(", ")];
    this.uncounted = { isOver: false, retryAfter: 0, fields: this.policy };
  }

  /** Of a request that was let in: the same object as long as the text is the same. */
  granted(window: LimitWindow, left: number): LimitState {
    return this.keep(window.name, left, () => ({
      isOver: false,
      retryAfter: 0,
      fields: ["ratelimit", item(window, left, Math.ceil(window.per / 1_000)), ...this.policy],
    }));
  }

  /** Of one that is over the limit, and may come again after `seconds` (at least 1). */
  over(window: LimitWindow, seconds: number): LimitState {
    return this.keep(`${window.name} over`, seconds, () => ({
      isOver: true,
      retryAfter: seconds,
      fields: ["ratelimit", item(window, 0, seconds), ...this.policy],
    }));
  }

  private keep(name: string, number: number, make: () => LimitState): LimitState {
    let ofName = this.kept.get(name);
    if (ofName === undefined) this.kept.set(name, (ofName = new Map()));
    let state = ofName.get(number);
    if (state !== undefined) return state;
    state = make();
    if (number >= LARGEST_KEPT) return state;
    if (ofName.size >= MOST_KEPT) ofName.clear();
    ofName.set(number, state);
    return state;
  }
}

function item({ name }: LimitWindow, left: number, seconds: number): string {
  return `"${name}";r=${left};t=${seconds}`;
}

/** A window that is not a whole number of seconds becomes the next one, with as much more in it. */
function policyItem({ name, requests, per }: LimitWindow): string {
  const seconds = Math.ceil(per / 1_000);
  return `"${name}";q=${Math.round((requests * seconds * 1_000) / per)};w=${seconds}`;
}
