import type { UpstreamConfig } from "../config/schema.ts";
import type { CountedCalls } from "./counted-calls.ts";

/** The groups of upstreams that share a rate limit. Outlives reloads: members come and go, what is known stays. */
export class RateLimitGroups {
  /** Group → what is counted together → its calls. */
  private readonly groups = new Map<string, Map<string, CountedCalls>>();

  /** These are the upstreams from now on. */
  reset(configs: readonly UpstreamConfig[]): void {
    const named = new Set(configs.map(({ rateLimit }) => rateLimit?.group));
    for (const group of this.groups.keys()) if (!named.has(group)) this.groups.delete(group);
  }

  of(group: string): Map<string, CountedCalls> {
    let counted = this.groups.get(group);
    if (counted === undefined) this.groups.set(group, (counted = new Map()));
    return counted;
  }
}
