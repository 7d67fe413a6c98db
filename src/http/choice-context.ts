import type { IncomingHttpHeaders, IncomingMessage, ServerResponse } from "node:http";
import { neverKept } from "../answer-fields.ts";
import type { RequestContent, RequestForm } from "../bodies/request.ts";
import type { MaybePromise } from "../coordination/coordinator.ts";
import { GatewayError } from "../errors.ts";
import { type Fields, filterFields } from "../fields.ts";
import { checkAnswer } from "../registry/answer-check.ts";
import { adminPathsOf } from "../spec/body-admin.ts";
import { endpointPath } from "../spec/endpoints.ts";
import { traceFieldsOf } from "../trace-context.ts";
import type { UpstreamAnswer } from "../upstream/call.ts";
import type { Upstream } from "../upstream/upstream.ts";
import { learnContract, probeRegistries, routeContract } from "./contract-routing.ts";
import { clientSignal } from "./client-signal.ts";
import { deadlineFromNow } from "./request-timeout.ts";
import { type Exchange, routeTo } from "./exchange.ts";
import { plainUpstream } from "./plain.ts";
import { checkBodyHeaders, checkContentCoding, readRequest } from "./request-body.ts";
import { adminHeaderOf, namedBy, resolveUpstream } from "./resolve-upstream.ts";
import type { Surroundings } from "./context.ts";
import type { Answer } from "./send.ts";
import type { RegistryTarget } from "./target.ts";

/** One answer in so many is held against its schema; parsing is done anyway, but the check is not free. */
const SCHEMA_SAMPLE = 20;

/** The request headers that a factory or choice-context call takes along; credentials join only where configured. */
const FORWARDED = ["accept", "content-type"];

/**
 * Endpoints 4–11: the body is checked, its admin compared with every other place that names one, and the same bytes go
 * to that registry. Answers are never kept: they depend on parties, holdings and the moment.
 */
export async function answerChoiceContext(
  surroundings: Surroundings,
  exchange: Exchange,
  client: { readonly request: IncomingMessage; readonly response: ServerResponse },
  bytes: Buffer | undefined,
): Promise<Answer> {
  const { request, response } = client;
  const { runtime } = exchange;
  const { endpoint, id, registry } = exchange.target as RegistryTarget;
  const kind = endpoint.kind === "factory" ? "factory" : "context";
  const paths = adminPathsOf(endpoint.operation);
  const read = readBody(surroundings, request, bytes, { kind, paths });
  const body = read instanceof Promise ? await read : read;
  const header = adminHeaderOf(request.rawHeaders, runtime.config.routing.adminHeader);
  const deadlineOf = deadlineFromNow(request.headers, surroundings.clock);
  const signal = clientSignal(response);

  const named = resolveUpstream(
    { ...runtime.config.routing, upstreams: runtime.upstreams },
    { path: registry, header, body: body?.admins ?? [] },
    { deadline: deadlineOf, signal },
  );
  const resolved = named instanceof Promise ? await named : named;
  const route = resolved ?? (await routeContract(surroundings, exchange)) ?? "plain";
  const call = (upstream: Upstream, forwardAuthorization: boolean) =>
    upstream.call({
      operation: endpoint.operation,
      method: "POST",
      path: endpointPath(endpoint, id),
      fields: forwardedFields(exchange, request.headers, forwardAuthorization),
      body: bytes ?? EMPTY,
      priority: "post",
      deadline: deadlineOf(upstream),
      signal,
      trace: exchange.trace,
    });
  const checkStrictly = (upstream: Upstream) => {
    const problem = upstream.config.validation === "strict" ? body?.strictProblem : undefined;
    if (problem !== undefined) throw new GatewayError("invalid_request", problem);
  };
  let upstream: Upstream;
  let answer: UpstreamAnswer;
  if (route === "probe") {
    for (const each of runtime.upstreams.all) checkStrictly(each);
    // Nobody's token is shown to registries that it may not be meant for.
    ({ upstream, answer } = await probeRegistries(runtime, (each) => call(each, false)));
    routeTo(surroundings, exchange, upstream, "probe");
  } else {
    upstream = route === "plain" ? plainUpstream(runtime, paths !== undefined) : route;
    const byItself = route === "plain" ? "plain" : "learned";
    routeTo(surroundings, exchange, upstream, resolved === undefined ? byItself : namedBy({ path: registry, header }));
    checkStrictly(upstream);
    answer = await call(upstream, upstream.config.forwardAuthorization);
  }
  if (kind === "context" && answer.status === 200) learnContract(surroundings, exchange, upstream);
  const isStrict = upstream.config.validation === "strict";
  if (isStrict || surroundings.random() < 1 / SCHEMA_SAMPLE) {
    checkAnswer(upstream, endpoint.operation, answer, {
      schemaViolated: (name, operation) => surroundings.metrics.schemaViolations.inc({ upstream: name, operation }),
    });
  }
  const fields = filterFields(neverKept(answer.fields), (name) => name !== "content-type");
  fields.push("content-type", "application/json");
  return { status: answer.status, fields, body: answer.body };
}

/**
 * The header fields of a client's request that go to a registry, and the id under which both sides log it. Each goes
 * once, as Node read it (RFC 9110 §5.3): of two content types, the one that was checked.
 */
export function forwardedFields(
  exchange: Exchange,
  headers: IncomingHttpHeaders,
  forwardAuthorization: boolean,
): Fields {
  const fields: string[] = [];
  for (const name of forwardAuthorization ? [...FORWARDED, "authorization"] : FORWARDED) {
    const value = headers[name];
    if (typeof value === "string") fields.push(name, value);
  }
  fields.push(...traceFieldsOf(headers), "x-request-id", exchange.id);
  return fields;
}

const EMPTY = Buffer.alloc(0);

function readBody(
  { bodies }: Surroundings,
  request: IncomingMessage,
  bytes: Buffer | undefined,
  form: RequestForm,
): MaybePromise<RequestContent | undefined> {
  if (bytes === undefined || bytes.length === 0) {
    if (form.kind === "factory")
      throw new GatewayError("invalid_request", "the body is empty; it must be a JSON object with choiceArguments");
    checkContentCoding(request.headers);
    return undefined;
  }
  checkBodyHeaders(request.headers);
  return readRequest(bodies, bytes, form);
}
