import type { Clock } from "../clock.ts";
import type { ClientsConfig } from "../config/schema.ts";
import type { LoadedConfig } from "../config/loaded.ts";
import { GatewayError } from "../errors.ts";
import { networkOf } from "./address.ts";
import { type Client, type ClientReport, type LimitState, tierOf } from "./client.ts";
import { credentialsIn, type Shown, showsKey } from "./credential.ts";
import { Keys } from "./keys.ts";
import { ClientLimits } from "./limits.ts";
import { Tokens } from "./tokens.ts";

const MISSING = new GatewayError(
  "credential_missing",
  "this gateway serves known clients alone, and the request shows no credential of it; send your API key, which begins with " +
    "rgk_, in the header X-API-Key or, where a client can only set a token, as its token (Authorization: Bearer rgk_…); " +
    "the gateway's operator gives out keys",
);

const DIFFERENT = new GatewayError(
  "credentials_differ",
  "the request shows two credentials of this gateway that are not the same; send one of them",
);

/** The clients of one configuration: who calls, and how much. A reload hands limits with their counts on to the next one. */
export class Clients {
  private readonly config: ClientsConfig;
  private readonly loaded: LoadedConfig;
  private readonly clock: Clock;
  private readonly tiers: ReadonlyMap<string, ReturnType<typeof tierOf>>;
  private readonly keys: Keys;
  private readonly tokens: Tokens;
  private readonly limits: ClientLimits;

  private constructor(loaded: LoadedConfig, clock: Clock, previous: Clients | undefined) {
    this.loaded = loaded;
    this.config = loaded.config.clients!;
    this.clock = clock;
    this.tiers = new Map(Object.entries(this.config.tiers).map(([name, tier]) => [name, tierOf(name, tier)]));
    this.limits = previous?.limits ?? new ClientLimits(clock);
    this.keys = new Keys(loaded.keys, (name, tier) => ({
      name,
      kind: "key",
      id: `key:${name}`,
      ...this.tiers.get(tier)!,
    }));
    const ofToken = (name: string, tierName: string, issuer: string): Client | undefined => {
      const tier = this.tiers.get(tierName);
      return tier && { name, kind: "token", id: `token:${issuer}:${name}`, ...tier };
    };
    this.tokens = new Tokens(this.config.jwt, ofToken, clock, previous?.tokens);
  }

  /** The clients of a configuration that has `clients`; undefined for one that has none. */
  static create(
    loaded: LoadedConfig,
    previous: Clients | undefined,
    { clock }: { readonly clock: Clock },
  ): Clients | undefined {
    return loaded.config.clients === undefined ? undefined : new Clients(loaded, clock, previous);
  }

  /**
   * Who sent a request: at once, but for a token that was not verified before. What is not ours names nobody: wallets send
   * their ledger's token everywhere.
   *
   * @param address the client's, as text
   * @throws GatewayError 401 or 503; the promise rejects with the same
   */
  identify(rawHeaders: readonly string[], address: string): Client | Promise<Client> {
    const [first, second] = credentialsIn(rawHeaders).filter((each) => this.isOurs(each));
    if (first === undefined) return this.anonymousAt(address);
    if (second !== undefined) throw DIFFERENT;
    return first.kind === "key" ? this.keys.find(first.text, this.clock.wallNow()) : this.tokens.identify(first.text);
  }

  /** Whether a credential is one of this gateway's, good or not. */
  isOurs({ kind, text }: Shown): boolean {
    return kind === "key" || this.tokens.isOurs(text);
  }

  /** Counts one request, where there is room for it. */
  admit(client: Client): LimitState {
    return this.limits.admit(client);
  }

  /**
   * Takes a place among the client's calls that run at once; what is returned gives it back.
   *
   * @throws GatewayError 429 where all places are taken
   */
  enter(client: Client): () => void {
    return this.limits.enter(client);
  }

  /** All of the keys file, and whoever else called; the latest first. */
  report(): ClientReport[] {
    const reports = this.limits.named();
    for (const [name, keys] of Map.groupBy(this.loaded.keys, (key) => key.name)) {
      const id = `key:${name}`;
      const report = reports.get(id) ?? { name, kind: "key", tier: keys[0]!.tier, requests: 0, refused: 0, running: 0 };
      const expires = Math.max(...keys.map((key) => key.expires ?? Infinity));
      reports.set(id, Number.isFinite(expires) ? { ...report, expires } : report);
    }
    const { anonymous: tier } = this.config;
    if (tier !== false) reports.set("", { name: "anonymous", kind: "anonymous", tier, ...this.limits.anonymous() });
    return [...reports.values()].toSorted((one, other) => (other.lastSeen ?? 0) - (one.lastSeen ?? 0));
  }

  private anonymousAt(address: string): Client {
    const { anonymous } = this.config;
    if (anonymous === false) throw MISSING;
    return { name: "anonymous", kind: "anonymous", id: `address:${networkOf(address)}`, ...this.tiers.get(anonymous)! };
  }
}

/** Whether an `Authorization` field holds a credential of this gateway: it goes no further, with or without `clients`. */
export function isOwnAuthorization(field: string, clients: Clients | undefined): boolean {
  return (
    showsKey(field) ||
    (clients !== undefined && credentialsIn(["authorization", field]).some((each) => clients.isOurs(each)))
  );
}
