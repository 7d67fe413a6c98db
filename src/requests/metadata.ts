import type { CacheRequest } from "../cache/resource.ts";
import type { Instant } from "../clock.ts";
import { type CachedOperation, cachedRecord } from "../spec/operations.ts";
import { answerAggregate } from "./aggregate.ts";
import { clientSignal, deadlineFromNow, type DeadlineOf, type RequestContext } from "./context.ts";
import type { HitTarget } from "./hit.ts";
import { fieldsOfForeignType, passThroughUpstream } from "./pass-through.ts";
import {
  adminHeaderOf,
  checkMayUse,
  isAggregate,
  namedBy,
  namedUpstream,
  plainUpstream,
  routeTo,
} from "./resolve-upstream.ts";
import type { Answer } from "./send.ts";
import { parsePageQuery, type PassThroughTarget, type RegistryTarget } from "./target.ts";

/**
 * Endpoints 1–3 of one registry, through its cache: the way of every metadata request that was no fresh memory hit.
 */
export async function answerMetadata(context: RequestContext): Promise<Answer> {
  const { services, snapshot, request } = context;
  const header = adminHeaderOf(request.rawHeaders, snapshot.config.routing.adminHeader);
  const deadlineOf = deadlineFromNow(request.headers, services.clock);

  const remembered = header === undefined ? context.remembered : undefined;
  const found = remembered ?? (await findTarget(context, header, deadlineOf));
  if (found === undefined) return answerAggregate(context);
  const { upstream } = found;
  checkMayUse(context.client?.tier, upstream);
  context.upstream = upstream;
  const answer = await services.cache.respond(found.resource, cacheRequestOf(context, deadlineOf(upstream)));
  context.outcome = answer.outcome;
  context.age = answer.age;
  context.windowUsed = answer.windowUsed;
  if (header === undefined && remembered === undefined) snapshot.hits.remember(request.url!, found);
  return answer;
}

/** A client's request as the cache sees it. */
function cacheRequestOf(context: RequestContext, deadline: Instant): CacheRequest {
  const { method, headers } = context.request;
  return {
    method: method as "GET" | "HEAD",
    headers,
    deadline,
    forwarded(status) {
      context.forwarded = status;
    },
    // Made when it is first asked for: what is cached in any tier needs none.
    get signal() {
      return clientSignal(context);
    },
  };
}

/** What the request asks for; undefined on the plain base URL of all registries. */
async function findTarget(
  context: RequestContext,
  header: string | undefined,
  deadlineOf: DeadlineOf,
): Promise<HitTarget | undefined> {
  const { services, snapshot } = context;
  const target = context.target as RegistryTarget;
  const operation = target.endpoint.operation as CachedOperation;
  const page = cachedRecord(operation).address === "page" ? parsePageQuery(target.query) : undefined;
  const named = await namedUpstream(context, { header }, deadlineOf);
  if (named === undefined && isAggregate(snapshot)) return undefined;
  const upstream = named ?? plainUpstream(snapshot, false);
  // Before it is waited for: if that fails, its name is counted and logged.
  routeTo(context, upstream, named === undefined ? "plain" : namedBy(context, header));
  const admin = upstream.admin ?? (await upstream.learnAdmin(deadlineOf(upstream), clientSignal(context)));
  const resource = snapshot.registries.get(upstream)!.resource(admin, { operation, id: target.id, ...page });
  const recordHit = services.observers.traffic.recorder({ operation, upstream: upstream.name, outcome: "hit" });
  return { target, operation, upstream, admin, resource, recordHit };
}

/** A GET of one of `extraPaths` without a query, through the cache of its registry. */
export async function answerExtraPath(context: RequestContext): Promise<Answer> {
  const { services, snapshot, request } = context;
  const { extraPath } = context.target as PassThroughTarget;
  const header = adminHeaderOf(request.rawHeaders, snapshot.config.routing.adminHeader);
  const deadlineOf = deadlineFromNow(request.headers, services.clock);
  const upstream = await passThroughUpstream(context, { header }, { deadlineOf, bodyMayName: false });
  const registry = snapshot.registries.get(upstream)!;
  const cacheRequest = cacheRequestOf(context, deadlineOf(upstream));
  const resource = registry.extraPath(await registry.admin(cacheRequest), extraPath!);
  const answer = await services.cache.respond(resource, cacheRequest);
  context.outcome = answer.outcome;
  context.age = answer.age;
  return { ...answer, fields: fieldsOfForeignType(answer.fields) };
}
