import type { FastifyRequest } from "fastify";
import type { CacheOutcome } from "../cache/types.ts";
import type { Clock, Duration } from "../clock.ts";
import { type ErrorCode, type GatewayError, isClientGone } from "../errors.ts";
import type { Operation } from "../spec/operations.ts";

/** One request when it has ended: read by the log line, the metrics, the ring of recent requests and client usage alike. */
export interface RequestRecord {
  readonly id: string;
  /** When it began, Unix ms. */
  readonly at: number;
  /** `UNKNOWN` where Node's parser refused what came. */
  readonly method: string;
  /** URL as the client sent it: to be cut before it is shown. */
  readonly url: string;
  /** Undefined: pages, the catalogue, paths that lead nowhere. */
  readonly operation: Operation | undefined;
  readonly upstream: string | undefined;
  /** `anonymous` for all who show no credential; undefined: without `clients`, or refused before it was known. */
  readonly client: string | undefined;
  readonly tier: string | undefined;
  /** Address of the client; `trustedProxies` are passed over. */
  readonly address: string;
  /** Status as sent; 499 where the client went before its answer was complete. */
  readonly status: number;
  /** Code, where the answer is an error of the gateway's own. */
  readonly code: ErrorCode | undefined;
  /** How the cache answered; undefined: it was not asked, or the request was refused before. */
  readonly outcome: CacheOutcome | undefined;
  readonly seconds: number;
  /** Time in queues towards the registry. */
  readonly waited: Duration;
  /** Calls to nodes that this request made, or had made. */
  readonly attempts: number;
  /** Index in `urls` of the node that was asked last. */
  readonly node: number | undefined;
  /** Size of the answer's body, as sent. */
  readonly bytes: number;
  /** The client's, as it was sent. */
  readonly traceparent: string | undefined;
  /** The gateway's own error, with its cause, for the log alone. */
  readonly error: Error | undefined;
}

/** The record of a request that has ended. */
export function recordOf(request: FastifyRequest, status: number, clock: Clock): RequestRecord {
  const { state, headers } = request;
  const { client, report, error } = state;
  const elapsed: Duration = clock.now() - state.startedAt;
  const isGone = isClientGone(error);
  return {
    id: request.id,
    at: clock.wallNow() - elapsed,
    method: request.method,
    url: request.originalUrl,
    operation: state.operation,
    upstream: state.upstream?.name,
    client: client?.name,
    tier: client?.tier,
    address: request.ip,
    status: isGone ? error!.status : status,
    code: error?.code,
    outcome: state.outcome,
    seconds: elapsed / 1_000,
    waited: report?.waited ?? 0,
    attempts: report?.attempts ?? 0,
    node: report?.node,
    bytes: isGone ? 0 : state.bytes,
    traceparent: headers["traceparent"] as string | undefined,
    error,
  };
}

/** The record of what never became a request. */
export function unparsedRecord(refusal: GatewayError, address: string, clock: Clock): RequestRecord {
  return {
    id: "",
    at: clock.wallNow(),
    method: "UNKNOWN",
    url: "",
    operation: undefined,
    upstream: undefined,
    client: undefined,
    tier: undefined,
    address,
    status: refusal.status,
    code: refusal.code,
    outcome: undefined,
    seconds: 0,
    waited: 0,
    attempts: 0,
    node: undefined,
    bytes: 0,
    traceparent: undefined,
    error: undefined,
  };
}
