import { counter, gauge, histogram } from "./definition.ts";
import {
  ALIAS_OR_NONE,
  CLIENT,
  CLIENT_KEYS,
  CLIENT_REFUSAL,
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

/** Who asked, and whom the gateway sent away; nothing where `clients` is not configured. */
export const CLIENTS = {
  clientRequests: counter("client_requests", {
    help: "Requests answered, by client. Of tokens beyond 200 names, by issuer and tier; anonymous: those without a credential; none: not known who.",
    labels: { client: CLIENT, operation: OPERATION, outcome: OUTCOME },
  }),
  clientRefusals: counter("client_refusals", {
    help: "Requests refused because of who sent them, by client and code of the error.",
    labels: { client: CLIENT, reason: CLIENT_REFUSAL },
  }),
  clientSpared: counter("client_spared", {
    help: "Requests let in although they are over a limit of their client's tier, which has enforce: false.",
    labels: { client: CLIENT, reason: CLIENT_REFUSAL },
  }),
  clientKeysUnusable: gauge("client_keys_unusable", {
    help: "1 while the keys file, or the keys of an issuer of tokens, are no good: the last good ones are used.",
    labels: { source: CLIENT_KEYS },
  }),
} as const;
