import { hash } from "node:crypto";
import { createRemoteJWKSet, errors, type JWTPayload, jwtVerify } from "jose";
import { LRUCache } from "lru-cache";
import type { Clock, Duration, Instant } from "../clock.ts";
import type { IssuerConfig } from "../config/schema.ts";
import { GatewayError } from "../errors.ts";
import { isObject, parseJson } from "../json.ts";
import type { Client } from "./client.ts";
import { invalid } from "./credential.ts";

/** Seconds that the clocks of issuer and gateway may differ by. */
const CLOCK_TOLERANCE = 5;
/** Age at which a key set is asked for anew, in the background. */
const RENEW_AFTER: Duration = 600_000;
/** A key set is kept for a day while its issuer is away, waited for 2 s, and asked for again for a key that it lacks. */
const KEY_SET = { cacheMaxAge: 86_400_000, timeoutDuration: 2_000, cooldownDuration: 10_000 };
/** Pause after a failure, in which nothing is asked: clients choose their tokens. */
const PAUSE: Duration = 1_000;
/** Time for which a verified token is known. Then its key has to be in the set still. */
const KNOWN_FOR: Duration = 60_000;
const MOST_KNOWN = 10_000;
/** New tokens that are looked at at once. */
const MOST_CHECKED = 1_000;

interface Issuer {
  readonly config: IssuerConfig;
  readonly keys: ReturnType<typeof createRemoteJWKSet>;
  renewedAt: Instant;
  pausedUntil: Instant;
}

/** The client that an issuer's token names; undefined: there is no such tier. */
type ClientOf = (name: string, tier: string, issuer: string) => Client | undefined;

/** Clients by the tokens of issuers. */
export class Tokens {
  private readonly clock: Clock;
  private readonly clientOf: ClientOf;
  private readonly issuers: ReadonlyMap<string, Issuer>;
  private readonly known = new LRUCache<string, { readonly client: Client; readonly until: number }>({
    max: MOST_KNOWN,
  });
  private readonly pending = new Map<string, Promise<Client>>();

  /** @param previous whose key sets are taken over, so that a reload asks nobody */
  constructor(configs: readonly IssuerConfig[], clientOf: ClientOf, clock: Clock, previous: Tokens | undefined) {
    this.clock = clock;
    this.clientOf = clientOf;
    this.issuers = new Map(
      configs.map((config) => {
        const before = previous?.issuers.get(config.issuer);
        const isKept = before !== undefined && before.config.jwksUrl === config.jwksUrl;
        const keys = isKept ? before.keys : createRemoteJWKSet(new URL(config.jwksUrl), KEY_SET);
        return [config.issuer, { renewedAt: -Infinity, pausedUntil: -Infinity, ...before, config, keys }];
      }),
    );
  }

  /** Whether a credential is a token that names an issuer of ours, proved or not. */
  isOurs(text: string): boolean {
    return this.issuerOf(text) !== undefined;
  }

  /**
   * The client of a token: at once where it was verified before.
   *
   * @throws GatewayError 401, or 503 while its issuer's keys cannot be had; the promise rejects with the same
   */
  identify(token: string): Client | Promise<Client> {
    const digest = hash("sha256", token, "base64url");
    const known = this.known.get(digest);
    if (known !== undefined && this.clock.wallNow() < known.until) return known.client;
    const running = this.pending.get(digest);
    if (running !== undefined) return running;
    if (this.pending.size >= MOST_CHECKED) {
      throw new GatewayError("overloaded", "too many new tokens are checked just now; try again in 1 s", {
        retryAfter: 1,
      });
    }
    const checked = this.verify(token, digest).finally(() => this.pending.delete(digest));
    this.pending.set(digest, checked);
    return checked;
  }

  private issuerOf(token: string): Issuer | undefined {
    const [, payload, signature] = token.split(".", 3);
    if (payload === undefined || signature === undefined) return undefined;
    const claims = parseJson(Buffer.from(payload, "base64url").toString());
    const iss = isObject(claims) ? claims["iss"] : undefined;
    return typeof iss === "string" ? this.issuers.get(iss) : undefined;
  }

