import { Readable } from "node:stream";
import httpProxy from "@fastify/http-proxy";
import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import { adminsOfPassedBody } from "../bodies/request.ts";
import type { Clock } from "../clock.ts";
import { clientGone, GatewayError, toGatewayError } from "../errors.ts";
import { passedFields } from "../fields.ts";
import type { Answer, Call } from "../upstream/types.ts";
import type { Upstream } from "../upstream/upstream.ts";
import { callFields, momentaryFields } from "./call-fields.ts";
import { type AnswerParts, deadlineOf, MOST_WAIT, signalOf } from "./context.ts";
import { checkCoding, enter } from "./gate.ts";
import { isPage } from "./pages.ts";
import { headersOf } from "./reply.ts";
import { adminNotNamed, namedUpstream, plainUpstream } from "./route.ts";
import { addressingOf, checkPassedPath, findExtraPath, pathOf, queryOf, segmentsOf, wrongMethod } from "./url.ts";

/**
 * Paths that are none of the endpoints: drafts and other families below `/registry`, and `extraPaths`. They go on by
 * @fastify/http-proxy, once, uncached. It sends nothing itself: `upstream.call` does, so that deadlines, limits, TLS and
 * proofs of admin are those of every other call.
 */

/** Nothing in an answer of another type may run on our origin in a browser. */
const SANDBOX = ["content-security-policy", "sandbox"];

/** Destination of a passed-through request. */
interface Target {
  readonly base: Call["base"];
  /** The admin or upstream that its path names, or the upstream of the extra path; undefined on the plain base. */
  readonly names: string | undefined;
  /** Path with each segment encoded anew, and the client's query. */
  readonly path: string;
}

interface PassedCall {
  readonly upstream: Upstream;
  readonly call: Call;
}

declare module "fastify" {
  interface FastifyRequest {
    target: Target | undefined;
    passed: PassedCall | undefined;
  }
}

/** The callback of @fastify/http-proxy, which takes our call for a request of undici. */
type Done = (
  error: Error | null,
  answer?: { statusCode: number; headers: Record<string, string | string[]>; body: Readable },
) => void;

interface PassThroughOptions extends AnswerParts {
  /** Patterns, the most exact first. */
  readonly routes: readonly string[];
  readonly prefix: string;
}

/** Adds the routes that pass a request through. */
export async function passThrough(
  app: FastifyInstance,
  { routes, prefix, ...parts }: PassThroughOptions,
): Promise<void> {
  // By a made-up origin, from `getUpstream` to `request`: http-proxy calls both in the same turn, and hands on nothing else.
  const calls = new Map<string, PassedCall>();
  let origins = 0;
  app.decorateRequest("target", undefined);
  app.decorateRequest("passed", undefined);
  app.addHook("onRequest", (request, _reply, done) => {
    request.target = targetOf(request, prefix);
    request.state.operation = "pass_through";
    checkCoding(request);
    enter(request, parts);
    done();
  });
  await app.register(httpProxy, {
    upstream: "",
    routes: [...routes],
    httpMethods: ["GET", "POST"],
    preRewrite: () => "/",
    proxyPayloads: false,
    disableRequestLogging: true,
    disableCache: true,
    retryMethods: [],
    preHandler(request, reply, done) {
      prepare(request, reply, parts.clock).then((passed) => {
        request.passed = passed;
        done();
      }, done);
    },
    // Typed as undici's options; anything with `request` may stand there.
    undici: {
      request({ origin }: { readonly origin: string }, done: Done): void {
        const { upstream, call } = calls.get(origin)!;
        calls.delete(origin);
        upstream.call(call).then((answer) => done(null, proxied(upstream, call, answer)), done);
      },
    } as object,
    replyOptions: {
      getUpstream(request) {
        origins += 1;
        const origin = `http://${origins}.invalid`;
        calls.set(origin, (request as FastifyRequest).passed!);
        return origin;
      },
      retryDelay: () => null,
      rewriteRequestHeaders: () => ({}),
      onError: (reply, { error }) => void reply.send(toGatewayError(error.cause)),
    },
  });
}

