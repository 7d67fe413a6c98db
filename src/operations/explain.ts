import type { Explanation } from "../cache/explanation.ts";
import type { HttpCache } from "../cache/http-cache.ts";
import { GatewayError } from "../errors.ts";
import type { CachedOperation } from "../spec/endpoints.ts";
import { isAggregate, plainUpstream } from "../http/plain.ts";
import { resolveUpstream } from "../http/resolve-upstream.ts";
import type { Surroundings } from "../http/context.ts";
import { parsePageQuery, parseTarget } from "../http/target.ts";

/** What `GET /explain` answers: which registry a path means, and what the cache has and would do. */
export interface PathExplanation {
  readonly upstream: string;
  readonly admin: string | undefined;
  readonly operation: string;
  readonly cached: boolean;
  readonly explanation?: Explanation;
}

/** @throws GatewayError as a request to `path` would be refused */
export type Explain = (path: string) => Promise<PathExplanation>;

/** Explains paths of the public listener without asking an upstream. */
export function createExplain(surroundings: Surroundings, cache: HttpCache): Explain {
  return async function explain(path) {
    const runtime = surroundings.runtime();
    const { routing } = runtime.config;
    const target = parseTarget(path, routing.prefix);
    if (target.kind === "local") throw new GatewayError("no_such_path", "the path is not below /registry/");
    const rules = { ...routing, upstreams: runtime.upstreams };
    const named = resolveUpstream(
      rules,
      { path: target.registry, header: undefined, body: [] },
      { deadline: () => surroundings.clock.now() },
    );
    // With one source nothing has to be compared, so nothing is waited for.
    if (named instanceof Promise)
      throw new GatewayError("admin_not_known_yet", "the registry has not told its admin yet");
    if (named === undefined && isAggregate(runtime)) {
      throw new GatewayError("admin_missing", "the path stands for several registries; explain the path of one");
    }
    const upstream = named ?? plainUpstream(runtime, false);
    const { admin, name } = upstream;
    if (target.kind === "pass-through") {
      return { upstream: name, admin, operation: "pass_through", cached: false };
    }
    const { operation, kind } = target.endpoint;
    if (kind !== "metadata" || admin === undefined) return { upstream: name, admin, operation, cached: false };
    const page = operation === "instruments" ? parsePageQuery(target.query) : undefined;
    const resource = runtime.metadata
      .get(upstream)!
      .resource(admin, { operation: operation as CachedOperation, id: target.id, ...page });
    return { upstream: name, admin, operation, cached: true, explanation: await cache.explain(resource) };
  };
}