  private async verify(token: string, digest: string): Promise<Client> {
    const issuer = this.issuerOf(token)!;
    const { config } = issuer;
    const claims = await this.claimsOf(token, issuer);
    const name = claims[config.clientClaim];
    if (typeof name !== "string" || !isClientName(name)) throw NO_NAME;
    const tier = claims[config.tierClaim] ?? config.tier;
    const client = typeof tier === "string" ? this.clientOf(name, tier, config.issuer) : undefined;
    if (client === undefined) throw NO_TIER;
    const until = Math.min(this.clock.wallNow() + KNOWN_FOR, claims.exp! * 1_000);
    this.known.set(digest, { client, until });
    return client;
  }

  private async claimsOf(token: string, issuer: Issuer): Promise<JWTPayload> {
    const { config, keys } = issuer;
    const now = this.clock.now();
    const hasKeys = keys.jwks() !== undefined;
    if (!hasKeys && now < issuer.pausedUntil) throw noKeys(undefined);
    if (!hasKeys || now - issuer.renewedAt > RENEW_AFTER) {
      issuer.renewedAt = now;
      if (hasKeys) keys.reload().catch(() => undefined);
    }
    try {
      const { payload } = await jwtVerify(token, keys, {
        issuer: config.issuer,
        audience: config.audience,
        requiredClaims: ["exp"],
        clockTolerance: CLOCK_TOLERANCE,
        currentDate: new Date(this.clock.wallNow()),
      });
      return payload;
    } catch (error) {
      if (error instanceof errors.JOSEError && OF_THE_TOKEN.test(error.code)) throw refusalOf(error);
      issuer.pausedUntil = this.clock.now() + PAUSE;
      throw noKeys(error);
    }
  }
}

/** Codes of errors that speak of the token. All others are about its issuer's keys: no answer, no key set, no connection. */
const OF_THE_TOKEN = /^ERR_(?:JWT_|JWS_|JOSE_ALG_|JOSE_NOT_SUPPORTED|JWKS_(?:NO|MULTIPLE)_MATCHING_)/;

const EXPIRED = new GatewayError("credential_expired", "the token has expired; get a new one");
const OTHER_AUDIENCE = invalid("the token is for another audience; get one for this gateway");
const TOO_EARLY = invalid("the token is not valid yet; send it later, or set the issuer's clock");
const BAD_CLAIMS = invalid(
  "the token lacks a claim that it must have, such as exp, or has a wrong one; report it to its issuer",
);
const BAD_SIGNATURE = invalid("the token is not signed by a key that its issuer has published; get a new token");
const NO_KEY_ID = invalid(
  "the token does not say by kid which of its issuer's keys it is signed by, and there are several; report it to its issuer",
);
const NO_NAME = invalid(
  "the token names no client as this gateway expects it, in one claim, a text of 1 to 200 plain characters; " +
    "report its claims to the gateway's operator",
);
const NO_TIER = invalid(
  "the token names no tier that this gateway has; ask the gateway's operator which tiers there are",
);

function refusalOf(error: Error): GatewayError {
  if (error instanceof errors.JWTExpired) return EXPIRED;
  if (error instanceof errors.JWKSMultipleMatchingKeys) return NO_KEY_ID;
  if (!(error instanceof errors.JWTClaimValidationFailed)) return BAD_SIGNATURE;
  if (error.claim === "aud") return OTHER_AUDIENCE;
  return error.claim === "nbf" && error.reason === "check_failed" ? TOO_EARLY : BAD_CLAIMS;
}

function noKeys(cause: unknown): GatewayError {
  return new GatewayError(
    "client_keys_unavailable",
    "the keys of the token's issuer cannot be had just now, so that the token can be neither taken nor refused; " +
      "try again in 5 s",
    { retryAfter: 5, cause },
  );
}

/** Plain text that stands in log lines and labels; `anonymous` there are those without a credential. */
function isClientName(name: string): boolean {
  return /^[^\p{C}\p{Z}](?:[^\p{C}\p{Zl}\p{Zp}]{0,198}[^\p{C}\p{Z}])?$/u.test(name) && name !== "anonymous";
}
