import type { IncomingHttpHeaders, IncomingMessage } from "node:http";
import { Readable } from "node:stream";
import httpProxy from "@fastify/http-proxy";
import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import { neverKept, OWN_TARGETED_FIELD } from "../answer-fields.ts";
import { GatewayError, toGatewayError } from "../errors.ts";
import { type Fields, filterFields } from "../fields.ts";
import { adminPathsOfPassThrough } from "../spec/body-admin.ts";
import type { StreamedAnswer, StreamedCall } from "../upstream/call.ts";
import type { Upstream } from "../upstream/upstream.ts";
import { forwardedFields } from "./choice-context.ts";
import { clientSignal } from "./client-signal.ts";
import { deadlineFromNow } from "./request-timeout.ts";
import { type Exchange, exchangeOf, routeTo } from "./exchange.ts";
import { isAggregate, plainUpstream } from "./plain.ts";
import { checkBodyHeaders, checkContentCoding, readRequest } from "./request-body.ts";
import { adminHeaderOf, adminNotNamed, namedBy, resolveUpstream } from "./resolve-upstream.ts";
import type { Surroundings } from "./context.ts";
import { commonFieldsOf } from "./send.ts";
import type { PassThroughTarget } from "./target.ts";
import type { Uploads } from "./uploads.ts";

/** The path within Fastify that stands for every passed-through request. */
export const PASS_THROUGH = "/pass-through";

/** Stands alone: a registry's own policy could only say where to report to. */
const NOTHING_RUNS = "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; sandbox";

/** Carries the call from the route, through http-proxy, to the connection: a symbol never becomes a header. */
const CALL = Symbol("upstream call");

interface PreparedCall {
  readonly exchange: Exchange;
  readonly upstream: Upstream;
  /** With its body where that had to be read to find the upstream; else the body is streamed. */
  readonly call: StreamedCall;
}

interface ProxiedRequest {
  readonly headers: { readonly [CALL]?: PreparedCall };
  /** The stream of a POST; an empty string where there is no body. */
  readonly body: unknown;
}

type ProxyCallback = (
  error: Error | null,
  answer?: { statusCode: number; headers: Record<string, string | string[]>; body: Readable },
) => void;

/**
 * Any path below `/registry` that is none of the eleven endpoints: later versions and drafts of the API, streamed to
 * the registry that the request names, uncached and untried again.
 *
 * @fastify/http-proxy does the streaming. The connection is our own client's, through the one seam it has for that (an
 * object with `request`), so that deadlines, limits, TLS and proofs of admin are those of every other call.
 */
export function registerPassThrough(app: FastifyInstance, surroundings: Surroundings, uploads: Uploads): void {
  const prepared = new WeakMap<FastifyRequest, PreparedCall>();

  async function prepare(request: FastifyRequest, reply: FastifyReply): Promise<void> {
    const call = await prepareCall({ surroundings, uploads }, request, reply);
    prepared.set(request, call);
  }

  void app.register(httpProxy, {
    upstream: "http://registry.invalid",
    prefix: PASS_THROUGH,
    httpMethods: ["GET", "POST"],
    // Typed as undici's options; reply-from takes any object with a `request` of this form.
    undici: { request: sendCall } as object,
    disableRequestLogging: true,
    disableCache: true,
    retryMethods: [],
    preHandler: (request, reply, done) => {
      prepare(request, reply).then(() => done(), done);
    },
    replyOptions: {
      retryDelay: () => null,
      rewriteRequestHeaders: (request) => ({ [CALL]: prepared.get(request as FastifyRequest) }) as IncomingHttpHeaders,
      rewriteHeaders: (headers, request) => {
        const raw = request!.raw as IncomingMessage;
        const common = commonFieldsOf(exchangeOf(raw, surroundings), raw, surroundings.isDraining());
        return { ...headers, ...recordOf(common) };
      },
      onError: (reply, { error }) => {
        void reply.send(error.cause instanceof GatewayError ? error.cause : toGatewayError(error));
      },
    },
  });
}

function sendCall(request: ProxiedRequest, done: ProxyCallback): void {
  const { exchange, upstream, call } = request.headers[CALL]!;
  const sent = call.body === undefined && request.body instanceof Readable ? { ...call, body: request.body } : call;
  upstream.stream(sent).then((answer) => {
    // The head has gone out by then: the log is the only place that can tell.
    answer.body.once("error", (error) => {
      exchange.error = toGatewayError(error);
    });
    done(null, proxiedAnswer(call, answer));
  }, done);
}

