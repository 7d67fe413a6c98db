import type { MaybePromise } from "../clock.ts";
import { type ContractAdmins, probeContract } from "../aggregate/contracts.ts";
import { checkAnswer } from "../bodies/answer.ts";
import type { RequestContent } from "../bodies/request.ts";
import { formatCacheStatus } from "../cache/rfc/reuse.ts";
import { GatewayError } from "../errors.ts";
import { clientFields, type Fields, filterFields, neverKept, nominatedFields } from "../fields.ts";
import { traceFieldsOf } from "../trace-context.ts";
import { adminPathsOf } from "../spec/body-admin.ts";
import { endpointPath } from "../spec/endpoints.ts";
import type { UpstreamAnswer } from "../upstream/call.ts";
import type { Upstream } from "../upstream/upstream.ts";
import { registriesOf } from "./aggregate.ts";
import { clientSignal, deadlineFromNow, type DeadlineOf, type RequestContext, type Snapshot } from "./context.ts";
import { checkBodyHeaders, checkContentCoding, readRequest } from "./request-body.ts";
import {
  adminHeaderOf,
  adminNotNamed,
  hasPlainUpstream,
  maySee,
  namedBy,
  namedUpstream,
  plainUpstream,
  routeTo,
} from "./resolve-upstream.ts";
import type { Answer } from "./send.ts";
import type { RegistryTarget } from "./target.ts";

/** The request headers that a factory or choice-context call takes along; credentials join only where configured. */
const FORWARDED = ["accept", "content-type"];

const EMPTY = Buffer.alloc(0);

/** A call that a client wants made, to whichever registry it turns out to mean. */
interface ClientCall {
  readonly context: RequestContext;
  readonly target: RegistryTarget;
  readonly bytes: Buffer | undefined;
  /** What its body says. */
  readonly body: RequestContent | undefined;
  readonly deadlineOf: DeadlineOf;
}

/**
 * Factories and choice contexts, of both versions: the body is checked, its admin compared with every other place that names one, and the same bytes go
 * to that registry. Answers depend on parties, holdings and the moment: none is given twice unless `upstreams[].contexts` says so.
 */
export async function answerChoiceContext(context: RequestContext, bytes: Buffer | undefined): Promise<Answer> {
  const { services, snapshot, request } = context;
  const target = context.target as RegistryTarget;
  const body = await readBody(context, bytes);
  const header = adminHeaderOf(request.rawHeaders, snapshot.config.routing.adminHeader);
  const deadlineOf = deadlineFromNow(request.headers, services.clock);
  const named = await namedUpstream(context, { header, body: body?.admins }, deadlineOf);
  const route = named ?? (await routeContract(context, body)) ?? "plain";
  const call: ClientCall = { context, target, bytes, body, deadlineOf };
  if (route === "probe") return probeRegistries(call);
  const upstream =
    route === "plain" ? plainUpstream(snapshot, pathsOf(target) !== undefined && !isSettlement(target)) : route;
  const byItself = route === "plain" ? "plain" : "learned";
  routeTo(context, upstream, named === undefined ? byItself : namedBy(context, header));
  checkStrictly(call, upstream);
  return ask(call, upstream);
}

/** The registry's answer, or one that `upstreams[].contexts` lets be given instead. */
async function ask(call: ClientCall, upstream: Upstream): Promise<Answer> {
  const { context, target, body, deadlineOf } = call;
  const { answer, status, age } = await context.services.contexts.ask(upstream, {
    call: callOf(call, upstream, upstream.config.forwardAuthorization !== false),
    contracts: target.id === undefined ? (body?.allocations ?? []) : [target.id],
    headers: context.request.headers,
    check: (unchecked) => check(call, upstream, unchecked),
    deadline: deadlineOf(upstream),
    signal: clientSignal(context),
  });
  const { fields, ...rest } = answerOf(call, upstream, answer);
  if (status === undefined) return { ...rest, fields };
  context.forwarded = status;
  context.age = age;
  if (age !== undefined) context.outcome = "hit";
  const aged = age === undefined ? fields : [...filterFields(fields, (name) => name !== "age"), "age", String(age)];
  return { ...rest, fields: [...aged, "cache-status", formatCacheStatus(status)] };
}

