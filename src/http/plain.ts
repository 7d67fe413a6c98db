import type { Upstream } from "../upstream/upstream.ts";
import { adminNotNamed } from "./resolve-upstream.ts";
import type { Runtime } from "./context.ts";

/**
 * The registry that a request means which names none: the sole one, or the one that `routing.plain` names.
 *
 * @param bodyMayName the request is a factory call, whose body could have named its admin
 * @throws GatewayError 400 that says how to name the registry
 */
export function plainUpstream(runtime: Runtime, bodyMayName: boolean): Upstream {
  const upstream = findPlainUpstream(runtime);
  if (upstream !== undefined) return upstream;
  throw adminNotNamed(routingNames(runtime), bodyMayName);
}

/** True where a request that names no registry means one of them all the same. */
export function hasPlainUpstream(runtime: Runtime): boolean {
  return findPlainUpstream(runtime) !== undefined;
}

/** True where the plain base URL stands for all registries together. */
export function isAggregate(runtime: Runtime): boolean {
  return runtime.upstreams.all.length > 1 && runtime.config.routing.plain === "aggregate";
}

function findPlainUpstream({ upstreams, config }: Runtime): Upstream | undefined {
  return upstreams.all.length === 1 ? upstreams.all[0] : upstreams.byName(config.routing.plain);
}

function routingNames(runtime: Runtime): { prefix: string; adminHeader: string } {
  return { prefix: runtime.config.routing.prefix, adminHeader: runtime.config.routing.adminHeader };
}
