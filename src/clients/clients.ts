import type { IncomingMessage } from "node:http";
import { isDeepStrictEqual } from "node:util";
import type { Clock } from "../clock.ts";
import type { ClientsConfig, Config } from "../config/schema.ts";
import type { FileWatcher } from "../config/watched-files.ts";
import { GatewayError } from "../errors.ts";
import { ClientAddresses } from "./client-address.ts";
import { CertificateClients, type CertificateOptions } from "./client-certificate.ts";
import { ClientKeys, type KeyHolder, type KeysObserver } from "./client-keys.ts";
import type { Client, ClientLimits, Identity, Tier, TierConfig } from "./client.ts";
import {
  credentialInUrl,
  credentialMissing,
  type CredentialRules,
  credentialsDiffer,
  looksLikeKey,
  takeCredential,
} from "./credential.ts";
import { type TokenObserver, Tokens } from "./tokens.ts";

/** Whom {@link Clients} asks. What is not configured is undefined. */
interface ClientsParts {
  readonly clock: Clock;
  readonly limits: ClientLimits;
  readonly tiers: ReadonlyMap<string, Tier>;
  readonly keys: ClientKeys | undefined;
  readonly tokens: Tokens | undefined;
  readonly certificates: CertificateClients | undefined;
  /** The tier of clients without a credential; undefined: they may not call. */
  readonly anonymous: Tier | undefined;
  readonly addresses: ClientAddresses;
}

/** What clients are made with besides the configuration. */
export interface ClientsEnvironment {
  readonly clock: Clock;
  readonly files: FileWatcher;
  /** Outlives configurations, and with it what was counted. */
  readonly limits: ClientLimits;
  readonly observer: { readonly keys: KeysObserver; readonly tokens: TokenObserver };
}

const NOTHING: Tier = {
  name: "none",
  config: { per: 60_000, upstreams: [], enforce: true },
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
  "the header x-api-key holds no API key, which begins with rgk_, and this gateway takes no tokens: send your key whole, " +
    "or ask the gateway's operator for one",
);

/** What of a request says who sent it. */
type IdentifiedRequest = Pick<IncomingMessage, "headers" | "rawHeaders" | "socket">;

/** Who calls, of one configuration. */
export class Clients {
  private readonly parts: ClientsParts;
  private readonly rules: CredentialRules;

  private constructor(parts: ClientsParts) {
    this.parts = parts;
    this.rules = {
      isOurToken: (token) => parts.tokens?.claimsIssuer(token) ?? false,
    };
  }

  /**
   * The clients of a configuration that has `clients`.
   *
   * @param previous of the configuration before: what did not change stays, with the state of its clients' limits
   * @throws {ConfigError} where the keys file is no good and never was
   */
  static open({ clients, listen }: Config, environment: ClientsEnvironment, previous?: Clients): Clients {
    const { clock, files, limits, observer } = environment;
    const { keysFile, jwt, certificates, anonymous } = clients!;
    const before = previous?.parts;
    const tiers = createTiers(clients!, before?.tiers);
    const keys =
      keysFile === undefined
        ? undefined
        : new ClientKeys({ file: keysFile, tiers, files, observer: observer.keys, previous: before?.keys });
    const tokens = { issuers: jwt, tiers, clock, files, observer: observer.tokens };
    return new Clients({
      clock,
      limits,
      tiers,
      keys,
      tokens: jwt.length === 0 ? undefined : new Tokens(tokens, before?.tokens),
      certificates:
        certificates &&
        certificatesOf({ ...certificates, tier: tiers.get(certificates.tier)!, clock }, before?.certificates),
      anonymous: anonymous === false ? undefined : tiers.get(anonymous)!,
      addresses: new ClientAddresses(listen.trustedProxies),
    });
  }

  get tiers(): ReadonlyMap<string, Tier> {
    return this.parts.tiers;
  }

  get limits(): ClientLimits {
    return this.parts.limits;
  }

  /** Of those who need no credential: what the pages show that everybody may read. */
  get openTier(): Tier {
    return this.parts.anonymous ?? NOTHING;
  }

  /** Those of the keys file, whether they have called or not. */
  keyHolders(): readonly KeyHolder[] {
    return this.parts.keys?.holders() ?? [];
  }

  /** Of the keys file as it is in use; undefined: there is none. */
  get keysDigest(): string | undefined {
    return this.parts.keys?.digest;
  }

  /** Looks for changes of its files from now on. */
  start(): void {
    this.parts.keys?.start();
    this.parts.tokens?.start();
  }

  /** No longer looks for changes. Requests that began with it can still learn who sends them. */
  stop(): void {
    this.parts.keys?.stop();
    this.parts.tokens?.stop();
  }

  /**
   * Who sent a request, or the 401 for it. Its credential is gone from its header fields then. At once, but for a token
   * that was not verified before.
   */
  identify(request: IdentifiedRequest): Identity | Promise<Identity> {
    const { certificates } = this.parts;
    const credential = takeCredential(request, this.rules);
    if (credential instanceof GatewayError) return credential;
    const shown = certificates?.at(request.socket);
    if (shown instanceof GatewayError) return shown;
    if (credential === undefined) return shown ?? this.withoutCredential(request);
    const identity = looksLikeKey(credential) ? this.byKey(credential) : this.byToken(credential);
    if (shown === undefined) return identity;
    return identity instanceof Promise ? identity.then((each) => sameClient(shown, each)) : sameClient(shown, identity);
  }

  /** The 401 for a URL that shows a key or a token. */
  refuseUrl(url: string): GatewayError | undefined {
    return credentialInUrl(url, this.rules);
  }

  private withoutCredential(request: IdentifiedRequest): Identity {
    const { anonymous: tier, addresses } = this.parts;
    if (tier === undefined) return credentialMissing(request.headers.authorization !== undefined);
    return { kind: "anonymous", name: "anonymous", tier, id: `address:${addresses.of(request).block}` };
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

function certificatesOf(options: CertificateOptions, before: CertificateClients | undefined): CertificateClients {
  const { name, tier } = before?.options ?? {};
  return before !== undefined && name === options.name && tier === options.tier
    ? before
    : new CertificateClients(options);
}

/** The tiers of a configuration; those that did not change are the same objects as before. */
function createTiers(config: ClientsConfig, previous?: ReadonlyMap<string, Tier>): ReadonlyMap<string, Tier> {
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
