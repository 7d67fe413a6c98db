import type { ServerResponse } from "node:http";
import type { Clock } from "../clock.ts";
import type { GatewayError } from "../errors.ts";
import type { RefusedRequest, RequestContext } from "../http/context.ts";
import { causeOf, type Logger } from "./log.ts";
import { CLIENT_GONE } from "./metrics/labels.ts";
import type { ClientTraffic } from "./metrics/client-traffic.ts";
import type { Traffic } from "./metrics/traffic.ts";
import { hashId } from "./redaction.ts";
import type { Tracing } from "./tracing/tracing.ts";

export interface RequestRecordOptions {
  readonly traffic: Traffic;
  readonly clients: ClientTraffic;
  readonly log: Logger;
  readonly clock: Clock;
  /** Chooses the hits that are logged. */
  readonly random: () => number;
}

/** Counts and logs a finished request: one line, no bodies, no credentials, ids only as hashes. */
export function recordRequest(context: RequestContext, options: RequestRecordOptions): void {
  const { traffic, log, clock, random } = options;
  const { id, request, operation, outcome, error, bytes, age, trace } = context;
  const method = request.method!;
  const upstream = context.upstream?.name ?? "none";
  const status = statusOf(context.response, error);
  const seconds = (clock.now() - context.startedAt) / 1000;
  if (error !== undefined) traffic.failed(error.code);
  traffic.finish({ operation, upstream, outcome }, { status, bytes, age, seconds });
  if (context.standing !== undefined) recordClient(context, options.clients);
  trace?.end({ requestId: id, method, operation, upstream, status, outcome, reason: error?.proxyError });
  if (outcome === "hit" && !(random() < context.snapshot.config.log.hits)) return;
  const line = {
    requestId: id,
    ...(trace === undefined ? {} : { traceId: trace.id }),
    method,
    operation,
    upstream,
    ...(context.standing === undefined ? {} : { client: context.client?.name ?? "none" }),
    ...hashedId(context),
    status,
    outcome,
    durationMs: Math.round(seconds * 1e6) / 1e3,
    bytes,
    ...(error === undefined ? {} : { code: error.code, reason: error.proxyError, cause: causeOf(error) }),
  };
  if (status === 500 && error !== undefined) log.error({ ...line, err: error.cause }, "request");
  else log.info(line, "request");
}

function recordClient({ client, operation, outcome, error, startedAt }: RequestContext, clients: ClientTraffic): void {
  clients.count(client, operation, outcome, startedAt);
  if (error !== undefined) clients.refused(client, error.code, startedAt);
}

/** Counts and logs a request that was refused before anything was done for it; as {@link recordRequest}. */
export function recordRefused(
  refused: RefusedRequest,
  tracing: Tracing | undefined,
  options: RequestRecordOptions,
): void {
  const { id, request, client, operation, error, startedAt, bytes } = refused;
  const { traffic, clients, log, clock } = options;
  const { code, status } = error;
  const elapsed = clock.now() - startedAt;
  const method = request.method!;
  traffic.refused(code, operation, { status, bytes, age: undefined, seconds: elapsed / 1000 });
  clients.count(client, operation, "refused", startedAt);
  clients.refused(client, code, startedAt);
  const topic = { requestId: id, method, operation, upstream: "none", status, outcome: "refused" } as const;
  tracing?.begin(request.headers, elapsed).end(topic);
  const durationMs = Math.round(elapsed * 1e3) / 1e3;
  log.info({ ...topic, client: client?.name ?? "none", durationMs, bytes, code }, "request");
}

/** What the client got; of an answer that broke off, why it did. */
function statusOf(response: ServerResponse, error: GatewayError | undefined): number {
  if (response.writableFinished) return response.statusCode;
  return response.headersSent && error !== undefined ? error.status : CLIENT_GONE;
}

function hashedId({ target }: RequestContext): { instrument?: string; contract?: string } {
  if (target instanceof Error || target.kind !== "endpoint" || target.id === undefined) return {};
  const hash = hashId(target.id);
  return target.endpoint.kind === "metadata" ? { instrument: hash } : { contract: hash };
}
