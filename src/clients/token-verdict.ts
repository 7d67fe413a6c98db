import { JWTClaimValidationFailed, JWTExpired } from "jose/errors";
import type { ClientsConfig } from "../config/schema.ts";
import { GatewayError } from "../errors.ts";
import { isClientName, type Tier } from "./client.ts";

/** An issuer of tokens as it is configured. */
export type IssuerConfig = ClientsConfig["jwt"][number];

/** Whom a token names. */
export interface TokenSubject {
  readonly name: string;
  readonly tier: Tier;
}

// Made once: they say nothing of a token, and a flood of bad ones is to cost little.
export const MALFORMED = new GatewayError(
  "credential_invalid",
  "the request's credential is neither an API key, which begins with rgk_, nor a signed token (JWT) in compact form: send it " +
    "whole, as it was given out",
);
export const UNKNOWN_ISSUER = new GatewayError(
  "credential_invalid",
  "this gateway does not know the issuer of the token: get one from an issuer that its operator names",
);
export const WRONG_SIGNATURE = new GatewayError(
  "credential_invalid",
  "the token's signature is not by a key that its issuer has published: get a new token",
);
export const WRONG_CLAIMS: Readonly<Record<string, GatewayError>> = {
  aud: new GatewayError("credential_invalid", "the token is for another audience: get one for this gateway"),
  nbf: new GatewayError("credential_invalid", "the token is not valid yet: send it later, or set the issuer's clock"),
};
export const BAD_CLAIMS = new GatewayError(
  "credential_invalid",
  "the token lacks a claim that it must have, such as exp, or has one of a wrong type: report it to its issuer",
);
export const EXPIRED = new GatewayError("credential_expired", "the token has expired: get a new one");
export const NO_KEYS = new GatewayError(
  "client_keys_unavailable",
  "the keys of the token's issuer cannot be had just now, so that the token can be neither taken nor refused: try again " +
    "in 10 s",
  { retryAfter: 10 },
);
export const BUSY = new GatewayError("overloaded", "too many new tokens are being checked: try again in a second", {
  retryAfter: 1,
});
const NO_NAME = new GatewayError(
  "credential_invalid",
  "the token does not name a client as this gateway expects it: in one claim, a text of at most 200 characters; " +
    "report its claims to the gateway's operator",
);
const NO_TIER = new GatewayError(
  "credential_invalid",
  "the token names no tier that this gateway has: ask the gateway's operator which tiers there are",
);

/** Why a token is refused that could not be verified: the error that `jose` threw. */
export function refusalOf(reason: unknown): GatewayError {
  if (reason instanceof JWTExpired) return EXPIRED;
  if (reason instanceof JWTClaimValidationFailed) return WRONG_CLAIMS[reason.claim] ?? BAD_CLAIMS;
  return WRONG_SIGNATURE;
}

/**
 * Whom the claims of a verified token name. A tier that is named and is not there is no guess: it is an error, also where
 * the issuer has a tier of its own.
 */
export function subjectOf(
  claims: Readonly<Record<string, unknown>>,
  { clientClaim, tierClaim, tier }: IssuerConfig,
  tiers: ReadonlyMap<string, Tier>,
): TokenSubject | GatewayError {
  const name = Object.hasOwn(claims, clientClaim) ? claims[clientClaim] : undefined;
  if (typeof name !== "string" || !isClientName(name)) return NO_NAME;
  const named = tiers.get((Object.hasOwn(claims, tierClaim) ? claims[tierClaim] : tier) as string);
  return named === undefined ? NO_TIER : { name, tier: named };
}
