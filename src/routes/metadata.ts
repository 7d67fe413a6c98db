import type { IncomingMessage, ServerResponse } from "node:http";
import type { HttpCache } from "../cache/http-cache.ts";
import type { CachedOperation } from "../spec/endpoints.ts";
import { clientSignal } from "./client-signal.ts";
import { deadlineFromNow } from "./deadline.ts";
import type { Exchange } from "./exchange.ts";
import { answerAggregate } from "./aggregate.ts";
import { isAggregate, plainUpstream } from "./plain.ts";
import { adminHeaderOf, resolveUpstream } from "./resolve-upstream.ts";
import type { Surroundings } from "./runtime.ts";
import type { Answer } from "./send.ts";
import { parsePageQuery, type RegistryTarget } from "./target.ts";

/**
 * Endpoints 1–3 of one registry, through its cache: the way of every metadata request that was no fresh memory hit.
 */
export async function answerMetadata(
  surroundings: Surroundings,
  cache: HttpCache,
  exchange: Exchange,
  client: { readonly request: IncomingMessage; readonly response: ServerResponse },
): Promise<Answer> {
  const { request, response } = client;
  const { runtime } = exchange;
  const target = exchange.target as RegistryTarget;
  const operation = target.endpoint.operation as CachedOperation;
  const header = adminHeaderOf(request.rawHeaders, runtime.config.routing.adminHeader);
  const deadlineOf = deadlineFromNow(request.headers, surroundings.clock);
  const signal = clientSignal(response);
  const page = operation === "instruments" ? parsePageQuery(target.query) : undefined;

  const named = await resolveUpstream(
    { ...runtime.config.routing, upstreams: runtime.upstreams },
    { path: target.registry, header, body: [] },
    { deadline: deadlineOf, signal },
  );
  if (named === undefined && isAggregate(runtime)) return answerAggregate(surroundings, exchange, client);
  const upstream = named ?? plainUpstream(runtime, false);
  exchange.upstream = upstream;
  const deadline = deadlineOf(upstream);
  const admin = upstream.admin ?? (await upstream.learnAdmin(deadline, signal));
  const resource = runtime.metadata.get(upstream)!.resource(admin, { operation, id: target.id, ...page });
  const answer = await cache.respond(resource, {
    method: request.method as "GET" | "HEAD",
    headers: request.headers,
    deadline,
    signal,
  });
  if (page !== undefined && answer.status === 200 && answer.tier !== "memory") {
    surroundings.aggregation.walker.prefetch(runtime.metadata.get(upstream)!, admin, page, answer.body!);
  }
  exchange.outcome = answer.outcome;
  exchange.age = answer.age;
  if (header === undefined) {
    const recordHit = surroundings.traffic.hitsOf(operation, upstream.name);
    runtime.hits.remember(exchange.url, { operation, upstream, admin, resource, recordHit });
  }
  return answer;
}
