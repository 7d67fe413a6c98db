import type { RequestListener, Server } from "node:http";
import { promisify } from "node:util";
import { gzip } from "node:zlib";
import { fastify, type FastifyInstance, type FastifyReply, LogController } from "fastify";
import { prefersGzip } from "../cache/compression.ts";
import type { Duration } from "../clock.ts";
import type { Coordinator } from "../sharing/ports.ts";
import { ERROR_FIELD, errorBody, GatewayError, toGatewayError } from "../errors.ts";
import { ClientConnections } from "../connections/connections.ts";
import { framingProblem, hasUnreadBody } from "../connections/framing.ts";
import { NO_SCHEMAS } from "../connections/listening.ts";
import { answerParserErrors } from "../connections/parser-errors.ts";
import { answerUnparsed, requestIdOf } from "../requests/send.ts";
import type { Logger } from "../observe/log.ts";
import type { Metrics } from "../observe/metrics.ts";
import { type ActionParts, addAction } from "./action-route.ts";
import type { ActRequest, ActResult } from "./actions.ts";
import { Audit, type AuditEntry, parseAuditQuery } from "./audit.ts";
import { checkAccess, checkMayAct, type Credential, type OperationsAccess, type PathKind } from "./access.ts";
import { addConsole, PAGES } from "./console-files.ts";
import { addDiscovery, type DiscoveryOperations } from "./discovery.ts";
import type { PurgeResult } from "./purge.ts";
import { receiveBody } from "./request.ts";
import { addReports, type ReportsOptions } from "./reports.ts";
import { addSession, Sessions } from "./sessions.ts";
import { toPrintable } from "../words/printable.ts";

/** What the listener shows and does. */
export interface OperationsOptions extends ReportsOptions {
  readonly log: Logger;
  readonly metrics: Metrics;
  /** See `purge`. */
  purge(body: unknown): Promise<PurgeResult>;
  /** See `act`. */
  act(request: ActRequest): Promise<ActResult>;
  readonly discovery: DiscoveryOperations;
  readonly shared: Pick<Coordinator, "audit" | "replicas">;
  /** Redis is there, and nothing of what operators did so waits to be written to it. */
  isWritten(did: AuditEntry["did"]): boolean;
  readonly access: OperationsAccess;
  /** The folder with the console's files. */
  readonly console: string;
}

/** Paths that are not guarded. */
const KINDS: ReadonlyMap<string | undefined, PathKind> = new Map<string, PathKind>([
  ["/livez", "open"],
  ["/readyz", "open"],
  ["/metrics", "open"],
  ["/session", "session"],
  ...PAGES.map((path) => [path, "page"] as const),
]);

/** What is sent to these changes nothing that an operator could be held from changing. */
const HARMLESS = new Set(["/session"]);

declare module "fastify" {
  interface FastifyRequest {
    /** What an operator showed. */
    credential: Credential;
  }
}

const PURGE_BODY_BYTES = 64 * 1024;

/** Probes, Prometheus and people need a few. */
const MAX_CONNECTIONS = 512;

/** In bytes; Node bounds URL and header fields together. */
const MAX_URI = 8 * 1024;
const MAX_HEAD = 16 * 1024;

/** Characters of JSON; fewer fit into a packet or two. */
const LEAST_GZIPPED = 2_048;

const compress = promisify(gzip);

const HEAD_TIMEOUT: Duration = 15_000;
const KEEP_ALIVE: Duration = 72_000;

/** The operations listener: probes, metrics, status, explain and what operators can do. */
export function createOperationsListener(options: OperationsOptions): FastifyInstance {
  const connections = new ClientConnections({
    clock: options.clock,
    max: MAX_CONNECTIONS,
    onClosed: (reason) => options.metrics.connectionsClosed.inc({ reason }),
  });
  const app = fastify({
    schemaController: NO_SCHEMAS,
    logController: new LogController({ disableRequestLogging: true }),
    bodyLimit: PURGE_BODY_BYTES,
    genReqId: ({ headers }) => requestIdOf(headers["x-request-id"]),
    forceCloseConnections: true,
    routerOptions: { maxParamLength: 8192 },
    // Fastify's own would answer before answerParserErrors does.
    clientErrorHandler: () => undefined,
    frameworkErrors: (_error, _request, reply) => {
      sendError(reply, new GatewayError("malformed_path", "a part of the path is not percent-encoded UTF-8"));
    },
    serverFactory: (handle) => createServer(connections, handle),
  });
  app.addHook("preClose", async () => connections.closeRefused());
  app.removeAllContentTypeParsers();
  app.addContentTypeParser("application/json", receiveBody);
  const sessions = new Sessions(options.clock, options.access.operators);
  guard(app, options.access, sessions);
  addReports(app, options);
  addSession(app, sessions, options);
  addConsole(app, options.console);
  const audit = new Audit(options);
  app.get("/audit", async ({ query }, reply) => reply.send(await audit.page(parseAuditQuery(query))));
  const parts = { clock: options.clock, shared: options.shared, audit };
  addActions(app, options, parts);
  addDiscovery(app, options.discovery, parts);
  app.addHook("onReady", async () => audit.remind(() => options.status().inForce));
  app.addHook("onClose", async () => audit.close());
  app.setNotFoundHandler(({ method, url }, reply) => {
    const path = url.split("?", 1)[0]!;
    const hint =
      path === "/config/check" ? ": registry-gateway check --config FILE says what is wrong with a file" : "";
    sendError(reply, new GatewayError("no_such_path", `there is no ${method} ${path} here${hint}`));
  });
  app.setErrorHandler((error: Error & { code?: string }, _request, reply) => {
    const refusal = operationsError(error);
    if (refusal.status === 500) options.log.error({ err: error }, "operations request failed");
    sendError(reply, refusal);
  });
  return app;
}

