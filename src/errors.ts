/** Error types of the `Proxy-Status` field that the gateway uses (RFC 9209 §2.3). */
export type ProxyErrorType =
  | "dns_timeout"
  | "dns_error"
  | "destination_unavailable"
  | "destination_ip_prohibited"
  | "connection_refused"
  | "connection_terminated"
  | "connection_timeout"
  | "connection_limit_reached"
  | "tls_protocol_error"
  | "tls_certificate_error"
  | "http_request_denied"
  | "http_response_incomplete"
  | "http_response_header_section_size"
  | "http_response_body_size"
  | "http_response_content_coding"
  | "http_response_timeout"
  | "http_protocol_error"
  | "proxy_internal_response"
  | "proxy_internal_error"
  | "proxy_configuration_error";

export interface GatewayErrorOptions {
  /** Seconds for `Retry-After`; rounded up to a whole number of at least 1. */
  retryAfter?: number | undefined;
  /** Why a 502, 503 or 504 happened, for `Proxy-Status`. */
  proxyError?: ProxyErrorType;
  /** Methods for `Allow`, with 405. */
  allow?: string;
  /** For the log only; never reaches a body or header. */
  cause?: unknown;
}

/**
 * An answer of the gateway's own: `status` and the body `{"error": "registry-gateway: <text>"}`.
 *
 * `text` is written for the person who reads only that string: what is wrong, with what, what to do, when to come back.
 * It never names an upstream's host or address.
 */
export class GatewayError extends Error {
  readonly status: number;
  readonly retryAfter: number | undefined;
  readonly proxyError: ProxyErrorType | undefined;
  readonly allow: string | undefined;

  constructor(status: number, text: string, options: GatewayErrorOptions = {}) {
    super(text, options.cause === undefined ? undefined : { cause: options.cause });
    this.name = "GatewayError";
    this.status = status;
    this.retryAfter = options.retryAfter === undefined ? undefined : Math.max(1, Math.ceil(options.retryAfter));
    this.proxyError = options.proxyError;
    this.allow = options.allow;
  }
}

/** The body of an error of the gateway's own: `{"error": "registry-gateway: <text>"}`. */
export function errorBody(text: string): string {
  return JSON.stringify({ error: `registry-gateway: ${text}` });
}

/** `reason` as a `GatewayError`: itself when it is one, else the 500 that says nothing but "internal server error". */
export function toGatewayError(reason: unknown): GatewayError {
  return reason instanceof GatewayError ? reason : new GatewayError(500, "internal server error", { cause: reason });
}
