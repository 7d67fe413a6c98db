import type { IncomingMessage, Server, ServerResponse } from "node:http";
import { Readable } from "node:stream";
import { fastify, type FastifyInstance, LogController } from "fastify";
import type { HttpCache } from "../cache/http-cache.ts";
import type { Config } from "../config/schema.ts";
import { GatewayError, isClientGone, toGatewayError } from "../errors.ts";
import { Turn } from "./turn.ts";
import { answerChoiceContext } from "./choice-context.ts";
import { type Exchange, exchangeOf } from "./exchange.ts";
import { framingProblem, hasUnreadBody } from "./framing.ts";
import { createAnswerHit } from "./hit.ts";
import { answerLocal, isLocalPage } from "./local.ts";
import { answerMetadata } from "./metadata.ts";
import { answerParserErrors, isBroken } from "./parser-errors.ts";
import { PASS_THROUGH, registerPassThrough } from "./pass-through.ts";
import { recordExchange } from "./record.ts";
import { allowedMethods, cacheStatusOfError, fastifyRefusal, routeRefusal } from "./refusals.ts";
import type { Surroundings } from "./context.ts";
import { type Answer, commonFieldsOf, errorAnswer, sendAnswer } from "./send.ts";
import { Uploads } from "./uploads.ts";

/** The paths within Fastify: what a request means is decided by `parseTarget`, once, and named by one of these. */
const METADATA = "/metadata";
const CHOICE_CONTEXT = "/choice-context";
const LOCAL = "/local";
const PREFLIGHT = "/preflight";
const REFUSED = "/refused";

/** Room for header fields beside the longest URL; Node bounds both together. */
const HEADER_BYTES = 16 * 1024;

/**
 * The public listener: the token-registry API of every configured registry.
 *
 * A request goes one way: fresh memory hit, else its URL is read (`exchangeOf`), Fastify routes by what that found, and
 * one of the routes answers or throws.
 */