/** Lets through what may be asked and done; nothing of it is kept by a cache, or taken by a browser for something else. */
function guard(app: FastifyInstance, access: OperationsAccess, sessions: Sessions): void {
  app.decorateRequest("credential");
  app.addHook("onRequest", async (request, reply) => {
    reply.headers({ "x-content-type-options": "nosniff", "cache-control": "no-store" });
    const { headers, raw, method } = request;
    const refusal = framingProblem(raw);
    if (refusal !== undefined) throw refusal;
    const route = request.routeOptions.url;
    const isRead = method === "GET" || method === "HEAD";
    const kind = KINDS.get(route) ?? "guarded";
    const session = () => sessions.find(headers.cookie, raw.socket.localPort ?? 0)?.identity;
    request.credential = checkAccess(headers, kind, access, session);
    // By method: an action that is added later is refused, too.
    if (route !== undefined && !isRead && !HARMLESS.has(route)) checkMayAct(access, request.credential);
  });
  app.addHook("onSend", async ({ headers }, reply, payload) => {
    const isJson = String(reply.getHeader("content-type")).startsWith("application/json");
    if (typeof payload !== "string" || !isJson) return payload;
    // What registries say stands in strings, where escapes mean the same: a terminal shows this as it is.
    const shown = toPrintable(payload);
    if (shown.length < LEAST_GZIPPED) return shown;
    reply.header("vary", "accept-encoding");
    const accepted = headers["accept-encoding"];
    if (typeof accepted !== "string" || !prefersGzip(accepted)) return shown;
    reply.header("content-encoding", "gzip").removeHeader("content-length");
    return compress(shown, { level: 4 });
  });
}

function createServer(connections: ClientConnections, handle: RequestListener): Server {
  const server = connections.createServer(
    {
      maxHeaderSize: MAX_HEAD,
      headersTimeout: HEAD_TIMEOUT,
      requestTimeout: 2 * HEAD_TIMEOUT,
      highWaterMark: 8 * 1024,
      connectionsCheckingInterval: 1_000,
      keepAliveTimeout: KEEP_ALIVE,
      // framingProblem refuses it in our form.
      requireHostHeader: false,
    },
    handle,
  );
  answerParserErrors(server, { maxUri: MAX_URI, connections, answer: (error) => answerUnparsed(error, []) });
  return server;
}

/** What is done to the cache, to nodes and to upstreams. */
function addActions(app: FastifyInstance, options: OperationsOptions, parts: ActionParts): void {
  addAction(app, parts, ["/purge", "purge"], async (body) => {
    const { purged, reach } = await options.purge(body);
    options.metrics.purges.inc({ reach });
    return { what: purged, reach, answer: { purged } };
  });
  for (const [path, on] of [["/nodes", "node"] as const, ["/upstreams", "upstream"] as const]) {
    addAction(app, parts, [path, on], async (body, operator) => {
      const { action, reach } = await options.act({ on, body, operator });
      return { what: body as object, reach, answer: { action } };
    });
  }
}

/** Fastify's own refusals in our words. */
function operationsError(error: Error & { code?: string }): GatewayError {
  if (error.code === "FST_ERR_CTP_INVALID_MEDIA_TYPE") {
    const text = "the body must be sent with the header content-type: application/json";
    return new GatewayError("unsupported_media_type", text);
  }
  // The text of other refusals may quote the request; their status is all that is shown.
  return isRefusal(error) ? new GatewayError("malformed_request", "the request is not valid") : toGatewayError(error);
}

function isRefusal(error: Error & { statusCode?: number }): boolean {
  return !(error instanceof GatewayError) && error.statusCode !== undefined && error.statusCode < 500;
}

/** Answers with an error in the form that all of ours have. */
function sendError(reply: FastifyReply, error: GatewayError): void {
  const { id } = reply.request;
  reply.header(ERROR_FIELD, error.code).header("x-request-id", id);
  // The rest of the body is not read.
  if (hasUnreadBody(reply.request.raw)) reply.header("connection", "close");
  if (error.retryAfter !== undefined) reply.header("retry-after", error.retryAfter);
  // RFC 9110 §11.6.1: a 401 says how to authenticate.
  if (error.status === 401) reply.header("www-authenticate", "Bearer");
  void reply.code(error.status).type("application/json").send(errorBody(error, id));
}
