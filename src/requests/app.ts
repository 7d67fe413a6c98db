import type { IncomingMessage } from "node:http";
import type { Socket } from "node:net";
import cors from "@fastify/cors";
import underPressure from "@fastify/under-pressure";
import { fastify, type FastifyInstance, type FastifyReply, type FastifyRequest, type RouteOptions } from "fastify";
import { collect } from "../bodies/collect.ts";
import { withoutPorts } from "../clients/address.ts";
import type { Clock } from "../clock.ts";
import type { LoadedConfig } from "../config/loaded.ts";
import { GatewayError, toGatewayError } from "../errors.ts";
import { ENDPOINTS, type Endpoint } from "../spec/operations.ts";
import { formatSize, type Size } from "../units.ts";
import { addCommonFields, allowedOrigin } from "./answer-fields.ts";
import { answerInstruments, answerRegistries } from "./catalogue.ts";
import { answerChoice } from "./choice-context.ts";
import { type AnswerParts, beginState, endState, hold, type Listener, requestIdOf } from "./context.ts";
import { admitClient, checkJson, enter, framingProblem } from "./gate.ts";
import { answerMetadata } from "./metadata.ts";
import { answerHome, CATALOGUE, describeApi } from "./pages.ts";
import { passThrough, targetOf } from "./pass-through.ts";
import { recordOf, type RequestRecord, unparsedRecord } from "./record.ts";
import { sendError } from "./reply.ts";
import { noteAnswer, prepareServer, refuseUnparsed, type Refusing, serverOptions } from "./server.ts";
import type { Snapshot } from "./snapshot.ts";
import { addressingOf, checkPath, rewriteUrl } from "./url.ts";

interface AppOptions {
  /** Decides what a reload does not change: the listener, the prefix, the size of request bodies. */
  readonly loaded: LoadedConfig;
  /** The latest one: each request takes it once. */
  readonly snapshot: () => Snapshot;
  readonly clock: Clock;
  readonly onRequestEnd: (record: RequestRecord) => void;
}

/** Characters of one segment: a longer path does not fit into a head. */
const MOST_OF_PATH = 16_384;
/** Seconds that a browser may remember a preflight. */
const PREFLIGHT_AGE = 7_200;
/** Milliseconds: calls and misses are shed when the event loop is so late, on an average over such a time. */
const OVERLOADED = { maxEventLoopDelay: 1_000, sampleInterval: 2_000 };
/** Methods that some route takes. */
const METHODS: ReadonlySet<string> = new Set(["GET", "HEAD", "POST"]);

/** The public listener: what comes in passes the hooks in their order, and goes to one of the routes below. */
export async function createApp(options: AppOptions): Promise<FastifyInstance> {
  const { loaded, snapshot, clock, onRequestEnd } = options;
  const { requestBody } = loaded.config.limits;
  const listener: Listener = { isClosing: false };
  const refusing: Refusing = {
    config: () => snapshot().loaded.config,
    clock,
    onRefused: (refusal, address) => onRequestEnd(unparsedRecord(refusal, address, clock)),
  };
  const app: FastifyInstance = fastify({
    ...serverOptions(loaded),
    logger: false,
    return503OnClosing: false,
    bodyLimit: requestBody,
    genReqId: requestIdOf,
    rewriteUrl: (request: IncomingMessage) => rewriteUrl(request.url!, addressingOf(snapshot().loaded.config)),
    // Queries are read where they count.
    routerOptions: { maxParamLength: MOST_OF_PATH, querystringParser: () => ({}) },
    // What the router refuses comes by no hook.
    frameworkErrors(error: Error, request: FastifyRequest, reply: FastifyReply) {
      begin(request, reply, { ...options, listener });
      sendError(request, reply, gatewayErrorOf(error));
    },
    clientErrorHandler: (error: Error, socket: Socket) => refuseUnparsed(error, socket, refusing),
  } as object);
  prepareServer(app, loaded, refusing);
  app.decorateRequest("state");
  app.removeAllContentTypeParsers();
  app.addContentTypeParser("*", bodyParser(requestBody));
  app.setErrorHandler<Error>((error, request, reply) => sendError(request, reply, gatewayErrorOf(error)));
  app.addHook("preClose", async () => {
    listener.isClosing = true;
  });
  const beginning = { ...options, listener };
  app.addHook("onRequest", (request, reply, done) => done(begin(request, reply, beginning)));
  app.addHook("onSend", addCommonFields);

  // No credential: preflights, and the description of the API.
  await app.register((scope) => addPreflights(scope, snapshot));
  await app.register(describeApi);
  await app.register((scope) => addRegistryRoutes(scope, options));
  return app;
}

