import type { TierConfig } from "../config/schema.ts";
import type { GatewayError } from "../errors.ts";
import type { Fields } from "../fields.ts";

/** One who calls. */
export interface Client {
  /** Name in log lines and labels: `anonymous` for all who show no credential. Never a credential, never an address. */
  readonly name: string;
  readonly tier: string;
  readonly kind: "anonymous" | "key" | "token";
  /** Key under which its limits are counted: `key:wallet-a`, `token:<issuer>:<name>`, `address:2001:db8:1:2::/64`. */
  readonly id: string;
  readonly limits: Pick<TierConfig, "requests" | "concurrency">;
  /** Whether its tier may use the upstream of this name. */
  allows(upstreamName: string): boolean;
}

/** A client's limits after one of its requests was counted or refused. */
export interface LimitState {
  /** `ratelimit` and `ratelimit-policy`, lower case; none where the tier has no limit. */
  readonly fields: Fields;
  /** The 429 where the request is one too many; it was not counted then. */
  readonly refusal: GatewayError | undefined;
}

/** Totals of what a client used since this process began. */
export interface ClientUsage {
  /** Let in and refused ones. */
  readonly requests: number;
  /** Answered 429 by the limits of its tier. */
  readonly refused: number;
  /** Running now; fresh hits never do. */
  readonly running: number;
  /** Unix ms; undefined: never here. */
  readonly lastSeen?: number;
}

/** One client for `GET /clients`, whether it has called or not. All without a credential are one, `anonymous`. */
export interface ClientReport extends ClientUsage {
  readonly name: string;
  readonly kind: Client["kind"];
  readonly tier: string;
  /** Unix ms, when the last of its keys ends; undefined: never, or it has none. */
  readonly expires?: number;
}

type Tier = Pick<Client, "tier" | "limits" | "allows">;

/** Makes what all clients of a tier have alike. */
export function tierOf(name: string, { requests, concurrency, upstreams }: TierConfig): Tier {
  const seesAll = upstreams.includes("*");
  const names = new Set(upstreams);
  return {
    tier: name,
    limits: { ...(requests !== undefined && { requests }), ...(concurrency !== undefined && { concurrency }) },
    allows: (upstreamName) => seesAll || names.has(upstreamName),
  };
}
