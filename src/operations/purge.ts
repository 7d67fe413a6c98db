import { type Static, Type } from "typebox";
import { Compile } from "typebox/compile";
import type { Clock, Duration } from "../clock.ts";
import type { Dependencies, EpochsPort, PurgeReach } from "../sharing/ports.ts";
import { softScope } from "../sharing/epochs.ts";
import { GatewayError } from "../errors.ts";
import { contractScope, purgeScopes } from "../registry/metadata-key.ts";
import { CACHED_OPERATIONS } from "../spec/operations.ts";
import type { Upstream } from "../upstream/upstream.ts";
import type { Upstreams } from "../upstream/upstreams.ts";
import { findUpstream } from "./actions.ts";

/** The body of `POST /purge`. */
const PurgeRequest = Type.Object(
  {
    upstream: Type.Optional(Type.String()),
    endpoint: Type.Optional(Type.Enum(CACHED_OPERATIONS)),
    instrument: Type.Optional(Type.String()),
    contract: Type.Optional(Type.String()),
    soft: Type.Optional(Type.Boolean()),
  },
  { additionalProperties: false },
);

/** What is to be purged. */
type Purge = Static<typeof PurgeRequest>;

const validator = Compile(PurgeRequest);

export interface PurgeResult {
  readonly purged: Purge;
  readonly reach: PurgeReach;
}

/** How long a purge waits for the admin of an upstream to be known. */
const LEARN_TIMEOUT: Duration = 1_000;

export interface PurgeParts {
  readonly epochs: Pick<EpochsPort, "purge">;
  readonly upstreams: Upstreams;
  readonly clock: Clock;
  /** Redis is configured: it may hold entries of an upstream that has not named its admin yet. */
  readonly hasRedis: boolean;
}

/**
 * Purges what `body` names: everything, one upstream, one kind of resource of it, one instrument, or what is kept about one
 * contract. Softly: what is
 * stored becomes stale instead of going.
 *
 * @throws GatewayError 400 for a body of another form, 404 for an unknown upstream, 503 while its admin is not known
 */
export async function purge(parts: PurgeParts, body: unknown): Promise<PurgeResult> {
  const { epochs, upstreams } = parts;
  const purged = checkPurge(body);
  const { upstream: name, soft } = purged;
  const named = (scopes: readonly string[]) => (soft === true ? scopes.map(softScope) : scopes);
  if (name === undefined) return { purged, reach: await epochs.purge(undefined, named(purgeScopes())) };
  const upstream = findUpstream(upstreams, name);
  const admin = upstream.admin ?? (parts.hasRedis ? await learnAdmin(upstream, parts.clock) : undefined);
  // Entries are kept under the admin: while it is not known there are none, but in a Redis that had them before.
  if (admin === undefined) return { purged, reach: "replica" };
  return { purged, reach: await epochs.purge(admin, named(scopesOf(purged))) };
}

/** @throws GatewayError 400 for what is no purge */
function checkPurge(body: unknown): Purge {
  if (!validator.Check(body)) {
    const endpoints = CACHED_OPERATIONS.map((each) => JSON.stringify(each)).join(", ");
    const takes = `upstream, endpoint (one of ${endpoints}), instrument and contract, as strings, and soft (true or false)`;
    throw new GatewayError(
      "invalid_request",
      `the purge is not valid: it is a JSON object that takes ${takes}, and nothing else`,
    );
  }
  const { upstream: name, endpoint, instrument, contract } = body;
  if (name === undefined && (endpoint ?? instrument ?? contract) !== undefined) {
    throw new GatewayError(
      "invalid_request",
      "the purge is not valid: endpoint, instrument and contract need an upstream",
    );
  }
  if (contract !== undefined && endpoint !== undefined) {
    throw new GatewayError("invalid_request", "the purge is not valid: endpoint and contract exclude each other");
  }
  if (instrument !== undefined && endpoint !== "instrument") {
    throw new GatewayError("invalid_request", 'the purge is not valid: instrument needs "endpoint": "instrument"');
  }
  return body;
}

function scopesOf({ endpoint, instrument, contract }: Purge): readonly string[] {
  return contract === undefined ? purgeScopes(endpoint, instrument) : [contractScope(contract)];
}

/**
 * Which keys a purge takes.
 *
 * @throws GatewayError 400 and 404, as {@link purge}
 */
export function takenBy(upstreams: Upstreams, body: unknown): (key: Dependencies) => boolean {
  const purged = checkPurge(body);
  const { upstream: name } = purged;
  if (name === undefined) return () => true;
  const { admin } = findUpstream(upstreams, name);
  const scopes = scopesOf(purged);
  return (key) => key.partition === admin && scopes.some((scope) => key.scopes.includes(scope));
}

async function learnAdmin(upstream: Upstream, clock: Clock): Promise<string> {
  try {
    return await upstream.learnAdmin(clock.now() + LEARN_TIMEOUT);
  } catch (error) {
    const message =
      `the admin of ${JSON.stringify(upstream.name)} is not known yet, so that nothing was purged; ` +
      "try again, or purge everything ({})";
    throw new GatewayError("admin_not_known_yet", message, { cause: error });
  }
}
