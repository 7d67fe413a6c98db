import type { IncomingMessage, ServerResponse } from "node:http";
import type { Client } from "../clients/client.ts";
import type { Clock, Instant } from "../clock.ts";
import type { GatewayError } from "../errors.ts";
import type { MetadataObserver } from "../registry/registry-metadata.ts";
import { causeOf, type Logger } from "./log.ts";
import type { ClientTraffic } from "./metrics/client-traffic.ts";
import { CLIENT_GONE, type OperationLabel, type OutcomeLabel } from "./metrics/labels.ts";
import { hashId } from "./redaction.ts";
import type { RecentRequests, RequestLog } from "./request-log.ts";
import type { RequestTrace, Tracing } from "./tracing/tracing.ts";
import type { Traffic } from "./traffic.ts";

/** What is recorded of a request that is over. */
export interface EndedRequest {
  readonly id: string;
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  readonly startedAt: Instant;
  readonly operation: OperationLabel;
  readonly outcome: OutcomeLabel;
  readonly upstream: { readonly name: string } | undefined;
  /** Who sent it; undefined where that is not known. */
  readonly client: Client | undefined;
  /** Undefined where it makes no difference who asks. */
  readonly limitState: object | undefined;
  /** The gateway's own error, when that was the answer. */
  readonly error: GatewayError | undefined;
  readonly bytes: number;
  readonly age: number | undefined;
  readonly windowUsed: number | undefined;
  /** How it went on where nothing was kept for it. */
  readonly forwarded: { readonly collapsed?: boolean | undefined } | undefined;
  readonly trace: RequestTrace | undefined;
  readonly snapshot: { readonly config: { readonly log: { readonly hits: number } } };
  /** What its URL addresses. */
  readonly target: Error | { readonly kind: "local" | "pass-through" } | EndpointTarget;
}

interface EndpointTarget {
  readonly kind: "endpoint";
  readonly endpoint: { readonly kind: string };
  readonly id: string | undefined;
}

/** What counts, logs and traces clients' requests. */
export interface RequestObservers {
  readonly log: Logger;
  readonly traffic: Traffic;
  /** Undefined where requests are not traced. */
  readonly tracing: Tracing | undefined;
  readonly metadata: Pick<MetadataObserver, "schemaViolated">;
  readonly clients: ClientTraffic;
  readonly recent: RecentRequests;
  readonly lines: Pick<RequestLog, "write">;
  /** A request is over: its answer is out, or its client has gone. */
  record(request: EndedRequest): void;
}

export interface RequestRecordOptions {
  readonly traffic: Traffic;
  readonly clients: ClientTraffic;
  readonly lines: RequestLog;
  readonly clock: Clock;
  /** Chooses the hits that are logged. */
  readonly random: () => number;
}

/** Counts and logs a finished request: one line, no bodies, no credentials, ids only as hashes. */
export function recordRequest(context: EndedRequest, options: RequestRecordOptions): void {
  const { traffic, lines, clock, random } = options;
  const { id, request, operation, outcome, error, bytes, age, windowUsed, trace } = context;
  const method = request.method!;
  const upstream = context.upstream?.name ?? "none";
  const status = statusOf(context.response, error);
  const seconds = (clock.now() - context.startedAt) / 1000;
  if (error !== undefined) traffic.failed(error.code);
  const traceId = trace?.isSampled === true ? trace.id : undefined;
  traffic.finish({ operation, upstream, outcome }, { status, age, windowUsed, seconds, traceId });
  if (context.limitState !== undefined) recordClient(context, options.clients);
  trace?.end({ requestId: id, method, operation, upstream, status, outcome, reason: error?.proxyError });
  if (outcome === "hit" && !(random() < context.snapshot.config.log.hits)) return;
  const line = {
    requestId: id,
    ...(trace === undefined ? {} : { traceId: trace.id }),
    method,
    operation,
    upstream,
    ...(context.limitState === undefined ? {} : { client: context.client?.name ?? "none" }),
    ...hashedId(context),
    status,
    outcome,
    ...(context.forwarded?.collapsed === true ? { collapsed: true } : {}),
    durationMs: Math.round(seconds * 1e6) / 1e3,
    bytes,
    ...(error === undefined ? {} : { code: error.code, reason: error.proxyError, cause: causeOf(error) }),
  };
  if (error?.code === "internal_error") lines.writeFault(line, error.cause);
  else lines.write(line);
}

function recordClient({ client, operation, outcome, error, startedAt }: EndedRequest, clients: ClientTraffic): void {
  clients.count(client, operation, outcome, startedAt);
  if (error !== undefined) clients.refused(client, error.code, startedAt);
}

/** What the client got; of an answer that broke off, why it did. */
function statusOf(response: ServerResponse, error: GatewayError | undefined): number {
  if (response.writableFinished) return response.statusCode;
  return response.headersSent && error !== undefined ? error.status : CLIENT_GONE;
}

function hashedId({ target, client, limitState }: EndedRequest): { instrument?: string; contract?: string } {
  // One whose client is not known may have a key in the place of an id.
  if (limitState !== undefined && client === undefined) return {};
  if (target instanceof Error || target.kind !== "endpoint" || target.id === undefined) return {};
  const hash = hashId(target.id);
  return target.endpoint.kind === "metadata" ? { instrument: hash } : { contract: hash };
}