/**
 * The header fields of a client's request that go to a registry, and the id under which both sides log it. Each goes
 * once, as Node read it (RFC 9110 §5.3): of two content types, the one that was checked.
 */
export function forwardedFields(
  { id, request, snapshot }: RequestContext,
  { config }: Upstream,
  forwardAuthorization: boolean = config.forwardAuthorization !== false,
): Fields {
  const { headers } = request;
  const fields: string[] = [];
  const nominated = nominatedFields(headers);
  for (const name of forwardAuthorization ? [...FORWARDED, "authorization"] : FORWARDED) {
    const value = headers[name];
    // Without its type no registry could read the body.
    if (typeof value === "string" && (name === "content-type" || !nominated.has(name))) fields.push(name, value);
  }
  fields.push(...traceFieldsOf(headers), "x-request-id", id);
  // The client's own word about its address goes nowhere.
  if (config.forwardClientAddress) fields.push("x-forwarded-for", snapshot.addresses.of(request).address);
  return fields;
}

function readBody(context: RequestContext, bytes: Buffer | undefined): MaybePromise<RequestContent | undefined> {
  const { services, request } = context;
  const target = context.target as RegistryTarget;
  const kind = target.endpoint.kind === "factory" ? "factory" : "context";
  if (bytes === undefined || bytes.length === 0) {
    if (kind === "factory")
      throw new GatewayError("invalid_request", "the body is empty; it must be a JSON object with choiceArguments");
    checkContentCoding(request.headers);
    return undefined;
  }
  checkBodyHeaders(request.headers);
  return readRequest(services.bodies, bytes, { kind, paths: pathsOf(target), isSettlement: isSettlement(target) });
}

/** Where the body may name an admin. */
function pathsOf({ endpoint }: RegistryTarget) {
  return adminPathsOf(endpoint.operation);
}

/** Whether the body names no admin, but allocations. */
function isSettlement({ endpoint }: RegistryTarget): boolean {
  return endpoint.operation === "settlement_factory_v2";
}

/** @throws GatewayError 400 for a body that breaks the published rules, where the upstream wants them kept */
function checkStrictly({ body }: ClientCall, upstream: Upstream): void {
  const problem = upstream.config.validation === "strict" ? body?.strictProblem : undefined;
  if (problem !== undefined) throw new GatewayError("invalid_request", problem);
}

/** The same bytes for that registry. */
function callOf({ context, target, bytes }: ClientCall, upstream: Upstream, forwardAuthorization: boolean) {
  return {
    operation: target.endpoint.operation,
    method: "POST",
    path: endpointPath(target.endpoint, target.id),
    fields: forwardedFields(context, upstream, forwardAuthorization),
    body: bytes ?? EMPTY,
    priority: "post",
    trace: context.trace,
  } as const;
}

/** @throws GatewayError 502 for an answer that breaks the schema, where that is not passed on */
function check({ context, target }: ClientCall, upstream: Upstream, answer: UpstreamAnswer): string | undefined {
  const { metadata } = context.services.observers;
  return checkAnswer(upstream, answer, () => metadata.schemaViolated(upstream.name, target.endpoint.operation));
}

/** What the client gets of a registry's answer. */
function answerOf(
  { context, target }: ClientCall,
  upstream: Upstream,
  { status, fields: received, body }: Pick<UpstreamAnswer, "status" | "fields" | "body">,
): Answer {
  if (target.endpoint.kind === "context" && status === 200) learnContract(context, upstream);
  const passed = clientFields(received, status, upstream.config.cache.forwardResponseHeaders);
  const fields = filterFields(neverKept(passed), (name) => name !== "content-type");
  fields.push("content-type", "application/json");
  return { status, fields, body };
}

/**
 * Where a request goes that names no admin but a contract: to the registry that answered for the contract before
 * (`routing.learn`), else to all of them (`routing.probe`). Undefined where neither says.
 *
 * @throws GatewayError 400 for a contract that several registries answered for
 */
