import type { IncomingHttpHeaders, IncomingMessage, ServerResponse } from "node:http";
import type { CacheStatus } from "../cache/rfc/cache-status.ts";
import type { HttpCache } from "../cache/http-cache.ts";
import type { CacheRequest } from "../cache/resource.ts";
import type { Instant } from "../clock.ts";
import type { CachedOperation } from "../spec/endpoints.ts";
import { answerAggregate } from "./aggregate.ts";
import { clientSignal } from "./client-signal.ts";
import { deadlineFromNow } from "./request-timeout.ts";
import { type Exchange, routeTo } from "./exchange.ts";
import type { HitTarget } from "./hit.ts";
import { isAggregate, plainUpstream } from "./plain.ts";
import { adminHeaderOf, namedBy, resolveUpstream, type ResolveLimits } from "./resolve-upstream.ts";
import type { Surroundings } from "./context.ts";
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
  const header = adminHeaderOf(request.rawHeaders, runtime.config.routing.adminHeader);
  const deadlineOf = deadlineFromNow(request.headers, surroundings.clock);

  const remembered = header === undefined ? exchange.remembered : undefined;
  const found =
    remembered ??
    (await findTarget(surroundings, exchange, header, { deadline: deadlineOf, signal: clientSignal(response) }));
  if (found === undefined) return answerAggregate(surroundings, exchange, client);
  const { upstream, page } = found;
  exchange.upstream = upstream;
  const answer = await cache.respond(found.resource, new ClientRequest(exchange, client, deadlineOf(upstream)));
  if (page !== undefined && answer.status === 200 && answer.tier !== "memory") {
    surroundings.backgroundReader.prefetch(runtime.metadata.get(upstream)!, found.admin, page, answer.body!);
  }
  exchange.outcome = answer.outcome;
  exchange.age = answer.age;
  if (header === undefined && remembered === undefined) runtime.hits.remember(exchange.url, found);
  return answer;
}

/** A client's request as the cache sees it. */
class ClientRequest implements CacheRequest {
  readonly method: "GET" | "HEAD";
  readonly headers: IncomingHttpHeaders;
  readonly deadline: Instant;
  private readonly exchange: Exchange;
  private readonly response: ServerResponse;
  private made: AbortSignal | undefined;

  constructor(
    exchange: Exchange,
    { request, response }: { readonly request: IncomingMessage; readonly response: ServerResponse },
    deadline: Instant,
  ) {
    this.method = request.method as "GET" | "HEAD";
    this.headers = request.headers;
    this.deadline = deadline;
    this.exchange = exchange;
    this.response = response;
  }

  forwarded(status: CacheStatus): void {
    this.exchange.forwarded = status;
  }

  /** Made when it is first asked for: what is cached in any tier needs none, and it is not cheap. */
  get signal(): AbortSignal {
    return (this.made ??= clientSignal(this.response));
  }
}

/** What the request asks for; undefined on the plain base URL of all registries. */
async function findTarget(
  surroundings: Surroundings,
  exchange: Exchange,
  header: string | undefined,
  limits: Required<ResolveLimits>,
): Promise<HitTarget | undefined> {
  const { runtime } = exchange;
  const target = exchange.target as RegistryTarget;
  const operation = target.endpoint.operation as CachedOperation;
  const page = operation === "instruments" ? parsePageQuery(target.query) : undefined;
  const named = await resolveUpstream(
    { ...runtime.config.routing, upstreams: runtime.upstreams },
    { path: target.registry, header, body: [] },
    limits,
  );
  if (named === undefined && isAggregate(runtime)) return undefined;
  const upstream = named ?? plainUpstream(runtime, false);
  // Before it is waited for: if that fails, its name is counted and logged.
  const by = named === undefined ? "plain" : namedBy({ path: target.registry, header });
  routeTo(surroundings, exchange, upstream, by);
  const admin = upstream.admin ?? (await upstream.learnAdmin(limits.deadline(upstream), limits.signal));
  const resource = runtime.metadata.get(upstream)!.resource(admin, { operation, id: target.id, ...page });
  const recordHit = surroundings.traffic.recorder({ operation, upstream: upstream.name, outcome: "hit" });
  return { target, operation, upstream, admin, resource, page, recordHit };
}
