import type { IncomingMessage, Server } from "node:http";
import { Readable } from "node:stream";
import { fastify, type FastifyInstance, LogController } from "fastify";
import type { Config } from "../config/schema.ts";
import { MOST_OF_A_BODY } from "../connections/backlog.ts";
import type { ClientConnections } from "../connections/connections.ts";
import type { ListenerCertificate, TlsServerOptions } from "../connections/tls.ts";
import { NO_SCHEMAS } from "../connections/listening.ts";
import { answerParserErrors } from "../connections/parser-errors.ts";
import { GatewayError, toGatewayError } from "../errors.ts";
import { answerChoiceContext } from "./choice-context.ts";
import { contextOf, type RequestContext, type Services } from "./context.ts";
import { answerExtraPath, answerMetadata } from "./metadata.ts";
import { needsNoClient } from "./gate.ts";
import { answerPage, isOwnPage } from "./pages.ts";
import { registerPassThrough } from "./pass-through.ts";
import { Pipeline, refuse, reply } from "./pipeline.ts";
import { Uploads } from "./request-body.ts";
import { type Answer, answerUnparsed } from "./send.ts";
import { isKeptExtraPath } from "./target.ts";

declare module "fastify" {
  interface FastifyRequest {
    /** On the public listener. */
    readonly context: RequestContext;
  }
}

export interface PublicListenerOptions {
  readonly services: Services;
  readonly config: Pick<Config, "listen" | "limits">;
  readonly connections: ClientConnections;
  /** Throws where this process has too much to do for one more call. */
  readonly refuseCall: () => void;
  /** Of `listen.tls`; undefined where clients speak plain HTTP. */
  readonly certificate: ListenerCertificate | undefined;
}

/** Room for header fields beside the longest URL; Node bounds both together. */
const HEADER_BYTES = 16 * 1024;

/** Of every URL: {@link byTarget} chooses the route. */
const ANY_URL = "*";

/** The query is read with the URL, and by nothing else. */
const NO_QUERY = {};

/**
 * Chooses the route by what the URL addresses, which the request context knows. Fastify's router does not read URLs:
 * hits need to know before it, and ids in a URL hold encoded slashes and dots that it would decode.
 */
const byTarget = {
  name: "target",
  storage<Handler>() {
    const handlers = new Map<string, Handler>();
    return {
      get: (route: string) => handlers.get(route) ?? null,
      set: (route: string, handler: Handler) => void handlers.set(route, handler),
    };
  },
  validate: () => undefined,
  deriveConstraint: (request: IncomingMessage): string => routeOf(contextOf(request)),
};

/** The public listener: the token-registry API of every configured registry. */
export function createPublicListener(options: PublicListenerOptions): FastifyInstance {
  const { services, config, connections, certificate } = options;
  const pipeline = new Pipeline(services);
  const tls: TlsServerOptions | undefined =
    certificate === undefined
      ? undefined
      : { certificate, onHandshakeFailed: (reason) => services.observers.traffic.handshakeFailed(reason) };
  const app = fastify({
    schemaController: NO_SCHEMAS,
    logController: new LogController({ disableRequestLogging: true }),
    exposeHeadRoutes: false,
    forceCloseConnections: "idle",
    return503OnClosing: false,
    routerOptions: { constraints: { target: byTarget }, querystringParser: () => NO_QUERY },
    // Fastify's own would answer before answerParserErrors does.
    clientErrorHandler: () => undefined,
    // A path that is not percent-encoded UTF-8.
    frameworkErrors: (_error, { raw }) => answerUnrouted(contextOf(raw)),
    serverFactory(route) {
      const server = connections.createServer(serverOptions(config), pipeline.receive(route), tls);
      server.on("checkExpectation", connections.inTurn(pipeline.refuseExpectation));
      observeServer(server, options);
      return server;
    },
  });
  app.decorateRequest("context", {
    getter() {
      return contextOf(this.raw);
    },
  });
  app.addHook("preClose", async () => connections.closeRefused());
  app.addHook("onRequest", ({ context }, _reply, done) => {
    // Before the body is read: to read and to check it is most of what a call costs.
    const isCall = context.request.method === "POST" || routeOf(context) === "pass-through";
    if (isCall) options.refuseCall();
    done();
  });
  const uploads = readBodies(app);
  addRoutes(app, pipeline);
  registerPassThrough(app, uploads);
  app.setErrorHandler((error: Error, { context, is404 }, reply) => {
    reply.hijack();
    const { response } = context;
    // An answer that broke off before its first byte has left its header fields here.
    if (!response.headersSent)
      for (const name of response.getHeaderNames()) if (name !== "connection") response.removeHeader(name);
    // Whatever is wrong with the media type of a request for which there is no route, that it has none is said first.
    if (is404 && !(error instanceof GatewayError)) answerUnrouted(context);
    else refuse(context, fastifyRefusal(error));
  });
  app.setNotFoundHandler(({ context }, reply) => {
    reply.hijack();
    answerUnrouted(context);
  });
  return app;
}

