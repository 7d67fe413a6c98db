import { deadlineFromNow, type RequestContext } from "./context.ts";
import { cacheRequestOf } from "./metadata.ts";
import { fieldsOfForeignType, passThroughUpstream } from "./pass-through.ts";
import { adminHeaderOf } from "./resolve-upstream.ts";
import type { Answer } from "./send.ts";
import type { PassThroughTarget } from "./target.ts";

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
