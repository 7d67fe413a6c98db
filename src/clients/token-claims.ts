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
const NO_NAME = new GatewayError(
  "credential_invalid",
  "the token does not name a client as this gateway expects it: in one claim, a text of at most 200 characters; " +
    "report its claims to the gateway's operator",
);
const NO_TIER = new GatewayError(
  "credential_invalid",
  "the token names no tier that this gateway has: ask the gateway's operator which tiers there are",
);

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
