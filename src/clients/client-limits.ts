import type { Clock } from "../clock.ts";
import type { Fields } from "../fields.ts";
import type { LimitAnswer, Limits, LimitWindow } from "../sharing/limits.ts";
import type { Client, ClientLimits, Slot, LimitState, Tier, TierConfig } from "./client.ts";
import { ConcurrencyLimits, UNLIMITED } from "./concurrency.ts";

/** What a client is refused for, or would be. */
export type LimitRefusal = "client_concurrency" | "client_rate_limited";

export interface TieredLimitsOptions {
  readonly clock: Clock;
  readonly limits: Limits;
  /** A request was let in that is over a limit of a tier with `enforce: false`. */
  readonly onSpared: (client: Client, reason: LimitRefusal) => void;
}

/** The windows of one tier. */
interface TierLimits {
  /** Of all requests, and of POSTs. */
  readonly all: readonly LimitWindow[];
  readonly posts: readonly LimitWindow[];
  /** `ratelimit-policy`; empty where there is no window. */
  readonly policy: Fields;
}

/** The limits that tiers set for their clients. Outlives reloads, and with it what was counted. */
export class TieredLimits implements ClientLimits {
  private readonly options: TieredLimitsOptions;
  private readonly concurrency: ConcurrencyLimits;
  private readonly tiers = new WeakMap<Tier, TierLimits>();

  constructor(options: TieredLimitsOptions) {
    this.options = options;
    this.concurrency = new ConcurrencyLimits(options.limits, options.clock);
  }

  admit(client: Client, isPost: boolean): LimitState | Promise<LimitState> {
    const { all, posts, policy } = this.limitsFor(client.tier);
    const windows = isPost ? posts : all;
    if (windows.length === 0) return { isOver: false, retryAfter: 0, fields: policy };
    const kind = client.kind === "anonymous" ? "address" : "client";
    const answer = this.options.limits.take({ kind, id: `${client.tier.name}\n${client.id}`, windows });
    if (answer instanceof Promise) return answer.then((each) => this.decide(client, windows, each));
    return this.decide(client, windows, answer);
  }

  enter(client: Client): Slot | undefined | Promise<Slot | undefined> {
    const slot = this.concurrency.enter(client.id, client.tier.config.concurrency);
    if (client.tier.config.enforce) return slot;
    const spare = (each: Slot | undefined): Slot => {
      if (each !== undefined) return each;
      this.options.onSpared(client, "client_concurrency");
      return UNLIMITED;
    };
    return slot instanceof Promise ? slot.then(spare) : spare(slot);
  }

  private decide(client: Client, windows: readonly LimitWindow[], { granted, used, retryIn }: LimitAnswer): LimitState {
    const { policy } = this.limitsFor(client.tier);
    if (granted) {
      const left = windows.map(({ requests }, i) => Math.max(0, requests - used[i]!));
      const least = Math.min(...left);
      const nearest = windows[left.indexOf(least)]!;
      const fields = ["ratelimit", limitItem(nearest, least, Math.ceil(nearest.per / 1_000)), ...policy];
      return { isOver: false, retryAfter: 0, fields };
    }
    const longest = Math.max(...retryIn);
    const retryAfter = Math.max(1, Math.ceil(longest / 1_000));
    const fields = ["ratelimit", limitItem(windows[retryIn.indexOf(longest)]!, 0, retryAfter), ...policy];
    if (client.tier.config.enforce) return { isOver: true, retryAfter, fields };
    this.options.onSpared(client, "client_rate_limited");
    return { isOver: false, retryAfter: 0, fields };
  }

  private limitsFor(tier: Tier): TierLimits {
    let limits = this.tiers.get(tier);
    if (limits === undefined) this.tiers.set(tier, (limits = limitsOf(tier.config)));
    return limits;
  }
}

function limitsOf({ requests, per, burst, posts }: TierConfig): TierLimits {
  const all = [
    ...(requests === undefined ? [] : [{ name: "requests", requests, per }]),
    ...(burst === undefined ? [] : [{ name: "burst", ...burst }]),
  ];
  const withPosts = posts === undefined ? all : [...all, { name: "posts", ...posts }];
  const policy = withPosts.length === 0 ? [] : ["ratelimit-policy", withPosts.map(policyItem).join(", ")];
  return { all, posts: withPosts, policy };
}

/**
 * Of `RateLimit` (draft-ietf-httpapi-ratelimit-headers-11), a list of strings with parameters (RFC 9651): the window that is
 * nearest to its end has `r` requests left; after `t` seconds without a request all are there again, and where none is left,
 * as `Retry-After` says, one may be.
 */
function limitItem({ name }: LimitWindow, left: number, seconds: number): string {
  return `"${name}";r=${left};t=${seconds}`;
}

/**
 * Of `RateLimit-Policy`, which has an item for each window: `q` requests in `w` seconds. A window that is not a whole number
 * of seconds becomes the next one, with as much more in it.
 */
function policyItem({ name, requests, per }: LimitWindow): string {
  const seconds = Math.ceil(per / 1_000);
  return `"${name}";q=${Math.round((requests * seconds * 1_000) / per)};w=${seconds}`;
}
