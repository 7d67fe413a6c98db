import { type KeyObject, generateKeyPairSync, sign } from "node:crypto";
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import { createServer as createTlsServer } from "node:https";
import type { AddressInfo } from "node:net";
import type { Client, Identity, Tier } from "../../src/clients/client.ts";
import type { KeySetLook } from "../../src/clients/key-set.ts";
import type { NamedIssuer } from "../../src/clients/tokens.ts";
import type { IssuerConfig } from "../../src/clients/token-verdict.ts";
import { GatewayError } from "../../src/errors.ts";

/** A key pair of an issuer, and how it signs. */
export interface IssuerKey {
  readonly algorithm: string;
  readonly publicKey: KeyObject;
  readonly privateKey: KeyObject;
  readonly jwk: Readonly<Record<string, unknown>>;
}

const CURVES: Readonly<Record<string, string>> = { ES256: "P-256", ES384: "P-384", ES512: "P-521" };

export function makeKey(algorithm: string, keyId?: string, bits = 2048): IssuerKey {
  const curve = CURVES[algorithm];
  const pair =
    algorithm === "EdDSA"
      ? generateKeyPairSync("ed25519")
      : curve === undefined
        ? generateKeyPairSync("rsa", { modulusLength: bits })
        : generateKeyPairSync("ec", { namedCurve: curve });
  const jwk = { ...pair.publicKey.export({ format: "jwk" }), ...(keyId === undefined ? {} : { kid: keyId }) };
  return { algorithm, ...pair, jwk };
}

export const base64url = (value: unknown): string =>
  (value instanceof Uint8Array
    ? Buffer.from(value)
    : Buffer.from(typeof value === "string" ? value : JSON.stringify(value))
  ).toString("base64url");

/** Signs what stands before the last dot, whatever it is. */
export function signText(text: string, { algorithm, privateKey }: IssuerKey): string {
  const data = Buffer.from(text);
  if (algorithm === "EdDSA") return sign(null, data, privateKey).toString("base64url");
  const key = algorithm.startsWith("ES") ? ({ key: privateKey, dsaEncoding: "ieee-p1363" } as const) : privateKey;
  return sign(`sha${algorithm.slice(2)}`, data, key).toString("base64url");
}

/** A token with this header and these claims; a string stands for itself. */
export function signToken(header: unknown, claims: unknown, key: IssuerKey): string {
  const text = `${base64url(header)}.${base64url(claims)}`;
  return `${text}.${signText(text, key)}`;
}

export function issuerConfig(over: Partial<IssuerConfig> = {}): IssuerConfig {
  return {
    issuer: "https://login.example",
    audience: "registry-gateway",
    algorithms: ["RS256", "ES256", "EdDSA"],
    clientClaim: "sub",
    tierClaim: "tier",
    clockTolerance: 30_000,
    ...over,
  };
}

export function tier(name: string): Tier {
  return { name, config: { per: 60_000, upstreams: ["*"], enforce: true }, seesAll: true, allows: () => true };
}

/** What a verdict comes to: `client wallet-a of wallet`, or the code of the error. */
export function verdictOf(identity: Identity | undefined): string {
  if (identity === undefined) return "not known yet";
  if (identity instanceof GatewayError) return identity.code;
  return `client ${identity.name} of ${identity.tier.name}`;
}

export function clientOf(identity: Identity | undefined): Client {
  if (identity === undefined || identity instanceof GatewayError) throw new Error(verdictOf(identity));
  return identity;
}

/** Keeps what is told of keys. */
export class RecordingTokenObserver {
  readonly left: string[] = [];
  readonly looks: (KeySetLook & { readonly issuer: string })[] = [];

  keysRead({ host }: NamedIssuer, look: KeySetLook): void {
    this.looks.push({ issuer: host, ...look });
  }

  keysLeft({ host }: NamedIssuer): void {
    this.left.push(host);
  }

  get news(): readonly (string | undefined)[] {
    return this.looks.filter(({ isNew }) => isNew).map(({ fault }) => fault);
  }
}

/** A server that answers with a JWK set, or with what a test tells it. */
export class KeyServer {
  requests = 0;
  /** Answers instead of the set. */
  answer: ((request: IncomingMessage, response: ServerResponse) => void) | undefined;
  fields: Readonly<Record<string, string>> = {};
  keys: readonly Readonly<Record<string, unknown>>[] = [];
  private readonly server: Server;
  private readonly isTls: boolean;

  constructor(tls?: { readonly cert: Buffer; readonly key: Buffer }) {
    const listener = (request: IncomingMessage, response: ServerResponse): void => {
      this.requests += 1;
      if (this.answer !== undefined) this.answer(request, response);
      else
        response
          .writeHead(200, { "content-type": "application/json", ...this.fields })
          .end(JSON.stringify({ keys: this.keys }));
    };
    this.isTls = tls !== undefined;
    this.server = tls === undefined ? createServer(listener) : createTlsServer(tls, listener);
  }

  async listen(): Promise<this> {
    await new Promise<void>((resolve) => {
      this.server.listen(0, "127.0.0.1", resolve);
    });
    return this;
  }

  get url(): string {
    const { port } = this.server.address() as AddressInfo;
    return `${this.isTls ? "https://localhost" : "http://127.0.0.1"}:${port}/jwks.json?v=1`;
  }

  async close(): Promise<void> {
    this.server.closeAllConnections();
    await new Promise((resolve) => {
      this.server.close(resolve);
    });
  }
}
