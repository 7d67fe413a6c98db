import type { Client, Standing, Tier, TierConfig } from "../../src/clients/client.ts";

/** A tier of these limits that sees all upstreams. */
export function makeTier(limits: Partial<TierConfig>, name = "wallet"): Tier {
  return { name, config: { per: 60_000, upstreams: ["*"], ...limits }, seesAll: true, allows: () => true };
}

/** A client with a key. */
export function makeClient(tier: Tier, name = "wallet-a"): Client {
  return { kind: "key", name, id: `key:${name}`, tier };
}

/** A client without credentials. */
export function makeAnonymous(tier: Tier, address: string): Client {
  return { kind: "anonymous", name: "anonymous", id: `address:${address}`, tier };
}

/** The values of the two fields; undefined where one is missing. */
export function rateLimitOf({ fields }: Standing): { limit: string | undefined; policy: string | undefined } {
  const value = (name: string): string | undefined =>
    fields.includes(name) ? fields[fields.indexOf(name) + 1] : undefined;
  return { limit: value("ratelimit"), policy: value("ratelimit-policy") };
}

/** The most that was granted in any window beyond what comes back in it: at most the burst, where a limit is exact. */
export function largestBurst(instants: readonly number[], interval: number): number {
  let largest = 0;
  // Of all windows that end with this one, the one that began with the most of it.
  let begun = 0;
  let last = -Infinity;
  for (const at of instants.toSorted((a, b) => a - b)) {
    begun = Math.max(0, begun - (at - last) / interval) + 1;
    last = at;
    largest = Math.max(largest, begun);
  }
  return largest;
}
