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

/** What clients asked for and got. */
export const TRAFFIC = {
  requests: counter("requests", {
    help: "Requests answered, by endpoint, registry and class of status.",
    labels: { operation: OPERATION, upstream: ALIAS_OR_NONE, status: STATUS_CLASS },
  }),
  errors: counter("errors", {
    help: "Errors of the gateway's own that clients got, by the code in Registry-Gateway-Error; client_gone: the client was there no longer.",
    labels: { code: ERROR_CODE },
  }),
  requestDuration: histogram("request_duration", {
    help: "From the request's head to the answer's last byte.",
    labels: { operation: OPERATION, outcome: OUTCOME },
  }),
  requestsInFlight: gauge("requests_in_flight", {
    resetBy: "reading",
    help: "Requests not answered yet, memory hits apart.",
  }),
  connections: gauge("connections", {
    resetBy: "reading",
    help: "Clients' connections that are open.",
  }),
  connectionsDropped: counter("dropped_connections", {
    help: "Connections refused because listen.maxConnections were open, none of them idle.",
  }),
  connectionsClosed: counter("closed_connections", {
    help: "Connections closed by the gateway: unread, the client took nothing of an answer for 30 s; crowded, too much waited for clients in all; idle, its place was needed; refused, it stayed open after a refusal.",
    labels: { reason: CLOSING_REASON },
  }),
  handshakeFailures: counter("tls_handshake_failures", {
    help: "Connections of clients that no TLS came of: certificate, the client showed none; http, it sent plain HTTP; timeout, 10 s were not enough.",
    labels: { reason: HANDSHAKE_FAILURE },
  }),
} as const;