/**
 * Where a request goes whose path no endpoint and no page has.
 *
 * @throws GatewayError 404 for a path that leads nowhere, 405 for one that does with another method
 */
export function targetOf({ url, method, state }: FastifyRequest, prefix: string): Target {
  const path = pathOf(url);
  const base = path.startsWith("/registry/") ? "" : baseOf(path, prefix);
  if (base === undefined) return extraTarget(path, { url, method, state });
  const segments = segmentsOf(path.slice(`${base}/registry`.length));
  checkPassedPath(segments);
  if (method !== "GET" && method !== "POST") throw wrongMethod("GET, POST");
  const names = base === "" ? undefined : segmentsOf(base.slice(prefix.length))[0];
  const encoded = segments.map(encodeURIComponent).join("/");
  return { base: "registry", names, path: `/registry/${encoded}${queryOf(url)}` };
}

/** The base URL of one registry that a path begins with. */
function baseOf(path: string, prefix: string): string | undefined {
  if (!path.startsWith(`${prefix}/`)) return undefined;
  const end = path.indexOf("/", prefix.length + 1);
  return end !== -1 && path.startsWith("/registry/", end) ? path.slice(0, end) : undefined;
}

function extraTarget(path: string, { url, method, state }: Pick<FastifyRequest, "url" | "method" | "state">): Target {
  const { found, methods } = findExtraPath(addressingOf(state.snapshot.loaded.config), path, method);
  if (found === undefined)
    throw methods.length > 0 ? wrongMethod([...new Set(methods)].join(", ")) : noSuchPath(path, method, state);
  const below = found.isBelow ? segmentsOf(path.slice(found.path.length)).map(encodeURIComponent) : [];
  return { base: "origin", names: found.upstream, path: [found.path, ...below].join("/") + queryOf(url) };
}

/** The 404 for a path that nothing is at; a page of ours has another method. */
function noSuchPath(path: string, method: string, { snapshot }: FastifyRequest["state"]): GatewayError {
  if (isPage(path) && method !== "GET" && method !== "HEAD") return wrongMethod("GET, HEAD");
  const { prefix } = snapshot.loaded.config.routing;
  return new GatewayError(
    "no_such_path",
    `there is nothing at this path; the API of one registry is below ${prefix}/{admin}/registry/, and / names the registries`,
  );
}

async function prepare(request: FastifyRequest, reply: FastifyReply, clock: Clock): Promise<PassedCall> {
  const { state, headers, method } = request;
  const { base, names, path } = request.target!;
  const body = request.body as Buffer | undefined;
  // It goes with the call: http-proxy would code it anew.
  request.body = undefined;
  const admins = body === undefined ? [] : adminsOfPassedBody(body);
  const signal = signalOf(request, reply);
  const wait = () => ({ deadline: deadlineOf(request, MOST_WAIT, clock), signal });
  const upstream = (await namedUpstream(request, { path: names, body: admins }, wait)) ?? plainUpstream(request);
  if (upstream === undefined) throw adminNotNamed(request, false);
  state.upstream = upstream;
  if (signal.aborted) throw clientGone();
  const type = body === undefined ? undefined : headers["content-type"];
  const call: Call = {
    operation: "pass_through",
    method,
    base,
    path,
    fields: [...callFields(request, upstream), ...(type === undefined ? [] : ["content-type", type])],
    body,
    priority: "client",
    deadline: deadlineOf(request, upstream.config.timeout, clock),
    signal,
    onEnd: (report) => {
      state.report = report;
    },
  };
  return { upstream, call };
}

/** The registry's answer as it is, but for what never passes. */
function proxied(
  { config }: Upstream,
  { method }: Call,
  { status, fields, body }: Answer,
): Parameters<Done>[1] & object {
  const passed = passedFields(fields, config.cache.forwardResponseHeaders);
  const kept = method === "POST" ? momentaryFields(passed) : passed;
  const length = status === 204 || status === 304 ? [] : ["content-length", String(body.length)];
  return { statusCode: status, headers: headersOf([...kept, ...SANDBOX, ...length]), body: Readable.from(body) };
}