/**
 * The registry's answer, whose type is its own: nothing in a page of its may run on our origin, be it HTML, SVG or what
 * browsers come to show one day.
 */
function proxiedAnswer(
  { method }: StreamedCall,
  { status, fields, body }: StreamedAnswer,
): Parameters<ProxyCallback>[1] & object {
  const isOurs = (name: string) => name === OWN_TARGETED_FIELD || name === "content-security-policy";
  // The answer to a POST is of this moment, whatever the registry says of keeping it.
  const kept = filterFields(method === "POST" ? neverKept(fields) : fields, (name) => !isOurs(name));
  return { statusCode: status, headers: recordOf([...kept, "content-security-policy", NOTHING_RUNS]), body };
}

async function prepareCall(
  { surroundings, uploads }: { surroundings: Surroundings; uploads: Uploads },
  request: FastifyRequest,
  reply: FastifyReply,
): Promise<PreparedCall> {
  const exchange = exchangeOf(request.raw, surroundings);
  const { runtime } = exchange;
  const { segments, query, registry } = exchange.target as PassThroughTarget;
  const header = adminHeaderOf(request.raw.rawHeaders, runtime.config.routing.adminHeader);
  const signal = clientSignal(reply.raw);
  const stream = request.body instanceof Readable ? request.body : undefined;
  const paths = request.method === "POST" ? adminPathsOfPassThrough(segments) : undefined;
  if (stream !== undefined) (paths === undefined ? checkContentCoding : checkBodyHeaders)(request.headers);
  let bytes: Buffer | undefined;
  if (stream !== undefined && paths !== undefined) {
    if (!request.raw.complete) uploads.follow(request.raw, reply.raw);
    bytes = await readAll(stream, runtime.config.limits.requestBody);
  }
  const body =
    bytes === undefined ? [] : (await readRequest(surroundings.bodies, bytes, { kind: undefined, paths })).admins;
  // What the client took to send it is not the upstream's time.
  const deadlineOf = deadlineFromNow(request.headers, surroundings.clock);
  const named = await resolveUpstream(
    { ...runtime.config.routing, upstreams: runtime.upstreams },
    { path: registry, header, body },
    { deadline: deadlineOf, signal },
  );
  if (named === undefined && isAggregate(runtime)) throw adminNotNamed(runtime.config.routing, paths !== undefined);
  const upstream = named ?? plainUpstream(runtime, paths !== undefined);
  routeTo(surroundings, exchange, upstream, named === undefined ? "plain" : namedBy({ path: registry, header }));
  const path = `/registry/${segments.map(encodeURIComponent).join("/")}`;
  const call: PreparedCall["call"] = {
    operation: "pass_through",
    method: request.method as "GET" | "POST",
    path: query === "" ? path : `${path}?${query}`,
    fields: withLength(
      forwardedFields(exchange, request.headers, upstream.config.forwardAuthorization),
      stream === undefined ? undefined : request.headers["content-length"],
    ),
    body: bytes,
    priority: "post",
    deadline: deadlineOf(upstream),
    // As long as Node gives any request.
    bodyDeadline: surroundings.clock.now() + request.server.server.requestTimeout,
    signal,
    trace: exchange.trace,
  };
  return { exchange, upstream, call };
}

/** The whole body of a factory call, whose admin has to be read before a byte goes anywhere. */
async function readAll(body: Readable, limit: number): Promise<Buffer> {
  const chunks: Buffer[] = [];
  let length = 0;
  for await (const chunk of body as AsyncIterable<Buffer>) {
    length += chunk.length;
    if (length > limit) throw new GatewayError("body_too_large", `the body is larger than ${limit} bytes`);
    chunks.push(chunk);
  }
  return Buffer.concat(chunks);
}

function withLength(fields: Fields, length: string | undefined): Fields {
  return length === undefined ? fields : [...fields, "content-length", length];
}

function recordOf(fields: Fields): Record<string, string | string[]> {
  const record: Record<string, string | string[]> = {};
  for (let i = 0; i < fields.length; i += 2) {
    const name = fields[i]!;
    const value = fields[i + 1]!;
    const known = record[name];
    if (known === undefined) record[name] = value;
    else record[name] = Array.isArray(known) ? [...known, value] : [known, value];
  }
  return record;
}
