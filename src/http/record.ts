import type { IncomingMessage, ServerResponse } from "node:http";
import type { GatewayError } from "../errors.ts";
import { causeOf } from "../observe/log.ts";
import { CLIENT_GONE } from "../observe/metrics/labels.ts";
import { hashId } from "../observe/redaction.ts";
import { type Exchange, operationOf } from "./exchange.ts";
import type { Surroundings } from "./context.ts";

/** Counts and logs a finished exchange: one line, no bodies, no credentials, ids only as hashes. */
export function recordExchange(
  surroundings: Surroundings,
  exchange: Exchange,
  request: IncomingMessage,
  response: ServerResponse,
): void {
  const { traffic, log, clock } = surroundings;
  const operation = operationOf(exchange);
  const upstream = exchange.upstream?.name ?? "none";
  const { outcome, error, bytes, age } = exchange;
  const status = statusOf(response, error);
  const seconds = (clock.now() - exchange.startedAt) / 1000;
  if (error !== undefined) traffic.failed(error.code);
  traffic.finish({ operation, upstream, outcome }, { status, bytes, age, seconds });
  exchange.trace?.end({
    requestId: exchange.id,
    method: request.method ?? "",
    operation,
    upstream,
    status,
    outcome,
    reason: error?.proxyError,
  });
  if (outcome === "hit" && !(surroundings.random() < exchange.runtime.config.log.hits)) return;
  const line = {
    requestId: exchange.id,
    ...(exchange.trace === undefined ? {} : { traceId: exchange.trace.id }),
    method: request.method,
    operation,
    upstream,
    ...hashedId(exchange),
    status,
    outcome,
    durationMs: Math.round(seconds * 1e6) / 1e3,
    bytes,
    ...(error === undefined ? {} : { code: error.code, reason: error.proxyError, cause: causeOf(error) }),
  };
  if (status === 500 && error !== undefined) log.error({ ...line, err: error.cause }, "request");
  else log.info(line, "request");
}

/** What the client got; of an answer that broke off, why it did. */
function statusOf(response: ServerResponse, error: GatewayError | undefined): number {
  if (response.writableFinished) return response.statusCode;
  return response.headersSent && error !== undefined ? error.status : CLIENT_GONE;
}

function hashedId(exchange: Exchange): { instrument?: string; contract?: string } {
  const { target } = exchange;
  if (target instanceof Error || target.kind !== "endpoint" || target.id === undefined) return {};
  const hash = hashId(target.id);
  return target.endpoint.kind === "metadata" ? { instrument: hash } : { contract: hash };
}