export function createPublicListener(surroundings: Surroundings, config: Config, cache: HttpCache): FastifyInstance {
  const answerHit = createAnswerHit(surroundings, cache);
  const { connections } = surroundings;
  const turn = new Turn();
  const uploads = new Uploads(config.limits.requestBody, (request, response) => {
    replyError(
      request,
      response,
      new GatewayError("overloaded", "too many bodies are being sent; try again", { retryAfter: 1 }),
    );
  });
  const app = fastify({
    logController: new LogController({ disableRequestLogging: true }),
    bodyLimit: config.limits.requestBody,
    exposeHeadRoutes: false,
    forceCloseConnections: "idle",
    return503OnClosing: false,
    // Fastify's own would answer before answerParserErrors does.
    clientErrorHandler: () => undefined,
    rewriteUrl: (request) => internalPath(request, surroundings),
    serverFactory: (handle) => {
      function serve(request: IncomingMessage, response: ServerResponse): void {
        if (isBroken(request)) return;
        begin(request, response);
        // The client may have gone in the very turn that brought the request.
        if (!response.destroyed) handle(request, response);
      }
      const server = connections.createServer(serverOptions(config), (request, response) => {
        try {
          if (!answerHit(request, response)) turn.atEnd(() => serve(request, response));
        } catch (error) {
          begin(request, response);
          replyError(request, response, toGatewayError(error));
        }
      });
      const refuseExpectation = connections.inTurn((request, response) => {
        begin(request, response);
        response.shouldKeepAlive = false;
        replyError(
          request,
          response,
          new GatewayError("expectation_failed", "the only expectation the gateway meets is 100-continue"),
        );
      });
      server.on("checkExpectation", refuseExpectation);
      configureServer(server, config, surroundings);
      return server;
    },
  });

  /** Counts a request that is no plain hit, and sees to it that its end is counted and logged. */
  function begin(request: IncomingMessage, response: ServerResponse): void {
    const exchange = exchangeOf(request, surroundings);
    const record = () => recordExchange(surroundings, exchange, request, response);
    surroundings.traffic.begin();
    if (response.destroyed) record();
    else response.once("close", record);
  }

  app.addHook("preClose", async () => connections.closeRefused());

  // On every route, those that refuse included.
  app.addHook("onRequest", (request, fastifyReply, done) => {
    const refusal = framingProblem(request.raw);
    if (refusal === undefined) return done();
    fastifyReply.raw.shouldKeepAlive = false;
    done(refusal);
  });

  app.addHook("preParsing", (request, reply, payload, done) => {
    const isAwaited = request.method !== "GET" && request.method !== "HEAD";
    // What is passed through is not kept.
    const isKept = isAwaited && !request.url.startsWith(PASS_THROUGH);
    if (isKept && !request.raw.complete) uploads.follow(request.raw, reply.raw);
    // Such a request has ended before anybody could hear of it (`optimizeEmptyRequests`), and Fastify waits for an end.
    done(null, isAwaited && request.raw.readableEnded ? Readable.from([]) : payload);
  });

  // Bodies are kept as bytes: what goes upstream is what came.
  app.removeAllContentTypeParsers();
  app.addContentTypeParser("*", { parseAs: "buffer" }, (_request, body, done) => done(null, body));

  function reply(request: IncomingMessage, response: ServerResponse, exchange: Exchange, answer: Answer): void {
    exchange.bytes = answer.body?.length ?? 0;
    sendAnswer(request, response, answer, commonFieldsOf(exchange, request, surroundings.isDraining()));
  }

  /** Sends what was found; where the sending fails, the client is told so. */
  function replyWith(
    request: IncomingMessage,
    response: ServerResponse,
    exchange: Exchange,
    found: Answer | GatewayError,
  ): void {
    try {
      if (found instanceof Error) replyError(request, response, found);
      else reply(request, response, exchange, found);
    } catch (error) {
      replyError(request, response, toGatewayError(error));
    }
  }

  function replyError(request: IncomingMessage, response: ServerResponse, error: GatewayError): void {
    const exchange = exchangeOf(request, surroundings);
    exchange.error = error;
    if (exchange.outcome === "bypass") exchange.outcome = "refused";
    if (isClientGone(error) || response.headersSent || response.destroyed) {
      response.destroy();
      return;
    }
    const answer = errorAnswer(error);
    const fields = [...answer.fields, ...cacheStatusOfError(exchange, error)];
    // What is left of a body nobody read would be taken for the next request.
    if (hasUnreadBody(request)) fields.push("connection", "close");
    reply(request, response, exchange, { ...answer, fields });
  }

  function route(
    method: string | string[],
    url: string,
    answer: (exchange: Exchange, request: RouteRequest) => Promise<Answer>,
  ) {
    app.route({
      method,
      url,
      handler: async (request, fastifyReply) => {
        fastifyReply.hijack();
        const { raw } = request;
        const response = fastifyReply.raw;
        const exchange = exchangeOf(raw, surroundings);
        const work = () => answer(exchange, { raw, response, body: request.body });
        const { trace } = exchange;
        let found: Answer | GatewayError;
        try {
          found = await (trace === undefined ? work() : trace.run(work));
        } catch (error) {
          found = toGatewayError(error);
        }
        turn.atEnd(() => replyWith(raw, response, exchange, found));
      },
    });
  }

  route(["GET", "HEAD"], METADATA, (exchange, { raw, response }) =>
    answerMetadata(surroundings, cache, exchange, { request: raw, response }),
  );
  route("POST", CHOICE_CONTEXT, (exchange, { raw, response, body }) =>
    answerChoiceContext(surroundings, exchange, { request: raw, response }, body as Buffer | undefined),
  );
  route(["GET", "HEAD"], LOCAL, (exchange, { raw, response }) =>
    answerLocal(surroundings, exchange, { request: raw, response }),
  );
  route("OPTIONS", PREFLIGHT, async (exchange, { raw }) => ({
    status: 204,
    fields: ["allow", allowedMethods(exchange), ...exchange.runtime.cors.preflightFields(raw.headers.origin)],
    body: undefined,
  }));
  registerPassThrough(app, surroundings, uploads);

  app.setErrorHandler((error: Error & { code?: string }, request, fastifyReply) => {
    fastifyReply.hijack();
    const response = fastifyReply.raw;
    // An answer that broke off before its first byte has left its header fields here.
    if (!response.headersSent) for (const name of response.getHeaderNames()) response.removeHeader(name);
    replyError(request.raw, response, fastifyRefusal(error, config));
  });
  app.setNotFoundHandler((request, fastifyReply) => {
    fastifyReply.hijack();
    replyError(request.raw, fastifyReply.raw, routeRefusal(exchangeOf(request.raw, surroundings)));
  });
  return app;
}

interface RouteRequest {
  readonly raw: IncomingMessage;
  readonly response: ServerResponse;
  readonly body: unknown;
}

function serverOptions(config: Config) {
  return {
    maxHeaderSize: config.limits.uri + HEADER_BYTES,
    keepAliveTimeout: config.listen.keepAliveTimeout,
    headersTimeout: config.listen.headersTimeout,
    // The body may take as long again as the head.
    requestTimeout: 2 * config.listen.headersTimeout,
    connectionsCheckingInterval: 1_000,
    // A missing Host is refused by framingProblem, in our form.
    requireHostHeader: false,
    noDelay: true,
    // Requests without a body, hits above all, are spared a stream that only ends.
    optimizeEmptyRequests: true,
  };
}

function configureServer(server: Server, config: Config, surroundings: Surroundings): void {
  const { traffic } = surroundings;
  server.on("connection", (socket) => {
    traffic.connectionOpened();
    socket.once("close", () => traffic.connectionClosed());
  });
  answerParserErrors(server, {
    maxUri: config.limits.uri,
    corsFields: () => surroundings.runtime().cors.answerFields(undefined),
    onRefused: (error) => traffic.refusedUnparsed(error),
    connections: surroundings.connections,
  });
}

function internalPath(request: IncomingMessage, surroundings: Surroundings): string {
  const { target, runtime } = exchangeOf(request, surroundings);
  if (request.method === "OPTIONS") return PREFLIGHT;
  if (target instanceof Error) return REFUSED;
  switch (target.kind) {
    case "endpoint":
      return target.endpoint.kind === "metadata" ? METADATA : CHOICE_CONTEXT;
    case "pass-through":
      return PASS_THROUGH;
    case "local":
      return isLocalPage(target.path, runtime) ? LOCAL : REFUSED;
  }
}
