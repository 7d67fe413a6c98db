import { Readable } from "node:stream";
import httpProxy from "@fastify/http-proxy";
import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import { clientGone, GatewayError, toGatewayError } from "../errors.ts";
import { clientFields, type Fields, filterFields, neverKept } from "../fields.ts";
import { adminPathsOfPassThrough } from "../spec/body-admin.ts";
import type { StreamedAnswer, StreamedCall } from "../upstream/call.ts";
import type { Upstream } from "../upstream/upstream.ts";
import type { Upload } from "../bodies/upload.ts";
import { forwardedFields } from "./choice-context.ts";
import { clientSignal, deadlineFromNow, type DeadlineOf, type RequestContext } from "./context.ts";
import { checkBodyHeaders, checkContentCoding, readRequest, type Uploads } from "./request-body.ts";
import {
  adminHeaderOf,
  adminNotNamed,
  isAggregate,
  namedBy,
  type NamedBeside,
  namedUpstream,
  plainUpstream,
  routeTo,
} from "./resolve-upstream.ts";
import { commonFieldsOf } from "./send.ts";
import type { PassThroughTarget } from "./target.ts";

const POLICY = "content-security-policy";
const NOTHING_RUNS = "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; sandbox";

/**
 * The fields of a registry's answer with its own type. Nothing in it may run on our origin in a browser, whether it is HTML, SVG
 * or a type that browsers will show one day. Our policy stands alone: a registry's own could only say where to report to.
 */
export function fieldsOfForeignType(fields: Fields): Fields {
  return [...filterFields(fields, (name) => name !== POLICY), POLICY, NOTHING_RUNS];
}

interface PreparedCall {
  readonly context: RequestContext;
  readonly upstream: Upstream;
  /** Its body is whole where it had to be read to find the upstream; else it is streamed. */
  readonly call: StreamedCall;
}

/** What @fastify/http-proxy sends. */
interface ProxiedRequest {
  /** As {@link originOf} made it. */
  readonly origin: string;
}

type ProxyCallback = (
  error: Error | null,
  answer?: { statusCode: number; headers: Record<string, string | string[]>; body: Readable },
) => void;

/** Every call has an upstream of its own: so its connection can learn which call it is for. */
function originOf(request: FastifyRequest): string {
  return `http://${request.id}.invalid`;
}

/**
 * Any path below `/registry` that is not one of the endpoints: drafts and other families of APIs, streamed to
 * the registry that the request names, uncached and untried again.
 *
 * @fastify/http-proxy does the streaming. The connection is our own client's (any object with `request` may stand for
 * one), so that deadlines, limits, TLS and proofs of admin are those of every other call. That client knows registry,
 * path and header fields by the origin that each request gets: http-proxy would write the query anew.
 */
export function registerPassThrough(app: FastifyInstance, uploads: Uploads): void {
  // By origin, until their requests end.
  const prepared = new Map<string, PreparedCall>();
  void app.register(httpProxy, {
    upstream: "",
    preRewrite: () => "/",
    routes: ["*"],
    constraints: { target: "pass-through" },
    httpMethods: ["GET", "POST"],
    // Typed as undici's options.
    undici: {
      request: (request: ProxiedRequest, done: ProxyCallback) => sendCall(prepared.get(request.origin)!, done),
    } as object,
    disableRequestLogging: true,
    disableCache: true,
    retryMethods: [],
    preHandler: (request, reply, done) => {
      prepareCall(request, reply, uploads).then((call) => {
        // A client that left meanwhile closes nothing any more, and its call would stay among the prepared ones.
        if (reply.raw.closed) return done(clientGone());
        const origin = originOf(request);
        prepared.set(origin, call);
        reply.raw.once("close", () => prepared.delete(origin));
        done();
      }, done);
    },
    replyOptions: {
      getUpstream: (request) => originOf(request as unknown as FastifyRequest),
      retryDelay: () => null,
      rewriteRequestHeaders: () => ({}),
      rewriteHeaders: (headers, request) => {
        const { context } = request as unknown as FastifyRequest;
        const common = recordOf(commonFieldsOf(context, context.services.inFlight.isDraining));
        const vary = [headers.vary ?? [], common.vary ?? []].flat();
        return { ...headers, ...common, ...(vary.length === 0 ? {} : { vary: vary.join(", ") }) };
      },
      onError: (reply, { error }) => {
        void reply.send(error.cause instanceof GatewayError ? error.cause : toGatewayError(error));
      },
    },
  });
}

function sendCall({ context, upstream, call }: PreparedCall, done: ProxyCallback): void {
  upstream.stream(call).then((answer) => {
    // The head has gone out by then: the log is the only place that can show it.
    answer.body.once("error", (error) => {
      context.error = toGatewayError(error);
    });
    done(null, proxiedAnswer(upstream, call, answer));
  }, done);
}

