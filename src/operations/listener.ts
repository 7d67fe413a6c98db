import type { AddressInfo } from "node:net";
import fastifyStatic from "@fastify/static";
import { fastify, type FastifyInstance, type FastifyReply, type FastifyRequest, LogController } from "fastify";
import type { Clock } from "../clock.ts";
import { effectiveConfig } from "../config/effective.ts";
import { ERROR_FIELD, errorBody, GatewayError, toGatewayError } from "../errors.ts";
import { quote } from "../json.ts";
import type { Logger } from "../observe/log.ts";
import type { Metrics } from "../observe/metrics.ts";
import type { RecentRequests } from "../observe/recent-requests.ts";
import type { GatewayState } from "../observe/state.ts";
import type { Snapshot } from "../requests/snapshot.ts";
import type { Sharing } from "../sharing/ports.ts";
import { type Area, checkAccess, checkMayChange, type Operator } from "./access.ts";
import { explain } from "./explain.ts";
import { purge } from "./purge.ts";
import type { Readiness } from "./readiness.ts";
import { statusOf } from "./status.ts";
import type { ClientsAnswer, RequestsAnswer } from "./types.ts";

interface OperationsOptions {
  readonly snapshot: () => Snapshot;
  readonly state: () => GatewayState;
  readonly readiness: Readiness;
  readonly isDraining: () => boolean;
  readonly sharing: Pick<Sharing, "purges">;
  readonly metrics: Metrics;
  readonly recent: RecentRequests;
  readonly log: Logger;
  readonly clock: Clock;
  /** The folder with the console's files. */
  readonly console: string;
}

declare module "fastify" {
  interface FastifyRequest {
    operator: Operator | undefined;
  }
}

/** Routes that need no token. */
const OPEN: ReadonlySet<string | undefined> = new Set(["/livez", "/readyz", "/metrics"]);

/** Bytes. */
const MOST_BODY = 16 * 1_024;
const MOST_HEAD = 16 * 1_024;
/** Probes, Prometheus and people need a few. */
const MOST_CONNECTIONS = 256;

/** The console is made of files of this listener alone, none of its text is a script, and it stands in no frame. */
const CSP =
  "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; connect-src 'self'; " +
  "base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/** RFC 9110 §11.6.1. A browser asks its user by Basic; Chromium reads one challenge of a field line. */
const CHALLENGES = ['Basic realm="registry-gateway", charset="UTF-8"', "Bearer"];

const SAFETY = {
  "cache-control": "no-store",
  "content-security-policy": CSP,
  "cross-origin-opener-policy": "same-origin",
  "cross-origin-resource-policy": "same-origin",
  "referrer-policy": "no-referrer",
  "x-content-type-options": "nosniff",
  "x-frame-options": "DENY",
};

/** The operations listener: probes, metrics, what operators look at, and the one thing that they do. Not listening yet. */
export async function createOperations(options: OperationsOptions): Promise<FastifyInstance> {
  const app = fastify({
    logController: new LogController({ disableRequestLogging: true }),
    bodyLimit: MOST_BODY,
    requestTimeout: 30_000,
    keepAliveTimeout: 72_000,
    forceCloseConnections: true,
    http: { maxHeaderSize: MOST_HEAD, headersTimeout: 15_000 },
    frameworkErrors: (_error, request, reply) => {
      sendError(request, reply, new GatewayError("malformed_path", "a part of the path is not percent-encoded UTF-8"));
    },
  });
  app.server.maxConnections = MOST_CONNECTIONS;
  app.decorateRequest("operator");
  app.addHook("onRequest", async (request, reply) => guard(request, reply, options));
  // As text: a key that comes twice is seen in the text alone.
  app.removeAllContentTypeParsers();
  app.addContentTypeParser("application/json", { parseAs: "string" }, (_request, body, done) => done(null, body));
  app.setNotFoundHandler((request, reply) => {
    sendError(request, reply, noSuchPath(`${request.method} ${quote(request.url.split("?", 1)[0]!)}`));
  });
  app.setErrorHandler((error: Error, request, reply) => {
    const refusal = refusalOf(error);
    if (refusal.status === 500) options.log.error({ err: error }, "operations request failed");
    sendError(request, reply, refusal);
  });
  addProbes(app, options);
  addReports(app, options);
  addPurge(app, options);
  await app.register(fastifyStatic, {
    root: options.console,
    prefix: "/console/",
    cacheControl: false,
    dotfiles: "ignore",
  });
  for (const path of ["/", "/console"]) app.get(path, (_request, reply) => reply.redirect("/console/"));
  return app;
}

