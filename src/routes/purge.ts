import { Type } from "typebox";
import { Compile } from "typebox/compile";
import type { Coordinator, PurgeReach } from "../coordinator/coordinator.ts";
import { GatewayError } from "../errors.ts";
import { SCOPES } from "../metadata/metadata-key.ts";
import type { Upstreams } from "../upstream/upstreams.ts";

/** The body of `POST /purge`. */
export const PurgeRequest = Type.Object(
  {
    upstream: Type.Optional(Type.String()),
    endpoint: Type.Optional(
      Type.Union([Type.Literal("info"), Type.Literal("instruments"), Type.Literal("instrument")]),
    ),
    instrument: Type.Optional(Type.String()),
  },
  { additionalProperties: false },
);

const validator = Compile(PurgeRequest);

export interface PurgeResult {
  readonly purged: Type.Static<typeof PurgeRequest>;
  readonly reach: PurgeReach;
}

/**
 * Purges what `body` names: everything, one upstream, one kind of resource of it, or one instrument.
 *
 * @throws GatewayError 400 for a body of another form, 404 for an unknown upstream
 */
export async function purge(coordinator: Coordinator, upstreams: Upstreams, body: unknown): Promise<PurgeResult> {
  if (!validator.Check(body)) {
    const takes = 'upstream, endpoint ("info", "instruments" or "instrument") and instrument, as strings';
    throw new GatewayError(400, `the purge is not valid: it is a JSON object that takes ${takes}, and nothing else`);
  }
  const { upstream: name, endpoint, instrument } = body;
  if (name === undefined && (endpoint !== undefined || instrument !== undefined)) {
    throw new GatewayError(400, "the purge is not valid: endpoint and instrument need an upstream");
  }
  if (instrument !== undefined && endpoint !== "instrument") {
    throw new GatewayError(400, 'the purge is not valid: instrument needs "endpoint": "instrument"');
  }
  if (name === undefined) return { purged: body, reach: await coordinator.purge(undefined, SCOPES.all) };
  const upstream = upstreams.byName(name);
  if (upstream === undefined) throw new GatewayError(404, `there is no upstream ${JSON.stringify(name)}`);
  // Entries are kept under the admin: of an upstream whose admin nobody knows yet, there are none.
  if (upstream.admin === undefined) return { purged: body, reach: "replica" };
  return { purged: body, reach: await coordinator.purge(upstream.admin, scopesOf(endpoint, instrument)) };
}

function scopesOf(endpoint: string | undefined, instrument: string | undefined): readonly string[] {
  if (endpoint === undefined) return SCOPES.all;
  if (endpoint === "info") return SCOPES.info;
  return instrument === undefined ? SCOPES.instruments : SCOPES.instrument(instrument);
}