function addRoutes(app: FastifyInstance, pipeline: Pipeline): void {
  app.route({
    method: ["GET", "HEAD"],
    url: ANY_URL,
    constraints: { target: "metadata" },
    handler: pipeline.answerBy(answerMetadata),
  });
  app.route({
    method: "GET",
    url: ANY_URL,
    constraints: { target: "extra-path" },
    handler: pipeline.answerBy(answerExtraPath),
  });
  app.route({
    method: "POST",
    url: ANY_URL,
    constraints: { target: "choice-context" },
    handler: pipeline.answerBy((context, body) => answerChoiceContext(context, body as Buffer | undefined)),
  });
  app.route({
    method: ["GET", "HEAD"],
    url: ANY_URL,
    constraints: { target: "page" },
    handler: pipeline.answerBy(answerPage),
  });
  app.options(
    ANY_URL,
    pipeline.answerBy(async (context) => preflightAnswer(context)),
  );
}

/** Which route is for a request; `none` where none is. */
function routeOf({
  target,
  snapshot,
  request,
}: RequestContext): "metadata" | "extra-path" | "choice-context" | "pass-through" | "page" | "none" {
  if (target instanceof Error) return "none";
  switch (target.kind) {
    case "endpoint":
      return target.endpoint.kind === "metadata" ? "metadata" : "choice-context";
    case "pass-through":
      if (target.extraPath !== undefined && request.method !== "GET") return "none";
      return isKeptExtraPath(target) ? "extra-path" : "pass-through";
    case "local":
      return isOwnPage(target.path, snapshot) ? "page" : "none";
  }
}

function answerUnrouted(context: RequestContext): void {
  if (context.request.method === "OPTIONS") reply(context, preflightAnswer(context));
  else refuse(context, routeRefusal(context));
}

/** Why a request reached no route. */
function routeRefusal(context: RequestContext): GatewayError {
  const { target, snapshot } = context;
  if (target instanceof GatewayError) return target;
  if (target.kind === "local" && !isOwnPage(target.path, snapshot)) {
    return new GatewayError("no_such_path", "no such path; the token-registry API is below /registry/");
  }
  const allow = allowedMethods(context);
  return new GatewayError("method_not_allowed", `the method is not allowed here; use ${allow}`, { allow });
}

/** The value of `Allow` for what the URL addresses. */
function allowedMethods({ target, snapshot }: RequestContext): string {
  if (target instanceof Error) return "GET, HEAD, POST, OPTIONS";
  if (target.kind === "local") {
    return isOwnPage(target.path, snapshot) ? "GET, HEAD, OPTIONS" : "GET, HEAD, POST, OPTIONS";
  }
  if (target.kind === "pass-through") return target.extraPath === undefined ? "GET, POST, OPTIONS" : "GET, OPTIONS";
  return target.endpoint.kind === "metadata" ? "GET, HEAD, OPTIONS" : "POST, OPTIONS";
}

/** What Fastify or a route threw, in our words. */
function fastifyRefusal(error: Error & { code?: string }): GatewayError {
  if (error.code !== "FST_ERR_CTP_INVALID_MEDIA_TYPE") return toGatewayError(error);
  return new GatewayError(
    "unsupported_media_type",
    "the body must be sent with the header content-type: application/json",
  );
}

function preflightAnswer(context: RequestContext): Answer {
  const fields = context.snapshot.cors.preflightFields(context.request.headers.origin);
  return { status: 204, fields: ["allow", allowedMethods(context), ...fields], body: undefined };
}

/** Lets bodies be read as bytes, but those that are passed through: they are streamed. */
function readBodies(app: FastifyInstance): Uploads {
  const uploads = new Uploads((context) => {
    refuse(context, new GatewayError("overloaded", "too many bodies are being sent; try again", { retryAfter: 1 }));
  });
  app.addHook("preParsing", ({ method, raw }, _reply, payload, done) => {
    const isRead = method !== "GET" && method !== "HEAD" && raw.readableEnded;
    // Such a request has ended before its body could be listened to (`optimizeEmptyRequests`).
    done(null, isRead ? Readable.from([]) : payload);
  });
  app.removeAllContentTypeParsers();
  app.addContentTypeParser("*", ({ context, raw }, payload, done) => {
    // Anybody may send it, without limits, and its body means nothing: Node drops it.
    if (needsNoClient(raw, context.snapshot)) done(null);
    else uploads.read(context, payload, done);
  });
  return uploads;
}

function serverOptions({ limits, listen }: Pick<Config, "listen" | "limits">) {
  return {
    maxHeaderSize: limits.uri + HEADER_BYTES,
    keepAliveTimeout: listen.keepAliveTimeout,
    headersTimeout: listen.headersTimeout,
    // The body may take as long again as the head.
    requestTimeout: 2 * listen.headersTimeout,
    connectionsCheckingInterval: 1_000,
    // A missing Host is refused by framingProblem, in our form.
    requireHostHeader: false,
    // Of a body that nobody reads yet. Node keeps chunks as they came, at some hundred bytes for each.
    highWaterMark: MOST_OF_A_BODY,
    noDelay: true,
    // Requests without a body, hits above all, are spared a stream that only ends.
    optimizeEmptyRequests: true,
  };
}

function observeServer(server: Server, { services, config, connections }: PublicListenerOptions): void {
  const { traffic } = services.observers;
  server.on("connection", (socket) => {
    traffic.connectionOpened();
    socket.once("close", () => traffic.connectionClosed());
  });
  answerParserErrors(server, {
    maxUri: config.limits.uri,
    connections,
    answer(error) {
      traffic.refusedUnparsed(error);
      return answerUnparsed(error, services.snapshots.latest.cors.answerFields(undefined));
    },
  });
}
