import type { Instant } from "../../clock.ts";
import type { UpstreamConfig } from "../../config/schema.ts";

/** What is known of one window of calls besides its count: learned by one upstream, it holds for all that share it. */
export class Ration {
  /** The share of the limit that is used since the registry answered 429. */
  share = 1;
  shrunkAt: Instant = -Infinity;
  /** Until when the registry wants no calls at all. */
  deniedUntil: Instant = 0;
  /** Calls left as last seen. */
  left: number | undefined;
  /** Who got the last call that somebody waited for: the others go first the next time. */
  lastServed: string | undefined;
}

/** The groups of upstreams that share a rate limit. Outlives reloads: members come and go, what is known stays. */
export class RateLimitGroups {
  /** Group → window → what is known of it. */
  private readonly rations = new Map<string, Map<string, Ration>>();
  private sizes: ReadonlyMap<string, number> = new Map();

  /** These are the upstreams from now on. */
  reset(configs: readonly UpstreamConfig[]): void {
    const sizes = new Map<string, number>();
    for (const { rateLimit } of configs) {
      if (rateLimit?.group !== undefined) sizes.set(rateLimit.group, (sizes.get(rateLimit.group) ?? 0) + 1);
    }
    this.sizes = sizes;
    for (const group of this.rations.keys()) if (!sizes.has(group)) this.rations.delete(group);
  }

  /** Whether a group has several members now. */
  isShared(group: string): boolean {
    return (this.sizes.get(group) ?? 0) > 1;
  }

  /** Of all windows of a group. */
  rationsOf(group: string): Ration[] {
    return [...(this.rations.get(group)?.values() ?? [])];
  }

  ration(group: string, window: string): Ration {
    let windows = this.rations.get(group);
    if (windows === undefined) this.rations.set(group, (windows = new Map<string, Ration>()));
    let ration = windows.get(window);
    if (ration === undefined) windows.set(window, (ration = new Ration()));
    return ration;
  }
}
