import type { Config } from "../config/schema.ts";
import type { RegistryMetadata } from "../registry/registry-metadata.ts";
import type { Upstream } from "../upstream/upstream.ts";
import type { Upstreams } from "../upstream/upstreams.ts";
import { type Cors, createCors } from "./cors.ts";
import { HitMemo } from "./hit.ts";
import { adminNotNamed } from "./resolve-upstream.ts";

/**
 * What a request works with: immutable, and taken once, when the request begins. A reload swaps it for the requests to
 * come.
 */
export interface Snapshot {
  readonly config: Config;
  readonly upstreams: Upstreams;
  /** The cached endpoints of each upstream. */
  readonly registries: ReadonlyMap<Upstream, RegistryMetadata>;
  readonly cors: Cors;
  readonly hits: HitMemo;
}

export function createSnapshot(
  config: Config,
  upstreams: Upstreams,
  registries: ReadonlyMap<Upstream, RegistryMetadata>,
): Snapshot {
  const cors = createCors(config.cors, config.routing.adminHeader);
  return { config, upstreams, registries, cors, hits: new HitMemo() };
}

/** True where the plain base URL stands for all registries together. */
export function isAggregate({ upstreams, config }: Snapshot): boolean {
  return upstreams.all.length > 1 && config.routing.plain === "aggregate";
}

/** True where a request that names no registry goes to one all the same. */
export function hasPlainUpstream(snapshot: Snapshot): boolean {
  return findPlainUpstream(snapshot) !== undefined;
}

/**
 * The registry of a request that names none: the sole one, or the one that `routing.plain` names.
 *
 * @param bodyMayName the request is a factory call, whose body could have named its admin
 * @throws GatewayError 400 that says how to name the registry
 */
export function plainUpstream(snapshot: Snapshot, bodyMayName: boolean): Upstream {
  const upstream = findPlainUpstream(snapshot);
  if (upstream === undefined) throw adminNotNamed(snapshot.config.routing, bodyMayName);
  return upstream;
}

function findPlainUpstream({ upstreams, config }: Snapshot): Upstream | undefined {
  return upstreams.all.length === 1 ? upstreams.all[0] : upstreams.byName(config.routing.plain);
}
