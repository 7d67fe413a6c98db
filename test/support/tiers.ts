import { expect } from "vitest";
import type { Client, LimitState, Tier, TierConfig } from "../../src/clients/client.ts";

/** A tier of these limits that sees all upstreams. */
export function makeTier(limits: Partial<TierConfig>, name = "wallet"): Tier {
  return {
    name,
    config: { per: 60_000, upstreams: ["*"], enforce: true, ...limits },
    seesAll: true,
    allows: () => true,
  };
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
export function rateLimitOf({ fields }: LimitState): { limit: string | undefined; policy: string | undefined } {
  const value = (name: string): string | undefined =>
    fields.includes(name) ? fields[fields.indexOf(name) + 1] : undefined;
  return { limit: value("ratelimit"), policy: value("ratelimit-policy") };
}

/** In no window of `per` there are more than `requests` of these instants, which are in order. */
export function expectWithin(instants: readonly number[], { requests, per }: { requests: number; per: number }): void {
  for (let i = requests; i < instants.length; i += 1) {
    // A window is half open: what is exactly `per` apart is in two.
    expect(instants[i]! - instants[i - requests]!).toBeGreaterThanOrEqual(per - 1e-6);
  }
}
