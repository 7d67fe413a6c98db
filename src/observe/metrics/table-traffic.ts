import { CACHED_OPERATIONS } from "../../spec/operations.ts";
import { counter, gauge, histogram } from "./definition.ts";
import {
  ALIAS_OR_NONE,
  CLOSING_REASON,
  ERROR_CODE,
  HANDSHAKE_FAILURE,
  OPERATION,
  OUTCOME,
  STATUS_CLASS,
} from "./labels.ts";

const CACHED = CACHED_OPERATIONS.length;
const UNCACHED = OPERATION.length - CACHED;

/** What clients asked for and got. */
export const TRAFFIC = {
  requests: counter("requests", {
    help: "Requests answered, by endpoint, registry and class of status.",
    labels: { operation: OPERATION, upstream: ALIAS_OR_NONE, status: STATUS_CLASS },
    // 1xx is never final; 3xx is a 304 of the cache or passed through.
    series: (upstreams) => (upstreams + 1) * (OPERATION.length * 4 + CACHED + 1),
    panel: { title: "Requests by registry", unit: "per second", by: ["upstream"] },
  }),
  errors: counter("errors", {
    help: "Errors of the gateway's own that clients got, by the code in Registry-Gateway-Error; client_gone: the client was there no longer.",
    labels: { code: ERROR_CODE },
    panel: { title: "Errors by code", unit: "per second", by: ["code"] },
  }),
  requestDuration: histogram("request_duration", {
    help: "From the request's head to the answer's last byte.",
    labels: { operation: OPERATION, outcome: OUTCOME },
    // What is not cached is sent on, refused, or answered by what was kept of a factory or context; extra paths are kept, too.
    series: () => (CACHED + 1) * OUTCOME.length + (UNCACHED - 1) * 3,
    panel: { title: "Latency by outcome", unit: "seconds", by: ["outcome"] },
  }),
  requestsInFlight: gauge("requests_in_flight", {
    resetBy: "reading",
    help: "Requests not answered yet, memory hits apart.",
    panel: { title: "Requests in flight", unit: "count" },
  }),
  connections: gauge("connections", {
    resetBy: "reading",
    help: "Clients' connections that are open.",
    panel: { title: "Connections", unit: "count" },
  }),
  connectionsDropped: counter("dropped_connections", {
    help: "Connections refused because listen.maxConnections were open, none of them idle.",
    panel: { title: "Connections refused", unit: "per second" },
  }),
  connectionsClosed: counter("closed_connections", {
    help: "Connections closed by the gateway: unread, the client took nothing of an answer for 30 s; crowded, too much waited for clients in all; idle, its place was needed; refused, it stayed open after a refusal.",
    labels: { reason: CLOSING_REASON },
    panel: { title: "Connections closed by the gateway", unit: "per second", by: ["reason"] },
  }),
  handshakeFailures: counter("tls_handshake_failures", {
    help: "Connections of clients that no TLS came of: certificate, the client showed none; http, it sent plain HTTP; timeout, 10 s were not enough.",
    labels: { reason: HANDSHAKE_FAILURE },
    panel: { title: "TLS handshakes failed", unit: "per second", by: ["reason"] },
  }),
} as const;
