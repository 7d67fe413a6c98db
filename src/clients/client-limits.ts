import { LRUCache } from "lru-cache";
import type { Clock } from "../clock.ts";
import type { SharedLimits } from "../coordination/shared-limits.ts";
import type { Client, ClientLimits, Slot, Standing, Tier } from "./client.ts";
import { ConcurrencyLimits } from "./concurrency.ts";
import { SharedAdmission } from "./shared-admission.ts";
import { signatureOf, TierLimits } from "./tier-limits.ts";

/** Tiers, those of former configurations included. */
const MAX_TIERS = 2_000;

export interface TieredLimitsOptions {
  clock: Clock;
  /** Undefined: this process is alone. */
  shared: SharedLimits | undefined;
}

/** The limits that tiers set for their clients. Outlives reloads, and with it what was counted. */
export class TieredLimits implements ClientLimits {
  private readonly clock: Clock;
  private readonly admission: SharedAdmission | undefined;
  private readonly concurrency: ConcurrencyLimits;
  private readonly tiers = new WeakMap<Tier, TierLimits>();
  private readonly bySignature = new LRUCache<string, TierLimits>({ max: MAX_TIERS });

  constructor({ clock, shared }: TieredLimitsOptions) {
    this.clock = clock;
    this.admission = shared === undefined ? undefined : new SharedAdmission(shared, clock);
    this.concurrency = new ConcurrencyLimits(shared, clock);
    shared?.onReturned(() => {
      this.admission?.report();
      this.concurrency.report();
    });
  }

  admit(client: Client, isPost: boolean): Standing | Promise<Standing> {
    const tier = this.tiers.get(client.tier) ?? this.open(client.tier);
    const needed = tier.neededBy(isPost);
    if (needed === 0) return tier.standings.uncounted;
    if (this.admission !== undefined) return this.admission.admit(tier, client, needed);
    const now = this.clock.now();
    return tier.take(tier.of(client, now), needed, now);
  }

  enter({ id, tier }: Client): Slot | undefined | Promise<Slot | undefined> {
    return this.concurrency.enter(id, tier.config.concurrency);
  }

  /** A tier that a reload left as it was goes on with its counts. */
  private open(tier: Tier): TierLimits {
    const signature = signatureOf(tier.name, tier.config);
    const limits = this.bySignature.get(signature) ?? new TierLimits(tier.name, tier.config);
    this.bySignature.set(signature, limits);
    this.tiers.set(tier, limits);
    return limits;
  }
}
