import type { Upstream } from "../upstream/upstream.ts";
import { adminNotNamed } from "./resolve-upstream.ts";
import type { Runtime } from "./runtime.ts";

/**
 * The registry that a request means which names none: the sole one, or the one that `routing.plain` names.
 *
 * @param bodyMayName the request is a factory call, whose body could have named its admin
 * @throws GatewayError 400 that says how to name the registry
 */
export function plainUpstream(runtime: Runtime, bodyMayName: boolean): Upstream {
  const { upstreams, config } = runtime;
  const sole = upstreams.all[0];
  if (upstreams.all.length === 1 && sole !== undefined) return sole;
  const named = upstreams.byName(config.routing.plain);
  if (named !== undefined) return named;
  throw adminNotNamed(routingNames(runtime), bodyMayName);
}

/** True where the plain base URL stands for all registries together. */
export function isAggregate(runtime: Runtime): boolean {
  return runtime.upstreams.all.length > 1 && runtime.config.routing.plain === "aggregate";
}

function routingNames(runtime: Runtime): { prefix: string; adminHeader: string } {
  return { prefix: runtime.config.routing.prefix, adminHeader: runtime.config.routing.adminHeader };
}
