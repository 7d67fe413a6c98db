import type { Clock } from "../clock.ts";
import type { LimitAnswer, LimitClaim, Limits, LimitWindow } from "../sharing/limits.ts";
import type { Client, ClientLimits, Slot, LimitState, Tier, TierConfig } from "./client.ts";
import { ConcurrencyLimits, UNLIMITED } from "./concurrency.ts";
import { LimitFields } from "./limit-fields.ts";

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
  readonly fields: LimitFields;
}

/** What one client claims for each of its requests. */
interface ClientClaims {
  readonly tier: Tier;
  readonly limits: TierLimits;
  readonly all: LimitClaim;
  readonly posts: LimitClaim;
}

/** The limits that tiers set for their clients. Outlives reloads, and with it what was counted. */
export class TieredLimits implements ClientLimits {
  private readonly options: TieredLimitsOptions;
  private readonly concurrency: ConcurrencyLimits;
  private readonly tiers = new WeakMap<Tier, TierLimits>();
  private readonly claims = new WeakMap<Client, ClientClaims>();

  constructor(options: TieredLimitsOptions) {
    this.options = options;
    this.concurrency = new ConcurrencyLimits(options.limits, options.clock);
  }

  admit(client: Client, isPost: boolean): LimitState | Promise<LimitState> {
    const { limits, all, posts } = this.claimsOf(client);
    const claim = isPost ? posts : all;
    if (claim.windows.length === 0) return limits.fields.uncounted;
    const answer = this.options.limits.take(claim);
    if (answer instanceof Promise) return answer.then((each) => this.decide(client, claim, each));
    return this.decide(client, claim, answer);
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

  private decide(client: Client, { windows }: LimitClaim, { granted, used, retryIn }: LimitAnswer): LimitState {
    const { fields } = this.claimsOf(client).limits;
    if (granted) {
      const left = windows.map(({ requests }, i) => Math.max(0, requests - used[i]!));
      const least = Math.min(...left);
      return fields.granted(windows[left.indexOf(least)]!, least);
    }
    const longest = Math.max(...retryIn);
    const over = fields.over(windows[retryIn.indexOf(longest)]!, Math.max(1, Math.ceil(longest / 1_000)));
    if (client.tier.config.enforce) return over;
    this.options.onSpared(client, "client_rate_limited");
    return { ...over, isOver: false, retryAfter: 0 };
  }

  private claimsOf(client: Client): ClientClaims {
    const known = this.claims.get(client);
    if (known?.tier === client.tier) return known;
    const { tier } = client;
    let limits = this.tiers.get(tier);
    if (limits === undefined) this.tiers.set(tier, (limits = limitsOf(tier.config)));
    const who = { kind: client.kind === "anonymous" ? "address" : "client", id: `${tier.name}\n${client.id}` } as const;
    const claims = {
      tier,
      limits,
      all: { ...who, windows: limits.all },
      posts: { ...who, windows: limits.posts },
    };
    this.claims.set(client, claims);
    return claims;
  }
}

function limitsOf({ requests, per, burst, posts }: TierConfig): TierLimits {
  const all = [
    ...(requests === undefined ? [] : [{ name: "requests", requests, per }]),
    ...(burst === undefined ? [] : [{ name: "burst", ...burst }]),
  ];
  const withPosts = posts === undefined ? all : [...all, { name: "posts", ...posts }];
  return { all, posts: withPosts, fields: new LimitFields(withPosts) };
}