async function routeContract(
  context: RequestContext,
  body: RequestContent | undefined,
): Promise<Upstream | "probe" | undefined> {
  const { services, snapshot, target } = context;
  const { endpoint, id } = target as RegistryTarget;
  const { learn, probe } = snapshot.config.routing;
  if (hasPlainUpstream(snapshot)) return undefined;
  const allocations = body?.allocations ?? [];
  if (learn && allocations.length > 0) return routeSettlement(context, allocations);
  if (endpoint.kind !== "context" || id === undefined) return undefined;
  const learned = learn ? seenBy(context, await services.aggregation.contracts.recall(id)) : undefined;
  if (learned === "several") {
    throw new GatewayError(
      "contract_ambiguous",
      `more than one registry has answered for this contract id; ${howToName(snapshot)}`,
    );
  }
  const upstream = learned === undefined ? undefined : snapshot.upstreams.byAdmin(learned.admin);
  return upstream ?? (probe ? "probe" : undefined);
}

type Learned = Awaited<ReturnType<ContractAdmins["recall"]>>;

/**
 * What a client may know of what was learned: of a registry that it may not use, nothing, as if the contract were unknown.
 * Among several one may be such.
 */
function seenBy({ client, snapshot }: RequestContext, learned: Learned): Learned {
  if (client === undefined || client.tier.seesAll || learned === undefined) return learned;
  const upstream = learned === "several" ? undefined : snapshot.upstreams.byAdmin(learned.admin);
  return upstream !== undefined && maySee(client.tier, upstream) ? learned : undefined;
}

/** Registries may take a hundred allocations at once; with more than this the registry has to be named. */
const MAX_SETTLED = 256;

/**
 * Where a settlement goes: to the registry that answered for every one of its allocations before. Undefined where that
 * is not known of all.
 *
 * @throws GatewayError 400 for allocations of several registries
 */
async function routeSettlement(context: RequestContext, allocations: readonly string[]): Promise<Upstream | undefined> {
  const { services, snapshot } = context;
  const ids = new Set(allocations);
  if (ids.size > MAX_SETTLED) return undefined;
  const recalled = await Promise.all([...ids].map((id) => services.aggregation.contracts.recall(id)));
  const learned = recalled.map((each) => seenBy(context, each));
  const admins = new Set(learned.map((each) => (each === "several" ? each : each?.admin)));
  const isComplete = !admins.delete(undefined);
  if (admins.size > 1 || admins.has("several")) {
    throw new GatewayError(
      "contract_ambiguous",
      `the allocations of the settlement are not all of one registry; ${howToName(snapshot)}`,
    );
  }
  const [admin] = admins;
  return admin === undefined || !isComplete ? undefined : snapshot.upstreams.byAdmin(admin);
}

/** Asks all registries; see {@link probeContract}. */
async function probeRegistries(call: ClientCall): Promise<Answer> {
  const { snapshot, client } = call.context;
  const all = registriesOf(snapshot, client?.tier).map(({ upstream }) => upstream);
  for (const each of all) checkStrictly(call, each);
  const { deadlineOf } = call;
  const signal = clientSignal(call.context);
  const probed = await probeContract(
    all,
    // No client's token is shown to registries that it may not be meant for.
    (each) => each.call({ ...callOf(call, each, false), deadline: deadlineOf(each), signal }),
    { howToName: howToName(snapshot), isSearching: snapshot.upstreams.isSearching },
  );
  routeTo(call.context, probed.upstream, "probe");
  check(call, probed.upstream, probed.answer);
  return answerOf(call, probed.upstream, probed.answer);
}

/** Notes which registry answered for a contract, where `routing.learn` asks for it. */
function learnContract({ services, snapshot, target }: RequestContext, { admin }: Upstream): void {
  const { id } = target as RegistryTarget;
  if (!snapshot.config.routing.learn || id === undefined || admin === undefined) return;
  void services.aggregation.contracts.learn(id, admin);
}

function howToName({ config }: Snapshot): string {
  return adminNotNamed(config.routing, false).message;
}
