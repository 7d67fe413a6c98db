import type { ClientsConfig } from "../config/schema.ts";
import type { GatewayError } from "../errors.ts";
import type { Fields } from "../fields.ts";

/** A tier as it is configured. Each part may be left out: there is no limit then. */
export type TierConfig = ClientsConfig["tiers"][string];

/** What a client may do. */
export interface Tier {
  readonly name: string;
  readonly config: TierConfig;
  /** `upstreams: ["*"]`: all, those to come as well. */
  readonly seesAll: boolean;
  /** Whether its clients may use the upstream of this alias. */
  allows(upstream: string): boolean;
}

/** One who calls. Several objects may stand for the same one: its limits are counted by its `id`. */
export interface Client {
  readonly kind: "key" | "token" | "certificate" | "anonymous";
  /** For log lines and labels: `anonymous` for all anonymous ones. Never a credential, never an address. */
  readonly name: string;
  readonly tier: Tier;
  /** The host of a token's issuer: its clients are counted together where there are too many names. */
  readonly issuer?: string;
  /** What its limits are counted under: `key:wallet-a`, `token:<digest>`, `address:2001:db8:1:2::/64`. */
  readonly id: string;
}

/** Who sent a request, or why it is refused. */
export type Identity = Client | GatewayError;

/** The limits of a client after one of its requests was counted: whether it is over them, and the fields that say so. */
export interface LimitState {
  readonly isOver: boolean;
  /** Seconds until it is worth to ask again, where it is over. */
  readonly retryAfter: number;
  /** `ratelimit` and `ratelimit-policy`. Empty where there is no limit. */
  readonly fields: Fields;
}

/** A place among the requests of one client that run at once. */
export interface Slot {
  /** Gives the place back; calling it again does nothing. */
  leave(): void;
}

/** How much clients may ask. */
export interface ClientLimits {
  /** Counts one request of the client, where its limits have room for it. */
  admit(client: Client, isPost: boolean): LimitState | Promise<LimitState>;
  /** Takes a place among the client's requests that run at once; undefined where there is none. */
  enter(client: Client): Slot | undefined | Promise<Slot | undefined>;
}

/** Characters of the longest name. */
const MAX_NAME = 200;

/**
 * What no name has: control and format characters, halves of characters, line and paragraph separators. They hide in a
 * log or break its lines. Spaces neither begin nor end it, so that names that look the same are the same.
 */
const UNFIT = /[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}]|^\s|\s$/u;

/** Names that log lines and metrics have for those who are not known. */
const RESERVED: ReadonlySet<string> = new Set(["anonymous", "none"]);

/** Whether a token or certificate may name a client so. */
export function isClientName(name: string): boolean {
  return name !== "" && name.length <= MAX_NAME && !UNFIT.test(name) && !RESERVED.has(name);
}
