import { ALL_ERRORS, type ErrorCode, type ProxyErrorType } from "./error-table.ts";

export type { ErrorCode, ProxyErrorType } from "./error-table.ts";

/** The field of an answer that carries the code. */
export const ERROR_FIELD = "registry-gateway-error";

interface GatewayErrorOptions {
  /** Another status than the code's own, where a registry's decides. */
  readonly status?: number | undefined;
  /** Seconds for `Retry-After`; rounded up to a whole number of at least 1. */
  readonly retryAfter?: number | undefined;
  /** A more exact reason than the code's own, for `Proxy-Status`. */
  readonly proxyError?: ProxyErrorType | undefined;
  /** Methods for `Allow`, with 405. */
  readonly allow?: string | undefined;
  /** Cause for the log alone: never in a body or field. */
  readonly cause?: unknown;
}

/**
 * An answer of the gateway's own: the code's status, and a body as {@link errorBody} makes it.
 *
 * `message` is written for the person who reads only that string: what is wrong, with what, what to do, when to come back. It
 * never names a registry's host or address.
 */
export class GatewayError extends Error {
  readonly code: ErrorCode;
  readonly status: number;
  readonly retryAfter: number | undefined;
  readonly proxyError: ProxyErrorType | undefined;
  readonly allow: string | undefined;

  constructor(code: ErrorCode, text: string, options: GatewayErrorOptions = {}) {
    super(text, options.cause === undefined ? undefined : { cause: options.cause });
    const kind = ALL_ERRORS[code];
    this.name = "GatewayError";
    this.code = code;
    this.status = options.status ?? kind.status;
    this.retryAfter = options.retryAfter === undefined ? undefined : Math.max(1, Math.ceil(options.retryAfter));
    this.proxyError = options.proxyError ?? kind.proxyError;
    this.allow = options.allow;
  }
}

/** The error of a client that does not wait for the answer any more: nobody reads it. */
export function clientGone(): GatewayError {
  return new GatewayError("client_gone", "the client closed the request");
}

/** Whether `error` says that the client does not wait any more. */
export function isClientGone(error: unknown): boolean {
  return error instanceof GatewayError && error.code === "client_gone";
}

/**
 * The body of an error of the gateway's own. Clients of the standard show their callers this body and nothing else of an
 * answer, so that it repeats what fields say.
 */
export function errorBody({ code, message, retryAfter }: GatewayError, requestId: string): string {
  return JSON.stringify({ error: `registry-gateway: ${message}`, code, requestId, retryAfter });
}

/** `reason` as a `GatewayError`: itself when it is one, else the 500 that says nothing but "internal server error". */
export function toGatewayError(reason: unknown): GatewayError {
  if (reason instanceof GatewayError) return reason;
  return new GatewayError("internal_error", "internal server error", { cause: reason });
}