function proxiedAnswer(
  { config }: Upstream,
  { method }: StreamedCall,
  { status, fields, body }: StreamedAnswer,
): Parameters<ProxyCallback>[1] & object {
  const passed = clientFields(fields, status, config.cache.forwardResponseHeaders);
  // The answer to a POST is of this moment, whatever the registry says of keeping it.
  const kept = method === "POST" ? neverKept(passed) : passed;
  return { statusCode: status, headers: recordOf(fieldsOfForeignType(kept)), body };
}

async function prepareCall(request: FastifyRequest, reply: FastifyReply, uploads: Uploads): Promise<PreparedCall> {
  const { context, headers } = request;
  const { services, snapshot } = context;
  const { segments } = context.target as PassThroughTarget;
  const header = adminHeaderOf(request.raw.rawHeaders, snapshot.config.routing.adminHeader);
  const stream = request.body instanceof Readable ? request.body : undefined;
  const paths = request.method === "POST" ? adminPathsOfPassThrough(segments) : undefined;
  if (stream !== undefined) (paths === undefined ? checkContentCoding : checkBodyHeaders)(headers);
  // The admin of a factory call is in its body, and has to be known before a byte goes anywhere.
  const sent = stream === undefined ? undefined : await receive(uploads, context, stream, paths !== undefined);
  const body = Buffer.isBuffer(sent)
    ? (await readRequest(services.bodies, sent, { kind: undefined, paths: paths! })).admins
    : [];
  // The client's time to send it is not the upstream's.
  const deadlineOf = deadlineFromNow(headers, services.clock);
  const upstream = await passThroughUpstream(
    context,
    { header, body },
    { deadlineOf, bodyMayName: paths !== undefined },
  );
  const fields = forwardedFields(context, upstream);
  const call: StreamedCall = {
    operation: "pass_through",
    method: request.method as "GET" | "POST",
    path: pathOf(context.target as PassThroughTarget),
    fields: withLength(fields, stream === undefined ? undefined : headers["content-length"]),
    body: sent,
    priority: "post",
    deadline: deadlineOf(upstream),
    // As long as Node gives any request.
    bodyDeadline: services.clock.now() + reply.server.server.requestTimeout,
    signal: clientSignal(context),
    trace: context.trace,
  };
  return { context, upstream, call };
}

/**
 * The registry that a request of a path that is no endpoint's goes to.
 *
 * @throws GatewayError 400 where it is not named, 403, and 404 where it has no such extra path
 */
export async function passThroughUpstream(
  context: RequestContext,
  named: NamedBeside,
  { deadlineOf, bodyMayName }: { readonly deadlineOf: DeadlineOf; readonly bodyMayName: boolean },
): Promise<Upstream> {
  const { snapshot } = context;
  const { extraPath } = context.target as PassThroughTarget;
  const found = await namedUpstream(context, named, deadlineOf);
  if (found === undefined && isAggregate(snapshot)) throw adminNotNamed(snapshot.config.routing, bodyMayName);
  const upstream = found ?? plainUpstream(snapshot, bodyMayName);
  routeTo(context, upstream, found === undefined ? "plain" : namedBy(context, named.header));
  if (extraPath !== undefined && !upstream.config.extraPaths.includes(extraPath)) {
    throw new GatewayError("no_such_path", `no such path; the registry ${upstream.name} has no ${extraPath}`);
  }
  return upstream;
}

/** The whole body, or one that is still on its way. */
function receive(
  uploads: Uploads,
  context: RequestContext,
  body: Readable,
  isWhole: boolean,
): Promise<Buffer> | Upload {
  if (!isWhole) return uploads.stream(context, body);
  return new Promise((resolve, reject) => {
    uploads.read(context, body, (error, bytes) => (bytes === undefined ? reject(error!) : resolve(bytes)));
  });
}

function pathOf({ segments, extraPath, query }: PassThroughTarget): string {
  const path = extraPath ?? `/registry/${segments.map(encodeURIComponent).join("/")}`;
  return query === "" ? path : `${path}?${query}`;
}

function withLength(fields: Fields, length: string | undefined): Fields {
  return length === undefined ? fields : [...fields, "content-length", length];
}

function recordOf(fields: Fields): Record<string, string | string[]> {
  // Of no prototype: registries may name a field `constructor`.
  const record = Object.create(null) as Record<string, string | string[]>;
  for (let i = 0; i < fields.length; i += 2) {
    const name = fields[i]!;
    const value = fields[i + 1]!;
    const known = record[name];
    if (known === undefined) record[name] = value;
    else record[name] = Array.isArray(known) ? [...known, value] : [known, value];
  }
  return record;
}