/** Everything of registries: the path is looked at first, then who calls and how much, then which registry is meant. */
async function addRegistryRoutes(app: FastifyInstance, { loaded, clock }: AppOptions): Promise<void> {
  const { prefix } = loaded.config.routing;
  const parts: AnswerParts = { clock, isOverloaded: await watchPressure(app) };
  app.addHook("onRequest", (request, _reply, done) => {
    checkPath(request.url);
    if (!METHODS.has(request.method)) targetOf(request, prefix);
    done();
  });
  app.addHook("onRequest", admitClient);
  app.setNotFoundHandler((request) => void targetOf(request, prefix));

  app.get("/", answerHome);
  app.get(CATALOGUE.registries, (request, reply) => answerRegistries(request, reply, parts));
  app.get(CATALOGUE.instruments, (request, reply) => answerInstruments(request, reply, parts));
  for (const base of ["/registry", `${prefix}/:admin/registry`]) {
    for (const endpoint of ENDPOINTS) app.route(endpointRoute(base, endpoint, parts));
  }
  // Whatever else is below these bases, and `extraPaths`.
  const routes = ["/registry/*", `${prefix}/:admin/registry/*`, "/*"];
  await app.register((scope) => passThrough(scope, { routes, prefix, ...parts }));
}

/** One of the 21 endpoints, below one form of base URL. */
function endpointRoute(base: string, endpoint: Endpoint, parts: AnswerParts): RouteOptions {
  const url = `${base}/${endpoint.segments.map((segment) => (segment.startsWith("{") ? ":id" : segment)).join("/")}`;
  if (isCached(endpoint)) {
    return {
      method: "GET",
      url,
      handler: (request, reply) => answerMetadata(request, reply, endpoint.operation, parts),
    };
  }
  return {
    method: "POST",
    url,
    onRequest(request, _reply, done) {
      request.state.operation = endpoint.operation;
      checkJson(request, Number(request.headers["content-length"] ?? 0));
      enter(request, parts);
      done();
    },
    handler: (request, reply) => answerChoice(request, reply, endpoint, parts.clock),
  };
}

function isCached(endpoint: Endpoint): endpoint is Extract<Endpoint, { record: { kind: "metadata" } }> {
  return endpoint.record.kind === "metadata";
}

/** `OPTIONS` anywhere: pages may send what they ask for. */
async function addPreflights(app: FastifyInstance, snapshot: () => Snapshot): Promise<void> {
  await app.register(cors, {
    origin: (origin, done) => done(null, allowedOrigin(snapshot().loaded.config, origin) ?? false),
    methods: "GET, HEAD, POST",
    maxAge: PREFLIGHT_AGE,
    strictPreflight: false,
  });
}

interface Beginning extends AppOptions {
  readonly listener: Listener;
}

/** Gives a request its state, and a record in the end. @returns the 400 for framing that parsers read differently */
function begin(request: FastifyRequest, { raw }: FastifyReply, options: Beginning): GatewayError | undefined {
  const { listener, snapshot, clock, onRequestEnd } = options;
  const state = beginState(listener, snapshot(), clock);
  request.state = state;
  const { "x-forwarded-for": forwarded } = request.raw.headers;
  // Fastify finds the client's address in it, and takes no ports.
  if (forwarded?.includes(":")) request.raw.headers["x-forwarded-for"] = withoutPorts(String(forwarded));
  noteAnswer(raw);
  raw.once("close", () => {
    endState(state, raw.writableFinished);
    onRequestEnd(recordOf(request, raw.statusCode, clock));
  });
  return framingProblem(request.raw);
}

/** Says whether calls and misses are to be shed. The plugin's own hook would shed hits, too: it gets a scope without routes. */
async function watchPressure(app: FastifyInstance): Promise<() => boolean> {
  let isOverloaded = (): boolean => false;
  await app.register(async (scope) => {
    await scope.register(underPressure, OVERLOADED);
    isOverloaded = () => scope.isUnderPressure();
  });
  return isOverloaded;
}

/** Every body is collected whole, whatever its type; it is given back when its request has ended. */
function bodyParser(limit: Size) {
  const text = `the body is larger than ${formatSize(limit)}; send less, for example fewer legs at once`;
  const tooLarge = (): GatewayError => new GatewayError("body_too_large", text);
  return async (request: FastifyRequest, payload: IncomingMessage): Promise<Buffer> => {
    const announced = Number(request.headers["content-length"]) || undefined;
    const collected = await collect(payload, { limit, announced, tooLarge });
    hold(request.state, () => collected.release());
    return collected.bytes;
  };
}

/** Refusals of Fastify's own in our words, by Fastify's code. */
const OF_FASTIFY: Readonly<Record<string, () => GatewayError>> = {
  FST_ERR_BAD_URL: () => new GatewayError("malformed_path", "the path is not percent-encoded UTF-8"),
  FST_ERR_MAX_PARAM_LENGTH: () =>
    new GatewayError("uri_too_long", "a part of the path is too long; send a shorter one"),
  FST_ERR_CTP_INVALID_MEDIA_TYPE: () =>
    new GatewayError("unsupported_media_type", "the header content-type is malformed; send application/json"),
};

function gatewayErrorOf(error: Error): GatewayError {
  const known = "code" in error ? OF_FASTIFY[String(error.code)] : undefined;
  return known?.() ?? toGatewayError(error);
}