function guard(request: FastifyRequest, reply: FastifyReply, { snapshot }: OperationsOptions): void {
  reply.headers(SAFETY);
  const route = request.routeOptions.url;
  if (OPEN.has(route)) return;
  const { method, headers } = request;
  const area: Area = route === "/" || route?.startsWith("/console") === true ? "console" : "data";
  request.operator = checkAccess({ method, headers, area }, snapshot().loaded.config.operations);
  // By method: what is added later is kept from readers, too.
  if (method !== "GET" && method !== "HEAD") checkMayChange(request.operator);
}

function addProbes(app: FastifyInstance, { readiness, metrics, state }: OperationsOptions): void {
  app.get("/livez", (_request, reply) => reply.send({ alive: true }));
  app.get("/readyz", (_request, reply) => {
    const { isReady } = readiness;
    return reply.code(isReady ? 200 : 503).send({ ready: isReady });
  });
  app.get("/metrics", async (_request, reply) => reply.type(metrics.contentType).send(await metrics.text(state())));
}

function addReports(app: FastifyInstance, options: OperationsOptions): void {
  const { snapshot, state, readiness, isDraining, metrics, recent, clock } = options;
  const since = clock.wallNow();
  app.get("/status", (_request, reply) => {
    const { port } = app.server.address() as AddressInfo;
    const { isReady } = readiness;
    const { totals } = metrics;
    const { prefix } = snapshot().loaded.config.routing;
    return reply.send(statusOf(state(), { port, prefix, since, isReady, isDraining: isDraining(), totals }));
  });
  app.get("/requests", (_request, reply) => reply.send({ requests: recent.all() } satisfies RequestsAnswer));
  app.get("/clients", (_request, reply) => {
    const { clients } = snapshot();
    const answer: ClientsAnswer = { isConfigured: clients !== undefined, clients: clients?.report() ?? [] };
    return reply.send(answer);
  });
  app.get("/config", (_request, reply) => reply.send(effectiveConfig(snapshot().loaded.config)));
  app.get("/explain", async ({ query }, reply) => {
    const { path } = query as { readonly path?: unknown };
    if (typeof path !== "string") {
      throw new GatewayError("invalid_query", "explain takes one path of the public listener: ?path=/registry/…");
    }
    return reply.send(await explain(path, snapshot()));
  });
}

function addPurge(app: FastifyInstance, options: OperationsOptions): void {
  const { snapshot } = options;
  const parts = { ...options, upstreams: () => snapshot().upstreams };
  app.post("/purge", async ({ body, operator, ip }, reply) =>
    reply.send(await purge(typeof body === "string" ? body : "", { by: operator!.name, from: ip }, parts)),
  );
}

/** Fastify's own refusals in our words; their texts may quote the request. */
function refusalOf(error: Error & { readonly code?: string; readonly statusCode?: number }): GatewayError {
  if (error.code === "FST_ERR_CTP_INVALID_MEDIA_TYPE") {
    return new GatewayError("unsupported_media_type", "send the body as Content-Type: application/json");
  }
  if (error.code === "FST_ERR_CTP_BODY_TOO_LARGE") {
    return new GatewayError("body_too_large", `the body has more than ${MOST_BODY} bytes`);
  }
  // A path that climbs out of the console's folder.
  if (error.statusCode === 403 && !(error instanceof GatewayError)) return noSuchPath("such file");
  const isRefusal = !(error instanceof GatewayError) && error.statusCode !== undefined && error.statusCode < 500;
  return isRefusal ? new GatewayError("malformed_request", "the request is not valid") : toGatewayError(error);
}

function noSuchPath(what: string): GatewayError {
  return new GatewayError("no_such_path", `there is no ${what} here`);
}

function sendError({ id }: FastifyRequest, reply: FastifyReply, error: GatewayError): void {
  reply.headers(SAFETY).header(ERROR_FIELD, error.code).header("x-request-id", id);
  if (error.retryAfter !== undefined) reply.header("retry-after", error.retryAfter);
  if (error.status === 401) reply.header("www-authenticate", CHALLENGES);
  void reply.code(error.status).type("application/json").send(errorBody(error, id));
}
