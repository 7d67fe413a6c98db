import type { IncomingMessage } from "node:http";
import { isDeepStrictEqual } from "node:util";
import type { Clock } from "../clock.ts";
import type { ClientsConfig } from "../config/schema.ts";
import { GatewayError } from "../errors.ts";
import { AnonymousClients } from "./anonymous-clients.ts";
import type { Client, ClientLimits, Identity, Tier, TierConfig } from "./client.ts";
import { credentialMissing, type CredentialRules, credentialsDiffer, isKey, takeCredential } from "./credential.ts";

/** The clients of a keys file. */
export interface KeyClients {
  /** @param now wall-clock time, for keys that expire */
  find(key: string, now: number): Client | "invalid" | "unknown" | "expired";
}

/** The clients whose tokens issuers sign. */
export interface TokenClients {
  /** The client of a token that was verified a moment ago. */
  verified(token: string): Client | undefined;
  verify(token: string): Promise<Identity>;
  /** Whether a token says, unproved, that it is of one of the issuers. */
  claimsIssuer(token: string): boolean;
}

/** Whom {@link Clients} asks. What is not configured is undefined. */
export interface ClientsParts {
  readonly clock: Clock;
  readonly limits: ClientLimits;
  readonly keys: KeyClients | undefined;
  readonly tokens: TokenClients | undefined;
  /** The client whose certificate came with the connection. */
  readonly certificateOf: ((request: IncomingMessage) => Identity | undefined) | undefined;
  /** Where a request comes from, as it is counted. */
  addressOf(request: IncomingMessage): string;
  /** Whether some registry gets the client's `Authorization`. */
  readonly isForwarded: boolean;
}

const NOTHING: Tier = {
  name: "none",
  config: { per: 60_000, upstreams: [] },
  seesAll: false,
  allows: () => false,
};

// Made once, see `credential.ts`.
const KEY_ERRORS = {
  invalid: new GatewayError(
    "credential_invalid",
    "the API key is mistyped or cut off, for its checksum does not fit: copy it again",
  ),
  unknown: new GatewayError(
    "credential_invalid",
    "the API key is not, or no longer, known here: ask the gateway's operator for a new one",
  ),
  expired: new GatewayError("credential_expired", "the API key has expired: ask the gateway's operator for a new one"),
} as const;

const NO_TOKENS = new GatewayError(
  "credential_invalid",
  "what the request shows is no API key, which begins with rgk_, and this gateway takes no tokens",
);

/** Who calls, of one configuration. */
export class Clients {
  readonly tiers: ReadonlyMap<string, Tier>;
  readonly limits: ClientLimits;
  /** Of those who need no credential: what the pages show that everybody may read. */
  readonly openTier: Tier;
  private readonly parts: ClientsParts;
  private readonly anonymous: AnonymousClients | undefined;
  private readonly rules: CredentialRules;

  /** @param previous of the configuration before: what did not change stays, with the state of its clients' limits */
  constructor(config: ClientsConfig, tiers: ReadonlyMap<string, Tier>, parts: ClientsParts, previous?: Clients) {
    this.tiers = tiers;
    this.parts = parts;
    this.limits = parts.limits;
    const tier = config.anonymous === false ? undefined : tiers.get(config.anonymous)!;
    const isSame = tier !== undefined && previous?.anonymous?.tier === tier;
    this.anonymous = isSame ? previous.anonymous : tier && new AnonymousClients(tier);
    this.openTier = tier ?? NOTHING;
    this.rules = {
      isForwarded: parts.isForwarded,
      isOurToken: (token) => parts.tokens?.claimsIssuer(token) ?? false,
    };
  }

  /**
   * Who sent a request, or the 401 for it. Its credential is gone from its header fields then. At once, but for a token
   * that was not verified before.
   */
  identify(request: IncomingMessage): Identity | Promise<Identity> {
    const { certificateOf } = this.parts;
    const credential = takeCredential(request, this.rules);
    if (credential instanceof GatewayError) return credential;
    const shown = certificateOf?.(request);
    if (shown instanceof GatewayError) return shown;
    if (credential === undefined) return shown ?? this.withoutCredential(request);
    const identity = isKey(credential) ? this.byKey(credential) : this.byToken(credential);
    if (shown === undefined) return identity;
    return identity instanceof Promise ? identity.then((each) => sameClient(shown, each)) : sameClient(shown, identity);
  }

  private withoutCredential(request: IncomingMessage): Identity {
    return this.anonymous?.at(this.parts.addressOf(request)) ?? credentialMissing();
  }

  private byKey(key: string): Identity {
    const { keys, clock } = this.parts;
    const found = keys?.find(key, clock.wallNow()) ?? "unknown";
    return typeof found === "string" ? KEY_ERRORS[found] : found;
  }

  private byToken(token: string): Identity | Promise<Identity> {
    const { tokens } = this.parts;
    return tokens === undefined ? NO_TOKENS : (tokens.verified(token) ?? tokens.verify(token));
  }
}

/** The client of a key or token that came over a connection with a certificate: they must name the same one. */
function sameClient(shown: Client, identity: Identity): Identity {
  return identity instanceof GatewayError || identity.name === shown.name ? identity : credentialsDiffer();
}

/** The tiers of a configuration; those that did not change are the same objects as before. */
export function createTiers(config: ClientsConfig, previous?: ReadonlyMap<string, Tier>): ReadonlyMap<string, Tier> {
  return new Map(
    Object.entries(config.tiers).map(([name, tier]) => {
      const before = previous?.get(name);
      return [name, before !== undefined && isDeepStrictEqual(before.config, tier) ? before : createTier(name, tier)];
    }),
  );
}

function createTier(name: string, config: TierConfig): Tier {
  const upstreams = new Set(config.upstreams);
  const seesAll = upstreams.has("*");
  return { name, config, seesAll, allows: (upstream) => seesAll || upstreams.has(upstream) };
}
