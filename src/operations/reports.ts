import type { ProcessStatus } from "./status.ts";
import type { FastifyInstance } from "fastify";
import type { Clock } from "../clock.ts";
import type { Config } from "../config/schema.ts";
import { GatewayError } from "../errors.ts";
import type { HistoryReport } from "../observe/history.ts";
import type { RequestFilter, RequestsReport } from "../observe/request-log.ts";
import { thisReplica } from "../version.ts";
import type { CacheContents } from "./answers.ts";
import { parsePreview, type PurgePreview } from "./cache-report.ts";
import type { ClientsReport } from "./clients-report.ts";
import type { Health } from "./conditions/health.ts";
import { type ReloadReport, reportConfig } from "./config-report.ts";
import type { Explain } from "./explain.ts";
import { readLimit, readQuery } from "./request.ts";
import type { ReadinessReport } from "./readiness.ts";
import type { ReplicasReport } from "./replicas.ts";

/** What the listener shows. */
export interface ReportsOptions {
  readonly clock: Clock;
  readonly version: string;
  /** The exposition of all metrics. */
  readonly registry: { readonly contentType: string; metrics(): Promise<string> };
  readonly readiness: { report(): ReadinessReport };
  readonly explain: Explain;
  /** The last hour, or what of it came after `since`, in milliseconds since the Unix epoch. */
  history(since?: number): HistoryReport;
  /** What is in memory, and what a purge would take of it. */
  cache(preview: PurgePreview): Promise<CacheContents>;
  /** The latest requests. */
  requests(filter: RequestFilter): RequestsReport;
  /** What each client used. */
  clients(): ClientsReport;
  /** The replicas at the same Redis. */
  readonly replicas: { report(): Promise<ReplicasReport> };
  /** How the gateway is, by the conditions that alerts are for. */
  health(): Promise<Health>;
  /** `/status` besides version, uptime and health. */
  status(): object & Pick<ProcessStatus, "inForce">;
  /** In use. */
  config(): Config;
  /** Absent where nothing is ever reloaded. */
  readonly lastReload?: (() => ReloadReport | undefined) | undefined;
}

/** Adds what is only asked: probes, metrics and reports. */
export function addReports(app: FastifyInstance, options: ReportsOptions): void {
  const { clock, version, registry, readiness, explain } = options;
  const startedAt = clock.now();
  app.get("/livez", async () => ({ status: "ok" }));
  app.get("/readyz", async (_request, reply) => {
    const report = readiness.report();
    return reply.code(report.ready ? 200 : 503).send(report);
  });
  app.get("/metrics", async (_request, reply) => {
    // As bytes: a socket takes several times as long for a text of megabytes.
    return reply.type(registry.contentType).send(Buffer.from(await registry.metrics()));
  });
  app.get("/status", async (_request, reply) => {
    const status = {
      version,
      replica: thisReplica,
      uptimeSeconds: Math.round((clock.now() - startedAt) / 1000),
      health: await options.health(),
      ...options.status(),
    };
    // Null, not absent: readers find every key.
    const body = JSON.stringify(status, (_key, value: unknown) => (value === undefined ? null : value));
    return reply.type("application/json").send(body);
  });
  app.get("/config", async (_request, reply) => reply.send(reportConfig(options.config(), options.lastReload?.())));
  app.get("/history", async ({ query }, reply) => reply.send(options.history(parseSince(query))));
  app.get("/cache", async ({ query }, reply) => reply.send(await options.cache(parsePreview(query))));
  app.get("/requests", async ({ query }, reply) => reply.send(options.requests(parseRequestFilter(query))));
  app.get("/replicas", async (_request, reply) => reply.send(await options.replicas.report()));
  app.get("/clients", async (_request, reply) => reply.send(options.clients()));
  app.get("/explain", async (request, reply) => {
    const { path, ...others } = request.query as { path?: unknown };
    // What follows an `&` that is not encoded is a parameter of this URL, and another page would be explained.
    if (typeof path !== "string" || Object.keys(others).length > 0) {
      throw new GatewayError("invalid_query", "explain takes the query parameter path, once, with each & in it as %26");
    }
    return reply.send(await explain(path));
  });
}

/** @throws GatewayError 400 for another parameter, and for a text that is no time */
function parseSince(query: unknown): number | undefined {
  const { since } = readQuery(query, ["since"]);
  if (since === undefined) return undefined;
  if (/^[0-9]{1,15}$/.test(since)) return Number(since);
  throw new GatewayError("invalid_query", "since must be one of the times in an earlier answer of this path");
}

/** By what `/requests` is filtered. */
const REQUEST_KEYS = ["limit", "since", "outcome", "code", "upstream", "client"] as const;

/** The form of a cursor of `/requests`. */
const CURSOR = /^[0-9a-z]{1,32}\.[0-9a-z]{1,32}$/;

/**
 * @throws GatewayError 400 for another parameter, one that is given twice, a `limit` that is no number from 1 to 500, and
 * a `since` that never was a cursor
 */
function parseRequestFilter(query: unknown): RequestFilter {
  const { limit, ...wanted } = readQuery(query, REQUEST_KEYS);
  const { since } = wanted;
  if (since !== undefined && !CURSOR.test(since)) {
    throw new GatewayError("invalid_query", "since must be the cursor of an earlier answer of this path");
  }
  return { limit: readLimit(limit), ...wanted };
}
