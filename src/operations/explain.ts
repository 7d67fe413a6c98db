import type { Explanation } from "../cache/explanation.ts";
import { GatewayError } from "../errors.ts";
import { cachedRecord } from "../spec/operations.ts";
import type { Services, Snapshot } from "../requests/context.ts";
import { isAggregate, plainUpstream, resolveUpstream } from "../requests/resolve-upstream.ts";
import { isKeptExtraPath, parsePageQuery, parseTarget } from "../requests/target.ts";

/** What `GET /explain` answers: which registry a path means, and what the cache has and would do. */
export interface PathExplanation {
  readonly upstream: string;
  readonly admin: string | undefined;
  readonly operation: string;
  readonly cached: boolean;
  /** The tiers whose clients may use the upstream; absent where everybody may. */
  readonly tiers?: readonly string[];
  /** Why nothing is kept, where `cached` is false. */
  readonly reason?: string;
  readonly explanation?: Explanation;
}

const NOT_KEPT = {
  call: "factories and choice contexts depend on parties, holdings and the moment: each request is a call, and no answer is kept",
  equal:
    "factories and choice contexts depend on parties, holdings and the moment: equal ones get one answer, as upstreams[].contexts says",
  passedThrough: "a call that is passed through is streamed and never kept",
  query:
    "an extra path with a query is streamed and never kept; without a query it is kept as long as the registry says",
  unproved: "the registry has not named its admin yet, under which entries are kept",
};

const BY_BODY = "a body that names another admin goes to the registry of that one";

/** @throws GatewayError as a request to `path` would be refused */
export type Explain = (path: string) => Promise<PathExplanation>;

/** Explains paths of the public listener without asking an upstream. */
export function createExplain({ clock, cache, snapshots }: Pick<Services, "clock" | "cache" | "snapshots">): Explain {
  return async function explain(path) {
    const snapshot = snapshots.latest;
    const { routing } = snapshot.config;
    const target = parseTarget(path, snapshot.addressing);
    if (target.kind === "local") throw new GatewayError("no_such_path", "the path is not below /registry/");
    const rules = { ...routing, upstreams: snapshot.upstreams };
    const named = resolveUpstream(
      rules,
      { path: target.registry, header: undefined, body: [] },
      { deadline: () => clock.now() },
    );
    // With one source nothing has to be compared, so nothing is waited for.
    if (named instanceof Promise)
      throw new GatewayError("admin_not_known_yet", "the registry has not named its admin yet");
    if (named === undefined && isAggregate(snapshot)) {
      throw new GatewayError("admin_missing", "the path stands for several registries; explain the path of one");
    }
    const upstream = named ?? plainUpstream(snapshot, false);
    const { admin, name } = upstream;
    const about = { upstream: name, admin, ...tiersFor(snapshot, name) };
    if (target.kind === "pass-through") {
      const { extraPath } = target;
      const operation = "pass_through";
      if (extraPath !== undefined && !upstream.config.extraPaths.includes(extraPath)) {
        throw new GatewayError("no_such_path", `the registry ${name} has no ${extraPath}`);
      }
      if (extraPath === undefined || !isKeptExtraPath(target)) {
        const reason = extraPath === undefined ? NOT_KEPT.passedThrough : NOT_KEPT.query;
        return { ...about, operation, cached: false, reason };
      }
      if (admin === undefined) return { ...about, operation, cached: false, reason: NOT_KEPT.unproved };
      const kept = snapshot.registries.get(upstream)!.extraPath(admin, extraPath);
      return { ...about, operation, cached: true, explanation: await cache.explain(kept) };
    }
    const { operation, kind } = target.endpoint;
    if (kind !== "metadata") {
      const isOpen = kind === "factory" && named === undefined;
      const { share, maxAge } = upstream.config.contexts;
      const call = share || maxAge > 0 ? NOT_KEPT.equal : NOT_KEPT.call;
      const reason = isOpen ? `${call}; ${BY_BODY}` : call;
      return { ...about, operation, cached: false, reason };
    }
    if (admin === undefined) return { ...about, operation, cached: false, reason: NOT_KEPT.unproved };
    const page = cachedRecord(operation).address === "page" ? parsePageQuery(target.query) : undefined;
    const resource = snapshot.registries.get(upstream)!.resource(admin, { operation, id: target.id, ...page });
    return { ...about, operation, cached: true, explanation: await cache.explain(resource) };
  };
}

function tiersFor({ clients }: Snapshot, upstream: string): { readonly tiers?: readonly string[] } {
  if (clients === undefined) return {};
  const allowed = [...clients.tiers.values()].filter((tier) => tier.allows(upstream));
  return { tiers: allowed.map(({ name }) => name) };
}
